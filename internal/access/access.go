// Package access stores the API keys and the log of changes in SQL.
package access

import "github.com/tierq/tierq/internal/database"

// Store reads and writes the rows of API keys and of the log of changes. It is safe for concurrent use.
type Store struct{ db *database.DB }

// New makes a Store for a database. The caller closes the database.
func New(db *database.DB) *Store { return &Store{db} }
