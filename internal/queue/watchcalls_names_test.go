package queue

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scriptNames has every script in lua/.
func TestScriptNames(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		if !slices.Contains([]string{"prelude", "lines", "lines_write", "places", "room"}, name) {
			want = append(want, name)
		}
	}
	if got := slices.Sorted(maps.Values(scriptNames())); !slices.Equal(got, want) {
		t.Errorf("knows %q, there are %q", got, want)
	}
}
