package database

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

func TestMySQLConfig(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	cfg, err := mysqlConfig("u:p@tcp(db:3307)/tierq?parseTime=false&clientFoundRows=true&multiStatements=true&loc=Local",
		nil, log)
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.ParseTime || cfg.Loc != time.UTC || !cfg.RejectReadOnly || cfg.ClientFoundRows || cfg.MultiStatements {
		t.Errorf("%+v", cfg)
	}
	if cfg.Timeout != 2*time.Second || cfg.ReadTimeout != 5*time.Second || cfg.WriteTimeout != 5*time.Second {
		t.Errorf("timeouts %v %v %v", cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout)
	}
	if cfg.Collation != "utf8mb4_general_ci" || cfg.Params["time_zone"] != "'+00:00'" ||
		cfg.Params["innodb_lock_wait_timeout"] != "3" {
		t.Errorf("%q %v", cfg.Collation, cfg.Params)
	}
	cfg, err = mysqlConfig("u:p@tcp(db:3307)/tierq?readTimeout=9s&innodb_lock_wait_timeout=7&collation=utf8mb4_bin", nil,
		log)
	if err != nil || cfg.ReadTimeout != 9*time.Second || cfg.Params["innodb_lock_wait_timeout"] != "7" ||
		cfg.Collation != "utf8mb4_bin" {
		t.Errorf("the DSN's own settings are lost: %v %+v", err, cfg)
	}
}

func TestVerdicts(t *testing.T) {
	my := func(number uint16, state string) error {
		e := &mysql.MySQLError{Number: number}
		copy(e.SQLState[:], state)
		return fmt.Errorf("insert: %w", e)
	}
	for _, c := range []struct {
		name string
		err  error
		want Verdict
	}{
		{"deadlock", my(1213, "40001"), Conflict},
		{"lock wait", my(1205, "HY000"), Conflict},
		{"too long", my(1406, "22001"), BadData},
		{"not null", my(1048, "23000"), BadData},
		{"incorrect string, MySQL", my(1366, "HY000"), BadData},
		{"CHECK, MariaDB", my(4025, "23000"), BadData},
		{"larger than a packet", mysql.ErrPktTooLarge, BadData},
		{"too many connections", my(1040, "08004"), Outage},
		{"shutting down", my(1053, "08S01"), Outage},
		{"read-only", my(1290, "HY000"), Outage},
		{"statement timeout", my(3024, "HY000"), Outage},
		{"no such table", my(1146, "42S02"), Outage},
		{"bad connection", driver.ErrBadConn, Outage},
		{"deadline", context.DeadlineExceeded, Outage},
		{"anything else", errors.New("surprise"), Outage},
	} {
		if got := mysqlVerdict(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Options of a DSN that would open the connection to an attacker on the network are refused, and the error does
// not show the password.
func TestDSNsThatTrustAnybody(t *testing.T) {
	t.Attr("proves", "A48")
	log := slog.New(slog.DiscardHandler)
	roots := x509.NewCertPool()
	for query, want := range map[string]string{
		"tls=skip-verify": "TIERQ_CA_FILE", "tls=preferred": "TIERQ_CA_FILE",
		"tls=true&allowFallbackToPlaintext=true": "TIERQ_CA_FILE",
		"allowFallbackToPlaintext=true":          "TIERQ_CA_FILE", "allowCleartextPasswords=true": "tls=true",
		"allowAllFiles=true": "allowAllFiles",
		"tls=mine":           "mine", "": "", "tls=false": "", "tls=true": "", "tls=true&allowCleartextPasswords=true": "",
	} {
		cfg, err := mysqlConfig("u:hunter2@tcp(db:3307)/tierq?"+query, roots, log)
		switch {
		case want == "" && err != nil, want != "" &&
			(err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q", query, err, want)
		case want == "" && strings.Contains(query, "tls=true") &&
			(cfg.TLS.ServerName != "db" || cfg.TLS.RootCAs != roots || cfg.TLS.MinVersion != tls.VersionTLS12):
			t.Errorf("%s: %+v", query, cfg.TLS)
		}
	}
}
