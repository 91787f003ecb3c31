package web

import (
	_ "embed"
	"encoding/json"
)

//go:embed types.json
var typesJSON []byte

// readTypes reads the job types that every server has: their payloads as docs/openapi.yaml describes them, and examples
// that work anywhere.
func readTypes() []JobType {
	var list []JobType
	if err := json.Unmarshal(typesJSON, &list); err != nil {
		panic(err) // embedded
	}
	return list
}
