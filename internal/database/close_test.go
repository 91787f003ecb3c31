package database_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
)

// A pool has an idle connection that the network has reset. The driver cannot send its goodbye on it, and Close is
// right all the same.
func TestCloseOfResetConnection(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		cfg, err := mysql.ParseDSN(databasetest.MariaDB(t).MySQLDSN)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		reset, done := make(chan bool), make(chan error, 1)
		go func(backend string) { done <- relayUntil(listener, backend, reset) }(cfg.Addr)

		cfg.Addr = listener.Addr().String()
		db, err := database.Open(database.Options{MySQLDSN: cfg.FormatDSN()})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(reset)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// relayUntil carries connections to backend and back, and resets them all when the channel closes.
func relayUntil(listener net.Listener, backend string, reset <-chan bool) error {
	accepted := make(chan net.Conn)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			accepted <- client
		}
	}()
	var errs []error
	var clients []*net.TCPConn
	for {
		select {
		case client := <-accepted:
			server, err := net.Dial("tcp", backend)
			if err != nil {
				return err
			}
			defer server.Close()
			go func() { _, _ = io.Copy(server, client) }()
			go func() { _, _ = io.Copy(client, server) }()
			clients = append(clients, client.(*net.TCPConn))
		case <-reset:
			for _, client := range clients {
				errs = append(errs, client.SetLinger(0), client.Close())
			}
			return errors.Join(errs...)
		}
	}
}
