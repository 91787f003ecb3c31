package databasetest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/database"
)

// newest is the newest schema, as Migrate made it in the first database of each kind of this process. All further
// databases are copies of it, which MariaDB makes in a third of the time.
var newest struct {
	sync.Mutex
	mysql  string // the statements that make it
	sqlite []byte // a file that has it
}

// Migrated returns the DSN of a fresh database that has the newest schema, on the MariaDB that the test process
// shares. A server finds nothing to migrate there; a test of its migrations uses testkit.SharedMariaDB.
func Migrated(t testing.TB) string {
	t.Helper()
	o := MariaDB(t)
	if err := fill(o); err != nil {
		t.Fatal(err)
	}
	return o.MySQLDSN
}

// Schema returns the statements that make the tables and indexes of a database, and the versions it has.
func Schema(t testing.TB, o database.Options) []string {
	t.Helper()
	db := OpenSQL(t, o)
	if o.SQLitePath != "" {
		list, err := texts(db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL UNION ALL "+
			"SELECT version_id || ' ' || is_applied FROM goose_db_version ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	text, err := schemaOf(db)
	if err != nil {
		t.Fatal(err)
	}
	// MySQL names the character set of a column beside its collation where the statement that made the column did. The
	// collation says the set too.
	return strings.Split(strings.ReplaceAll(text, " CHARACTER SET utf8mb4 COLLATE utf8mb4", " COLLATE utf8mb4"), "\n")
}

// fill gives the newest schema to a database that has no tables. It leaves every other database as it is.
func fill(o database.Options) error {
	if o.SQLitePath != "" {
		return fillFile(o)
	}
	cfg, err := mysql.ParseDSN(o.MySQLDSN)
	if err != nil {
		return fmt.Errorf("read DSN: %w", err)
	}
	cfg.MultiStatements = true
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = 0, 0, 0 // a busy server takes longer than some tests let it
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer db.Close()
	tables, err := tablesOf(db)
	if err != nil || len(tables) > 0 {
		return err
	}
	newest.Lock()
	if newest.mysql == "" {
		defer newest.Unlock()
		if err := migrate(o); err != nil {
			return err
		}
		newest.mysql, err = schemaOf(db)
		return err
	}
	newest.Unlock()
	if _, err := db.ExecContext(context.Background(), newest.mysql); err != nil {
		return fmt.Errorf("copy the schema: %w", err)
	}
	return nil
}

// fillFile is fill for a file of SQLite, which does not exist or is empty.
func fillFile(o database.Options) error {
	if info, err := os.Stat(o.SQLitePath); err == nil && info.Size() > 0 {
		return nil
	}
	newest.Lock()
	defer newest.Unlock()
	if newest.sqlite != nil {
		return os.WriteFile(o.SQLitePath, newest.sqlite, 0o600)
	}
	err := migrate(o) // which leaves no log beside the file
	if err == nil {
		newest.sqlite, err = os.ReadFile(o.SQLitePath)
	}
	return err
}

func migrate(o database.Options) error {
	db, err := database.Open(o)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Migrate(context.Background())
}

// counted is where the statement of a table says how many rows it has had.
var counted = regexp.MustCompile(` AUTO_INCREMENT=[0-9]+`)

// schemaOf returns the statements that make the tables of a database, and the rows of the only table that has any
// after a migration: the versions.
func schemaOf(db *sql.DB) (string, error) {
	tables, err := tablesOf(db)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, table := range tables {
		var name, create string
		if err := db.QueryRowContext(context.Background(), "SHOW CREATE TABLE "+table).Scan(&name, &create); err != nil {
			return "", fmt.Errorf("read the table %s: %w", table, err)
		}
		text.WriteString(counted.ReplaceAllString(create, "") + ";\n")
	}
	versions, err := texts(db, "SELECT CONCAT('(', version_id, ', ', is_applied, ')') FROM goose_db_version ORDER BY id")
	if err != nil {
		return "", err
	}
	text.WriteString("INSERT INTO goose_db_version (version_id, is_applied) VALUES " + strings.Join(versions, ", "))
	return text.String(), nil
}

func tablesOf(db *sql.DB) ([]string, error) { return texts(db, "SHOW TABLES") }

// texts reads the one column of a query.
func texts(db *sql.DB, query string) (list []string, err error) {
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		list = append(list, text)
	}
	return list, rows.Err()
}
