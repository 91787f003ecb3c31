package pages

import (
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/tierq/tierq/web"
)

const (
	repository = "https://github.com/tierq/tierq/blob/main/"
	adr        = repository + "docs/adr/"
)

// decisions are the design decisions, each with its reason in a sentence or two.
var decisions = []web.Decision{
	{Title: "Redis decides, SQL remembers",
		Reason: "What happens to a job is decided once, inside one Lua script. SQL gets the outcome in batches and may be " +
			"away: every step between the two can be repeated, and none loses or doubles an outcome."},
	{Title: "Whoever writes shows the lease",
		Reason: "A claim hands out job, attempt and a token. A worker that was taken for dead and comes back changes " +
			"nothing: neither the status nor the attempt alone would tell it from its successor."},
	{Title: "One clock", Reason: "Every time that matters is Redis’ own, read inside the script. A host whose clock is " +
		"wrong does the same as one whose clock is right."},
	{Title: "Two watches", Reason: "A process that died stops its heartbeat; a job that hangs does not. So there are " +
		"two deadlines, and a watch for each."},
	{Title: "Two looks before a job is taken back",
		Reason: "A Redis that stood still for a moment has not killed anybody: only who was late at an earlier look as " +
			"well has crashed."},
	{Title: "A retry keeps its place",
		Reason: "A job’s score is its tier and its arrival, for life. What was accepted is never refused later, and a " +
			"crash costs nobody his turn."},
	{Title: "The accept journal", Reason: "Accepted jobs are written to SQL as well, so that a Redis that came back " +
		"with less than it had costs no job.", Link: adr + "0014-accept-journal.md"},
	{Title: "No distributed lock",
		Reason: "What must not happen twice is refused by the script that would do it. A lock would only make it seldom.",
		Link:   adr + "0008-no-distributed-lock.md"},
	{Title: "Events come from the scripts",
		Reason: "Who moves a job tells of it in the same step. Streams are hints all the same: the job itself is the truth.",
		Link:   adr + "0009-events-from-the-scripts.md"},
	{Title: "Pages without a framework",
		Reason: "Templates, plain forms and one stream. Nothing to build, nothing from another host, and every action " +
			"works without a script.", Link: adr + "0022-pages-without-a-framework.md"},
}

var documents = []web.Link{
	{Text: "The API", Href: "/docs", About: "every address, to read and to try"},
	{Text: "openapi.yaml", Href: "/openapi.yaml", About: "the same for machines"},
	{
		Text:  "Architecture",
		Href:  repository + "docs/ARCHITECTURE.md",
		About: "the rooms and how a job passes through them",
	},
	{
		Text:  "Operations",
		Href:  repository + "docs/operations/TROUBLESHOOTING.md",
		About: "running it: settings, failures, upgrades",
	},
	{Text: "Security", Href: repository + "docs/SECURITY.md", About: "keys, roles, limits"},
	{Text: "Dependencies", Href: repository + "docs/DEPENDENCIES.md", About: "what else the binary is made of, and why"},
	{Text: "Proof", Href: repository + "docs/proof/PROOF.md", About: "how it was tried to lose a job"},
}

// licences are tierq's own licence and those of the third-party files in the pages; web/VENDOR.md lists the same.
var licences = []web.Licence{
	{Name: "tierq", Licence: "MIT"},
	{Name: "uPlot", Version: "1.6.32", Licence: "MIT"},
	{Name: "Swagger UI", Version: "5.35.0", Licence: "Apache 2.0"},
}

// revision returns the source revision that the binary was built from; "" = unknown.
var revision = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revisionOf(info.Settings)
})

func revisionOf(settings []debug.BuildSetting) string {
	rev, changed := "", false
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if rev != "" && changed {
		rev += ", changed"
	}
	return rev
}

// getAbout serves /about.
func (p *Pages) getAbout(w http.ResponseWriter, r *http.Request) {
	v := web.AboutView{
		Frame: p.frame(r), GoVersion: runtime.Version(), Revision: revision(),
		Decisions: slices.Clone(decisions), Docs: slices.Clone(documents), Licences: slices.Clone(licences),
	}
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.About(w, v) })
}
