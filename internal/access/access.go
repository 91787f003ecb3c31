// Package access keeps the SQL rows of API keys and of the log of changes.
package access

import "github.com/tierq/tierq/internal/database"

// Store is the rows of API keys and of the log of changes. It is safe for concurrent use.
type Store struct{ db *database.DB }

// New makes a store in a database, which the caller closes.
func New(db *database.DB) *Store { return &Store{db} }
