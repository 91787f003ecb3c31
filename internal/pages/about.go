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
		Reason: "One Lua script decides each step of a job, exactly once. SQL gets the outcome in batches and may be " +
			"down meanwhile: tierq repeats the steps between the two stores, and none loses or doubles an outcome."},
	{Title: "Every report shows the lease",
		Reason: "A claim hands out a lease: job id, attempt and token. A worker that lost its lease changes nothing with " +
			"a late report. Status and attempt alone would not tell it from the worker that has the job now."},
	{Title: "One clock", Reason: "Scripts read each time that matters from Redis’ clock. A host whose clock is wrong " +
		"decides the same as other hosts."},
	{Title: "Two watches", Reason: "A dead process stops its heartbeats; a job that hangs does not. So a running job " +
		"has two deadlines, and a watch for each."},
	{Title: "Two looks before a job is taken back",
		Reason: "A watch takes a job back only if its deadline had passed at an earlier look too. So a Redis that stood " +
			"still for a moment does not make living workers look dead."},
	{Title: "A retry keeps its place",
		Reason: "A job’s score is its tier and its arrival, and never changes. An accepted job is never refused later, " +
			"and keeps its place in the queue after a crash."},
	{Title: "The accept journal", Reason: "SQL has a row for each accepted job too. If Redis loses jobs, tierq restores " +
		"them from these rows.", Link: adr + "0014-accept-journal.md"},
	{Title: "No distributed lock",
		Reason: "The script itself refuses to do a step twice. A lock can expire early, and would only make that rare.",
		Link:   adr + "0008-no-distributed-lock.md"},
	{Title: "Events come from the scripts",
		Reason: "The script that moves a job publishes the event in the same step. Events are hints: readers read the " +
			"job itself.",
		Link: adr + "0009-events-from-the-scripts.md"},
	{Title: "Pages without a framework",
		Reason: "Templates, plain forms and one stream. The pages need no build step and no other host, and every " +
			"action works without JavaScript.", Link: adr + "0022-pages-without-a-framework.md"},
}

var documents = []web.Link{
	{Text: "The API", Href: "/docs", About: "every address, to read and to try"},
	{Text: "openapi.yaml", Href: "/openapi.yaml", About: "the same for machines"},
	{
		Text:  "Architecture",
		Href:  repository + "docs/ARCHITECTURE.md",
		About: "the packages, and how a job flows through them",
	},
	{
		Text:  "Operations",
		Href:  repository + "docs/operations/TROUBLESHOOTING.md",
		About: "how to run tierq: settings, failures, upgrades",
	},
	{Text: "Security", Href: repository + "docs/SECURITY.md", About: "keys, roles, limits"},
	{
		Text:  "Dependencies",
		Href:  repository + "docs/DEPENDENCIES.md",
		About: "the libraries in the binary, and why it needs them",
	},
	{Text: "Proof", Href: repository + "docs/proof/PROOF.md", About: "what was run to break tierq"},
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
