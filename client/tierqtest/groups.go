package tierqtest

import (
	"encoding/json"
	"fmt"

	"github.com/tierq/tierq/client"
)

// Batches returns the batches that were made, in order, as a client sees them. Jobs has their members, and their then
// jobs once they are owed.
func (s *Server) Batches() []client.Batch { return decoded[client.Batch](s.fake.Batches()) }

// Flows returns the accepted flows with their jobs, in order, as a client sees them.
func (s *Server) Flows() []client.Flow { return decoded[client.Flow](s.fake.Flows()) }

func decoded[T any](texts []json.RawMessage) []T {
	all := make([]T, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal(text, &all[i]); err != nil {
			panic(fmt.Sprintf("tierqtest: %s: %v", text, err)) // the fake wrote it
		}
	}
	return all
}
