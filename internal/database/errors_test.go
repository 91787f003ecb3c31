package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/ncruces/go-sqlite3"
)

// ChangedNothing tells errors after which certainly nothing changed from those after which something may have.
func TestChangedNothing(t *testing.T) {
	my := func(number uint16) error {
		return fmt.Errorf("update: %w", &mysql.MySQLError{Number: number, SQLState: [5]byte{'H', 'Y', '0', '0', '0'}})
	}
	mariadb := &DB{Dialect: Dialect{Verdict: mysqlVerdict, refused: mysqlRefused}}
	sqlite := &DB{Dialect: Dialect{Verdict: sqliteVerdict, refused: sqliteRefused}}
	for name, c := range map[string]struct {
		of   *DB
		err  error
		want bool
	}{
		"refused":                       {mariadb, &net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		"no connection was good":        {mariadb, driver.ErrBadConn, true},
		"denied":                        {mariadb, my(1045), true},
		"too many connections":          {mariadb, my(1040), true},
		"deadlock":                      {mariadb, my(1213), true},
		"lock wait":                     {mariadb, my(1205), true},
		"the disk is full":              {mariadb, my(1021), true},
		"the connection broke":          {mariadb, mysql.ErrInvalidConn, false},
		"broke while reading":           {mariadb, &net.OpError{Op: "read", Err: errors.New("reset")}, false},
		"the server stops":              {mariadb, my(1053), false},
		"interrupted":                   {mariadb, my(1317), false},
		"deadline":                      {mariadb, context.DeadlineExceeded, false},
		"surprise":                      {mariadb, errors.New("surprise"), false},
		"sqlite: full":                  {sqlite, fmt.Errorf("update: %w", sqlite3.FULL), true},
		"sqlite: read-only":             {sqlite, sqlite3.READONLY, true},
		"sqlite: cannot be opened":      {sqlite, sqlite3.CANTOPEN, true},
		"sqlite: busy":                  {sqlite, sqlite3.BUSY, true},
		"sqlite: the disk fails":        {sqlite, sqlite3.IOERR, false},
		"sqlite: broken off by a clock": {sqlite, context.DeadlineExceeded, false},
	} {
		if got := c.of.ChangedNothing(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
