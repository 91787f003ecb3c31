package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

// The pages about the architecture match the code: its rooms, scripts and decisions.
func TestDocs(t *testing.T) {
	t.Attr("proves", "S2-W6 S2-C3 S2-P17")
	architecture, states, index := read(t, "docs", "ARCHITECTURE.md"), read(t, "docs", "STATES.md"),
		read(t, "docs", "adr", "README.md")
	for _, heading := range []string{"## How a job flows\n\n```", "## How a job comes back\n\n```", "## The rooms",
		"## Decisions"} {
		if !strings.Contains(architecture, heading) {
			t.Errorf("ARCHITECTURE.md has no %q", heading)
		}
	}
	for _, room := range names(t, "internal/*") {
		if !strings.Contains(architecture, "`internal/"+room+"`") {
			t.Errorf("ARCHITECTURE.md does not name the room internal/%s", room)
		}
	}
	for _, m := range regexp.MustCompile("`(internal/[a-z0-9/]+)`").FindAllStringSubmatch(architecture, -1) {
		if _, err := os.Stat(filepath.Join("..", "..", m[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
		}
	}
	for _, script := range names(t, "lua/*.lua") {
		name := strings.TrimSuffix(script, ".lua")
		if name != "prelude" && !strings.Contains(states, name) {
			t.Errorf("STATES.md does not name the script %s", name)
		}
	}
	for _, adr := range names(t, "docs/adr/0*.md") {
		if !strings.Contains(index, "("+adr+")") {
			t.Errorf("adr/README.md does not list %s", adr)
		}
	}
}

// KEYS.md names each key that keys.go spells, and each word of the texts that the head of the prelude lays out.
func TestKeysPage(t *testing.T) {
	t.Attr("proves", "S2-K4")
	page, source := read(t, "docs", "KEYS.md"), read(t, "internal", "queue", "keys.go")
	for _, m := range regexp.MustCompile(`(?m)^\t"[a-z_]+": +"([^"]+)",`).FindAllStringSubmatch(source, -1) {
		if !strings.Contains(page, "`"+m[1]) {
			t.Errorf("KEYS.md does not name %s", m[1])
		}
	}
	head, _, _ := strings.Cut(read(t, "lua", "prelude.lua"), "\n\n")
	head = strings.ReplaceAll(strings.ReplaceAll(head, "\n--", ""), `\n`, " ")
	words := 0
	for _, text := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(head, -1) {
		for _, word := range regexp.MustCompile(`[a-z_]+`).FindAllString(text[1], -1) {
			words++
			if !strings.Contains(page, "`"+word+"`") {
				t.Errorf("KEYS.md does not explain the word %s of %q", word, text[1])
			}
		}
	}
	if words < 40 {
		t.Errorf("the head of the prelude has %d words of texts", words)
	}
}
