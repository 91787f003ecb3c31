package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// AxeFinding is one rule of axe-core that a page breaks, with the elements that break it.
type AxeFinding struct {
	Rule   string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML string `json:"html"`
		Why  string `json:"failureSummary"`
	} `json:"nodes"`
}

func (f AxeFinding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", f.Rule, f.Impact, f.Help)
	for _, n := range f.Nodes {
		fmt.Fprintf(&b, "\n  %s\n    %s", n.HTML, strings.ReplaceAll(n.Why, "\n", "\n    "))
	}
	return b.String()
}

// Axe checks the page in its present state with axe-core, which .ci/provide installs, and returns the serious and
// critical findings. axe-core runs in an isolated world, so the page's policy stays in force.
func (tab *Tab) Axe(t testing.TB) []AxeFinding {
	t.Helper()
	engine, err := axeCore()
	if err != nil {
		t.Fatal(err)
	}
	frames, err := chromedp.Call(tab.ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		t.Fatalf("axe: %v", err)
	}
	world, err := chromedp.Call(tab.ctx, page.CreateIsolatedWorld,
		page.CreateIsolatedWorldParams{FrameID: frames.FrameTree.Frame.ID, WorldName: "axe"})
	if err != nil {
		t.Fatalf("axe: %v", err)
	}
	if err := tab.evalIn(world.ExecutionContextID, engine+"\n;0", nil); err != nil {
		t.Fatalf("axe: %v", err)
	}
	var found []AxeFinding
	const run = "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.filter(v => v.impact === " +
		"'serious' || v.impact === 'critical'))"
	if err := tab.evalIn(world.ExecutionContextID, run, &found); err != nil {
		t.Fatalf("axe: %v\n%s", err, tab.around())
	}
	return found
}

// axeCore returns the source text of axe-core, from the folder where .ci/provide puts it.
var axeCore = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find axe-core: %w", err)
	}
	const lock = "internal/testkit/axe/package-lock.json"
	for {
		if _, err := os.Stat(filepath.Join(dir, lock)); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("find axe-core: no %s above here", lock)
		}
		dir = up
	}
	text, err := os.ReadFile(filepath.Join(dir, "internal/testkit/axe/node_modules/axe-core/axe.min.js"))
	if err != nil {
		return "", fmt.Errorf("axe-core is %w; type: .ci/provide", errMissing)
	}
	return string(text), nil
})
