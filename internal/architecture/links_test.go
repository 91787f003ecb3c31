package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	pageLink = regexp.MustCompile(`(?:\]\(|href="|src="|srcset=")([^)\s"]+)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// pagesOf returns the texts of all pages of the repository, by their paths from its root.
func pagesOf(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && path != root
		if d.IsDir() && (hidden || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".md") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			found[filepath.ToSlash(name)] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// anchors returns the anchors of a page's headings, as a forge spells them.
func anchors(page string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		list = append(list, strings.ReplaceAll(text, " ", "-"))
	}
	return list
}

// brokenLinks returns the links of a page whose file, or whose heading in that file, does not exist.
func brokenLinks(name string, pages map[string]string) []string {
	var list []string
	for _, m := range pageLink.FindAllStringSubmatch(fenced.ReplaceAllString(pages[name], ""), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		target := name
		if file != "" {
			target = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				list = append(list, m[1]+": there is no "+target)
				continue
			}
		}
		if anchor != "" && !slices.Contains(anchors(pages[target]), anchor) {
			list = append(list, m[1]+": no heading of "+target)
		}
	}
	return list
}

// Every link of every page leads to an existing file, and to an existing heading in it.
func TestLinks(t *testing.T) {
	pages := pagesOf(t)
	if len(pages) < 30 {
		t.Fatalf("only %d pages", len(pages))
	}
	for name := range pages {
		for _, broken := range brokenLinks(name, pages) {
			t.Errorf("%s: %s", name, broken)
		}
	}
	wrong := map[string]string{
		"docs/X.md":   "[a](GONE.md) [b](API.md#no-such-heading) [c](#there) [d](#gone)\n## There\n",
		"docs/API.md": "# API",
	}
	if got := brokenLinks("docs/X.md", wrong); len(got) != 3 {
		t.Errorf("of three broken links these were seen: %q", got)
	}
}

// The index of the documentation names every page except the decisions, which have an index of their own.
func TestIndexNamesEveryPage(t *testing.T) {
	pages := pagesOf(t)
	index := pages["docs/README.md"]
	for name := range pages {
		below, isDoc := strings.CutPrefix(name, "docs/")
		if !isDoc || below == "README.md" || strings.HasPrefix(below, "adr/0") {
			continue
		}
		if !strings.Contains(index, "]("+below+")") {
			t.Errorf("docs/README.md does not name %s", below)
		}
	}
	if !strings.Contains(pages["README.md"], "](docs/README.md)") {
		t.Error("README.md does not lead to the index")
	}
}
