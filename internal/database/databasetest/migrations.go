package databasetest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Migrations returns the versions of all migrations, in order. There may be gaps between them. The caller's package is
// a folder of internal.
func Migrations(t testing.TB) (versions []int) {
	t.Helper()
	for _, dialect := range []string{"sqlite", "mysql"} {
		files, err := os.ReadDir("../database/migrations/" + dialect)
		if err != nil {
			t.Fatal(err)
		}
		var found []int
		for _, f := range files {
			number, _, _ := strings.Cut(f.Name(), "_")
			version, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("migration %s: %v", f.Name(), err)
			}
			found = append(found, version)
		}
		slices.Sort(found)
		if versions != nil && !slices.Equal(versions, found) {
			t.Fatalf("the dialects have the migrations %v and %v", versions, found)
		}
		versions = found
	}
	return versions
}
