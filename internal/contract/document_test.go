package contract

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/tierq/tierq/docs"
)

func load(t *testing.T, open ...string) *Contract {
	t.Helper()
	c, err := Load(open...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Another library accepts the description as OpenAPI 3.1 too: every reference has a target, and every example fits.
func TestDocument_IsOpenAPI31(t *testing.T) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Errorf("openapi: %s", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableExamplesValidation(),
		openapi3.EnableMultiError()); err != nil {
		t.Error(err)
	}
}
