package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

//go:embed templates
var templates embed.FS

// Policy is the Content-Security-Policy of every page: scripts and styles are files of this server, and nothing is
// written into a page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Set is the pages, ready to be written. It is safe for concurrent use.
type Set struct {
	pages map[string]*template.Template
	files map[string]*file
	base  string // of the static files: "/static/<digest>/"
	types []JobType
}

// names of the pages' templates; each is laid into layout.html and may use what parts*.html and svg*.html define.
var names = []string{"overview", "submit", "poll", "dashboard", "jobs", "dead", "tiers", "tier", "lines", "line",
	"flows", "flow", "schedules", "schedule", "scheduleform", "batches", "batch",
	"demo", "about", "login", "error", "confirm"}

// NewSet parses the templates and zips the static files.
func NewSet() *Set {
	s := &Set{pages: map[string]*template.Template{}, files: files(), types: readTypes()}
	s.base = "/static/" + digest(s.files) + "/"
	layout := template.Must(template.New("layout.html").Funcs(s.funcs()).ParseFS(templates, "templates/layout.html",
		"templates/parts*.html", "templates/svg*.html"))
	for _, name := range names {
		page := template.Must(layout.Clone())
		s.pages[name] = template.Must(page.ParseFS(templates, "templates/"+name+".html"))
	}
	return s
}

func (s *Set) funcs() template.FuncMap {
	return template.FuncMap{
		"asset": func(name string) (string, error) {
			if s.files[name] == nil {
				return "", fmt.Errorf("no static file %q", name)
			}
			return s.base + name, nil
		},
		"count": func(n any) (string, error) {
			switch n := n.(type) {
			case int:
				return count(n), nil
			case int64:
				return count(n), nil
			}
			return "", fmt.Errorf("count of a %T", n)
		},
		"size": func(n any) (string, error) {
			switch n := n.(type) {
			case int:
				return size(n), nil
			case int64:
				return size(n), nil
			}
			return "", fmt.Errorf("size of a %T", n)
		},
		"span": span, "neat": neat, "neatSeconds": neatSeconds, "between": between, "ago": ago, "rate": rate, "clock": clock,
		"stamp": stamp, "stampShort": stampShort, "iso": iso, "hue": hue, "short": short,
		"tone": tone, "spark": spark, "left": left, "due": due, "timeline": timeline, "strip": strip, "tree": tree,
		"pretty": pretty, "compact": compact,
		"lower": strings.ToLower, "pair": pair, "list": func(s ...string) []string { return s },
		"add":   func(a, b int) int { return a + b },
		"under": strings.HasPrefix, "text": func(b []byte) string { return string(b) }, "blank": blank, "part": part,
		"curl": curl, "capsegs": capsegs,
		"slotY": func(i int) int { return 94 + 108*i },
	}
}

// blank is the row that scripts copy: drawn by the same template as the others.
func blank(row string) (any, error) {
	switch row {
	case "lease":
		return Lease{}, nil
	case "worker":
		return Worker{}, nil
	case "queue":
		return Queue{}, nil
	case "feed":
		return FeedItem{}, nil
	}
	return nil, fmt.Errorf("no row %q", row)
}

// part is how many of a hundred n is of whole, for the length of a bar.
func part(n, whole any) float64 {
	a, b := number(n), number(whole)
	if b <= 0 {
		return 0
	}
	return math.Round(1000*min(max(a/b, 0), 1)) / 10
}

func number(n any) float64 {
	switch n := n.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

// curl is a line that submits to a tier.
func curl(base, tier string) string {
	return "curl -X POST " + base + "/" + strings.ToLower(tier) + "/submit"
}

// segment is one tier's stretch of the capacity bar, in thousandths of it.
type segment struct {
	Tier, Hue string
	X, W      int64
}

// capsegs are the ready jobs of each tier on the capacity bar. Retried ones are ready too, and are never refused: the
// bar ends at its end.
func capsegs(s *Snapshot) []segment {
	var list []segment
	x := int64(0)
	for _, l := range s.Tiers {
		w := int64(0)
		if s.Capacity.Limit > 0 {
			w = min(1000*l.Depth/s.Capacity.Limit, 1000-x)
		}
		list = append(list, segment{l.Tier, hue(l.Tier), x, w})
		x += w
	}
	return list
}

// pair hands two values to a template that takes one: .A and .B.
func pair(a, b any) map[string]any { return map[string]any{"A": a, "B": b} }

// Static are the pages' files, each at an address that changes with what is in them.
func (s *Set) Static() []Page {
	list := make([]Page, 0, len(s.files))
	for name, f := range s.files {
		list = append(list, Page{s.base + name, f.handler()})
	}
	slices.SortFunc(list, func(a, b Page) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// Types are the built-in job types with the schemas of their payloads and examples that work.
func (s *Set) Types() []JobType { return slices.Clone(s.types) }

// write makes the whole page before the first byte of it is sent.
func (s *Set) write(w io.Writer, name string, view any) error {
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "layout.html", view); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	_, err := b.WriteTo(w)
	return err
}

// Overview writes /.
func (s *Set) Overview(w io.Writer, v OverviewView) error { return s.write(w, "overview", v) }

// Submit writes /submit.
func (s *Set) Submit(w io.Writer, v SubmitView) error { return s.write(w, "submit", v) }

// Poll writes /poll.
func (s *Set) Poll(w io.Writer, v PollView) error { return s.write(w, "poll", v) }

// Dashboard writes /dashboard.
func (s *Set) Dashboard(w io.Writer, v DashboardView) error { return s.write(w, "dashboard", v) }

// Jobs writes /dashboard/jobs.
func (s *Set) Jobs(w io.Writer, v JobsView) error { return s.write(w, "jobs", v) }

// Dead writes /dashboard/dead.
func (s *Set) Dead(w io.Writer, v DeadView) error { return s.write(w, "dead", v) }

// Tiers writes /dashboard/tiers.
func (s *Set) Tiers(w io.Writer, v TiersView) error { return s.write(w, "tiers", v) }

// Tier writes /dashboard/tiers/<TIER>.
func (s *Set) Tier(w io.Writer, v TierView) error { return s.write(w, "tier", v) }

// Lines writes /dashboard/lines.
func (s *Set) Lines(w io.Writer, v LinesView) error { return s.write(w, "lines", v) }

// Line writes /dashboard/lines/key.
func (s *Set) Line(w io.Writer, v LineView) error { return s.write(w, "line", v) }

// Batches writes /batches.
func (s *Set) Batches(w io.Writer, v BatchesView) error { return s.write(w, "batches", v) }

// Batch writes /batches/<id>.
func (s *Set) Batch(w io.Writer, v BatchView) error { return s.write(w, "batch", v) }

// Flows writes /flows.
func (s *Set) Flows(w io.Writer, v FlowsView) error { return s.write(w, "flows", v) }

// Flow writes /flows/<id>.
func (s *Set) Flow(w io.Writer, v FlowView) error { return s.write(w, "flow", v) }

// Schedules writes /dashboard/schedules.
func (s *Set) Schedules(w io.Writer, v SchedulesView) error { return s.write(w, "schedules", v) }

// Schedule writes /dashboard/schedules/one.
func (s *Set) Schedule(w io.Writer, v ScheduleView) error { return s.write(w, "schedule", v) }

// ScheduleForm writes /dashboard/schedules/edit and /dashboard/schedules/new.
func (s *Set) ScheduleForm(w io.Writer, v ScheduleFormView) error {
	return s.write(w, "scheduleform", v)
}

// Demo writes /demo.
func (s *Set) Demo(w io.Writer, v DemoView) error { return s.write(w, "demo", v) }

// About writes /about.
func (s *Set) About(w io.Writer, v AboutView) error { return s.write(w, "about", v) }

// Login writes /login.
func (s *Set) Login(w io.Writer, v LoginView) error { return s.write(w, "login", v) }

// Error writes the page of an error.
func (s *Set) Error(w io.Writer, v ErrorView) error { return s.write(w, "error", v) }

// Confirm writes the page that asks before something is done to many.
func (s *Set) Confirm(w io.Writer, v ConfirmView) error { return s.write(w, "confirm", v) }
