package databasetest

import (
	"database/sql"
	"time"

	_ "github.com/go-sql-driver/mysql"       // registers mysql
	_ "github.com/ncruces/go-sqlite3/driver" // registers sqlite3

	"github.com/tierq/tierq/internal/database"
)

// openSQL opens a database with database/sql alone.
func openSQL(o database.Options) (*sql.DB, error) {
	if o.MySQLDSN != "" {
		return sql.Open("mysql", o.MySQLDSN)
	}
	return sql.Open("sqlite3", "file:"+o.SQLitePath+"?_pragma=busy_timeout(5000)")
}

// plain converts the two drivers' values to the same types.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.000000")
	}
	return v
}
