package web

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	set = NewSet()
	now = time.Date(2026, 11, 21, 11, 31, 57, 961e6, time.UTC)
)

// page is one page as it was written, and what a reader of HTML makes of it.
type page struct {
	text     string
	elements []xml.StartElement
	shown    string // all character data
}

// each renders every page: with nothing, with everything, and with texts that wish to be more than that.
func each(t *testing.T, look func(t *testing.T, name string, p page)) {
	t.Helper()
	for kind, s := range map[string]samples{"empty": {now: now}, "full": {now: now}, "hostile": {now: now, evil: true}} {
		writers := s.pages(set, kind == "empty")
		maps.Copy(writers, s.schedulePages(set, kind == "empty"))
		for _, name := range slices.Sorted(maps.Keys(writers)) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				var b bytes.Buffer
				if err := writers[name](&b); err != nil {
					t.Fatal(err)
				}
				look(t, name, parse(t, b.String()))
			})
		}
	}
}

// parse reads a page strictly enough that an element which nobody closes, or a quote that ends too early, is an error.
func parse(t *testing.T, text string) page {
	t.Helper()
	p := page{text: text}
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.Entity = false, xml.HTMLEntity
	var shown strings.Builder
	var open []string
	for {
		token, err := d.RawToken() // Token would close what nobody closed
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			p.elements = append(p.elements, e.Copy())
			if !slices.Contains(xml.HTMLAutoClose, e.Name.Local) {
				open = append(open, e.Name.Local)
			}
		case xml.EndElement:
			if slices.Contains(xml.HTMLAutoClose, e.Name.Local) {
				break
			}
			if len(open) == 0 || open[len(open)-1] != e.Name.Local {
				t.Fatalf("</%s> closes %v", e.Name.Local, open)
			}
			open = open[:len(open)-1]
		case xml.CharData:
			shown.Write(e)
		}
	}
	if len(open) > 0 {
		t.Fatalf("nobody closes %v", open)
	}
	p.shown = shown.String()
	return p
}

func attr(e xml.StartElement, name string) (string, bool) {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}

// What the policy forbids is not on any page, and no address leads to a script or to another host's file.
func TestPagesKeepThePolicy(t *testing.T) {
	served := map[string]bool{}
	for _, s := range set.Static() {
		served[s.Path] = true
	}
	each(t, func(t *testing.T, _ string, p page) {
		for _, e := range p.elements {
			name := e.Name.Local
			if _, ok := attr(e, "src"); name == "script" && !ok || name == "style" || name == "iframe" || name == "object" ||
				name == "base" {
				t.Errorf("<%s>", name)
			}
			for _, a := range e.Attr {
				key := strings.ToLower(a.Name.Local)
				if key == "style" || strings.HasPrefix(key, "on") {
					t.Errorf("<%s %s>", name, key)
				}
				if key == "href" || key == "src" || key == "action" {
					u, err := url.Parse(a.Value)
					if err != nil || u.Scheme != "" || u.Host != "" {
						t.Errorf("<%s %s=%q>", name, key, a.Value)
					}
				}
			}
			if link, _ := attr(e, "href"); name == "link" && !served[link] {
				t.Errorf("no file %q", link)
			}
			if src, ok := attr(e, "src"); ok && !served[src] {
				t.Errorf("no file %q", src)
			}
		}
	})
}

// A payload, a result, an error, a type, a worker's name and a cause that are full of markup are text: they add no
// element, and are read as they were written. A46
func TestHostileTextsAreText(t *testing.T) {
	counts := map[string]map[string]int{}
	each(t, func(t *testing.T, name string, p page) {
		elements := map[string]int{}
		for _, e := range p.elements {
			elements[e.Name.Local]++
		}
		if strings.HasPrefix(t.Name(), "TestHostileTextsAreText/hostile") {
			if elements["img"] > 0 || strings.Contains(p.text, "<script>") || strings.Contains(p.text, "<img") {
				t.Errorf("it became markup: %v", elements)
			}
			if name != "login" && !strings.Contains(p.shown, "<script>alert(1)</script><img src=x onerror=alert(2)>") {
				t.Error("it is not shown")
			}
			counts["hostile "+name] = elements
		} else if strings.Contains(t.Name(), "/full/") {
			counts["full "+name] = elements
		}
	})
	for name, full := range counts {
		page, ok := strings.CutPrefix(name, "full ")
		if evil := counts["hostile "+page]; ok && evil["script"] != full["script"] {
			t.Errorf("%s has %d scripts, with hostile texts %d", page, full["script"], evil["script"])
		}
	}
}

// Ids are unique, labels name a field that is there, and each page has one first heading and a title.
func TestPagesAreWhole(t *testing.T) {
	each(t, func(t *testing.T, _ string, p page) {
		ids, heads := map[string]int{}, 0
		for _, e := range p.elements {
			if id, ok := attr(e, "id"); ok {
				ids[id]++
			}
			if e.Name.Local == "h1" {
				heads++
			}
		}
		if heads != 1 || !strings.Contains(p.text, "<title>") {
			t.Errorf("%d first headings", heads)
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("id %q %d times", id, n)
			}
		}
		for _, e := range p.elements {
			for _, key := range []string{"for", "aria-labelledby"} {
				if to, ok := attr(e, key); ok && ids[to] == 0 {
					t.Errorf("%s=%q names nothing", key, to)
				}
			}
		}
	})
}

// Templates write texts, never markup of their users: nothing in this package makes a template.HTML, nor any other word
// that is passed on unescaped, and no script writes markup.
func TestNothingPassesUnescaped(t *testing.T) {
	unescaped := regexp.MustCompile(`template\.(HTML|HTMLAttr|JS|JSStr|CSS|URL|Srcset)\b`)
	markup := regexp.MustCompile(`innerHTML\s*=[^=]|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new ` +
		`Function|setAttribute\("style"`)
	for name, bad := range map[string]*regexp.Regexp{".go": unescaped, ".js": markup} {
		sources := sourcesOf(t, name)
		if len(sources) < 5 {
			t.Fatalf("%d sources of %s", len(sources), name)
		}
		for file, text := range sources {
			if found := bad.FindString(text); found != "" {
				t.Errorf("%s: %s", file, found)
			}
		}
	}
}

// Each id that a script asks for stands in a template.
func TestScriptsFindTheirElements(t *testing.T) {
	var all strings.Builder
	err := fs.WalkDir(templates, "templates", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(templates, name)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`(?:getElementById|\$)\("([^"]+)"\)|querySelector(?:All)?\("#([\w-]+)`)
	found := 0
	for file, text := range sourcesOf(t, ".js") {
		for _, m := range asked.FindAllStringSubmatch(text, -1) {
			found++
			if id := m[1] + m[2]; !strings.Contains(all.String(), `id="`+id+`"`) {
				t.Errorf("%s asks for #%s", file, id)
			}
		}
		for _, m := range regexp.MustCompile(`querySelector(?:All)?\("\[(data-[\w-]+)`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(all.String(), m[1]) {
				t.Errorf("%s asks for [%s]", file, m[1])
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d ids are asked for", found)
	}
	for _, m := range regexp.MustCompile(`data-as="(\w+)"`).FindAllStringSubmatch(all.String(), -1) {
		if !strings.Contains(sourcesOf(t, ".js")["static/face/format.js"], "export const "+m[1]+" ") &&
			!strings.Contains(sourcesOf(t, ".js")["static/face/format.js"], "export function "+m[1]+"(") {
			t.Errorf("format.js has no %s", m[1])
		}
	}
}
