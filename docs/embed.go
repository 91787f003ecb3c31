// Package docs embeds what the server itself shows of these pages.
package docs

import _ "embed" // the description

// OpenAPI describes the HTTP API: OpenAPI 3.1. It is served at /openapi.yaml and readable at /docs.
//
//go:embed openapi.yaml
var OpenAPI []byte
