//go:build long

package chaos

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"
)

// The checker objects to every server with a seeded bug. TestMutationsFit shows that each bug can be seeded.
func TestMutations(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	err := Mutations(ctx, &told, regexp.MustCompile("."), nil)
	if err != nil {
		t.Error(err)
	}
	t.Log("\n" + told.String())
}
