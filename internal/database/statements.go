package database

import (
	"context"
	"database/sql/driver"
	"errors"
)

// maxKept is how many prepared statements a connection keeps. tierq has fewer: statements for many rows have a few
// fixed sizes (see Sizes).
const maxKept = 256

// keeping makes connections with a cache of prepared statements each, so that the database parses a statement once per
// connection. A cache that all connections share can deadlock: a call that prepares a statement waits for a free
// connection, and the transactions that hold the connections wait for that statement.
type keeping struct{ driver.Connector }

func (c keeping) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &keepingConn{Conn: conn, kept: map[string]statement{}}, nil
}

// statement is a prepared statement of both drivers.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
}

// keepingConn makes database/sql prepare each statement that has arguments, and close it after use. It needs no lock:
// database/sql uses a connection from one goroutine at a time.
type keepingConn struct {
	driver.Conn
	kept map[string]statement
}

func (c *keepingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if s, ok := c.kept[query]; ok {
		delete(c.kept, query) // Close puts it back
		return &keptStatement{s, c, query}, nil
	}
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &keptStatement{s.(statement), c, query}, nil
}

// ExecContext sends a statement without arguments unprepared, for example a BEGIN: databases cannot prepare all of
// them. A statement with arguments goes on to PrepareContext.
func (c *keepingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) > 0 {
		return nil, driver.ErrSkip
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, nil)
}

// CheckNamedValue leaves the arguments to the statement.
func (c *keepingConn) CheckNamedValue(*driver.NamedValue) error { return nil }

func (c *keepingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c *keepingConn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *keepingConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *keepingConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c *keepingConn) Close() error { return errors.Join(c.forget(), c.Conn.Close()) }

func (c *keepingConn) forget() error {
	var all []error
	for query, s := range c.kept {
		all = append(all, s.Close())
		delete(c.kept, query)
	}
	return errors.Join(all...)
}

// keptStatement goes back into its connection's cache when it is closed.
type keptStatement struct {
	statement
	conn  *keepingConn
	query string
}

func (s *keptStatement) Close() error {
	if _, other := s.conn.kept[s.query]; other {
		return s.statement.Close()
	}
	var err error
	if len(s.conn.kept) >= maxKept {
		err = s.conn.forget()
	}
	s.conn.kept[s.query] = s.statement
	return err
}
