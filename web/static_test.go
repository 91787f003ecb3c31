package web

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sourcesOf are this package's files with an ending, tests and what is vendored left out.
func sourcesOf(t *testing.T, ending string) map[string]string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*" + ending, "static/face/*" + ending, "templates/*" + ending} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	all := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// All script and style together stay under 80 KB as they are sent.
func TestSizes(t *testing.T) {
	sum, most := 0, 80<<10
	for name, f := range set.files {
		if f.script() {
			t.Logf("%-16s %6d B, %6d B zipped", name, len(f.plain), len(f.gzip))
			sum += len(f.gzip)
		}
	}
	t.Logf("%d B of %d", sum, most)
	if sum > most || sum < 20<<10 {
		t.Errorf("%d B of %d", sum, most)
	}
}

// Files are kept for good by browsers, zipped for those who can read that, and named by what is in all of them.
func TestStaticFiles(t *testing.T) {
	pages := set.Static()
	if len(pages) < 10 || !regexp.MustCompile(`^/static/[0-9a-f]{12}/$`).MatchString(set.base) {
		t.Fatalf("%d files under %s", len(pages), set.base)
	}
	for _, p := range pages {
		name := strings.TrimPrefix(p.Path, set.base)
		plain, zipped := get(t, pages, p.Path), get(t, pages, p.Path, "Accept-Encoding", "gzip")
		if plain.Header().Get("Content-Encoding") != "" || zipped.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %v, %v", name, plain.Header(), zipped.Header())
		}
		if string(unzip(zipped.Body.Bytes())) != plain.Body.String() || plain.Body.Len() == 0 {
			t.Errorf("%s is not the same zipped", name)
		}
		for key, want := range map[string]string{"Cache-Control": "public, max-age=31536000, immutable",
			"X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding"} {
			if got := plain.Header().Get(key); got != want {
				t.Errorf("%s: %s is %q", name, key, got)
			}
		}
		if plain.Header().Get("Content-Type") == "" {
			t.Errorf("%s has no type", name)
		}
	}
	changed := files()
	before := digest(changed)
	changed["core.js"].plain = append(changed["core.js"].plain, ' ')
	if digest(changed) == before {
		t.Error("another file under the same address")
	}
}

// Modules import each other by relative names of files that are served.
func TestModules(t *testing.T) {
	imports := regexp.MustCompile(`(?m)^import .* from "\./([^"]+)";`)
	for file, text := range sourcesOf(t, ".js") {
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			if set.files[m[1]] == nil {
				t.Errorf("%s imports %s", file, m[1])
			}
		}
		if strings.Contains(text, "://") && !strings.Contains(text, "http://www.w3.org/2000/svg") {
			t.Errorf("%s names another host", file)
		}
	}
}
