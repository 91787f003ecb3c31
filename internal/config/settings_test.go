package config

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false,
	"write .env.example and the table in docs/SETTINGS.md from the table of settings")

const (
	exampleFile = "../../.env.example"
	docsFile    = "../../docs/SETTINGS.md"
)

func TestExampleFile(t *testing.T) {
	if *update {
		if err := os.WriteFile(exampleFile, []byte(Example()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	known := knownNames()
	listed := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^(?:# )?([A-Z][A-Z0-9_]+)=`).FindAllStringSubmatch(string(text), -1) {
		listed[line[1]] = true
		if !known[line[1]] && !strings.HasPrefix(line[1], "MYSQL_") && line[1] != "REDIS_PASSWORD" {
			t.Errorf(".env.example has %s, which is no setting", line[1])
		}
	}
	for name := range known {
		if !listed[name] {
			t.Errorf(".env.example lacks %s", name)
		}
	}
	if string(text) != Example() {
		t.Error(".env.example is stale: go test ./internal/config -run Example -update")
	}
}

// Every setting has a text, a bounded one also the reason of its bounds, and no text is of another name.
func TestTexts(t *testing.T) {
	known := map[string]bool{}
	for _, s := range Settings() {
		known[s.Name] = true
		if s.Doc == "" || (s.Max != "") != (s.Why != "") {
			t.Errorf("%s: its text is %q, bounded by %q because %q", s.Name, s.Doc, s.Max, s.Why)
		}
	}
	for name := range texts {
		if !known[name] {
			t.Errorf("texts.go has %s, which is no setting", name)
		}
	}
}

// The example changes nothing, neither as it is nor with every default made explicit.
func TestExampleLoads(t *testing.T) {
	want, err := Load(nil, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	explicit := regexp.MustCompile(`(?m)^# ([A-Z][A-Z0-9_]+=)`).ReplaceAllString(Example(), "$1")
	for _, text := range []string{Example(), explicit} {
		got, err := Load(nil, write(t, text), nil)
		if err != nil || got != want {
			t.Errorf("%v\n%v", err, got)
		}
	}
}

func TestDocs(t *testing.T) {
	const begin, end = "<!-- settings -->\n", "<!-- /settings -->"
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	shown, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/SETTINGS.md lacks the marks %q and %q", begin, end)
	}
	if *update {
		shown = Markdown()
		if err := os.WriteFile(docsFile, []byte(head+begin+shown+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if shown != Markdown() {
		t.Error("docs/SETTINGS.md is stale: go test ./internal/config -run Docs -update")
	}
}

// A row is complete: a name, a unique flag, and a one-line doc. A number has bounds with a reason.
func TestTable(t *testing.T) {
	flags := map[string]bool{}
	for _, s := range Settings() {
		if s.Name == "" || s.Doc == "" || strings.ContainsAny(s.Doc, "\n|") || flags[s.Flag] {
			t.Errorf("incomplete: %+v", s)
		}
		flags[s.Flag] = true
		if (s.Min == "") != (s.Max == "") || (s.Min == "") != (s.Why == "") {
			t.Errorf("%s has half a bound", s.Name)
		}
		if s.Max != "" && bound(s.Min, s) >= bound(s.Max, s) {
			t.Errorf("%s: %s is not below %s", s.Name, s.Min, s.Max)
		}
		if s.Max == "" && strings.Trim(s.Default, "0123456789") == "" && s.Default != "" {
			t.Errorf("%s is a number without bounds", s.Name)
		}
	}
	if Default("TIERQ_ADDR") != "127.0.0.1:8080" || Default("TIERQ_NOPE") != "" {
		t.Error("Default")
	}
}

func TestSizesReadBack(t *testing.T) {
	for _, n := range []int64{0, 1, 1000, 1024, 1536, 65536, 65537, 1 << 20, 512 << 10, 3 << 30} {
		if got, err := parseSize(formatSize(n)); err != nil || got != n {
			t.Errorf("%d -> %s -> %d, %v", n, formatSize(n), got, err)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"ADDR", "ADDER", 1}, {"same", "same", 0}} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("%s to %s: %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
