package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Tab is one page as a user sees it. Each step fails the test if it cannot be done. The tab closes with the test,
// and then fails it for every problem that was not allowed.
type Tab struct {
	t      testing.TB
	ctx    context.Context
	record *record

	scriptless bool // the pages' scripts do not run
}

// Tab opens a tab that shares nothing with any other.
func (b *Browser) Tab(t testing.TB) *Tab {
	t.Helper()
	return openTab(t, b.ctx, chromedp.WithNewBrowserContext())
}

// Beside opens another tab of the same user: the two share cookies and SharedWorkers. The second tab must end
// before the first one.
func (tab *Tab) Beside(t testing.TB) *Tab {
	t.Helper()
	return openTab(t, tab.ctx)
}

func openTab(t testing.TB, parent context.Context, options ...chromedp.ContextOption) *Tab {
	t.Helper()
	Calm(t)
	ctx, cancel := chromedp.NewContext(parent, options...)
	tab := &Tab{t: t, ctx: ctx, record: newRecord()}
	t.Cleanup(func() {
		tab.record.judge(t, tab)
		cancel()
	})
	// The first call opens the tab. It has no time limit, because the end of its context would close the tab too.
	if err := chromedp.Listen(ctx, tab.record.hear); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	tab.do("watch the page", watchPolicy)
	tab.View(1280, 900, false)
	return tab
}

// do runs one step and fails the test if the step fails.
func (tab *Tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	if err := tab.try(steps...); err != nil {
		tab.t.Fatalf("%s: %v\n%s", what, err, tab.around())
	}
}

func (tab *Tab) try(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(tab.ctx, browserBound)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// Open goes to an address and returns when the page has loaded.
func (tab *Tab) Open(url string) {
	tab.t.Helper()
	tab.record.forget()
	tab.do("open "+url, chromedp.Navigate(url))
}

// Reload loads the page again.
func (tab *Tab) Reload() {
	tab.t.Helper()
	tab.record.forget()
	tab.do("reload", chromedp.Reload())
}

// URL returns the tab's address.
func (tab *Tab) URL() string {
	tab.t.Helper()
	url, err := urlOf(tab)
	if err != nil {
		tab.t.Fatalf("where the tab is: %v\n%s", err, tab.around())
	}
	return url
}

// Click waits until the element is visible and uncovered, and clicks it with the mouse. If the page replaces the
// element meanwhile, Click clicks the replacement.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	if err := click(tab, selector, !tab.scriptless); err != nil {
		tab.t.Fatalf("click %s: %v\n%s", selector, err, tab.around())
	}
}

// press sends the second event without waiting for the first one's answer, so that the page has no time in
// between. With scripts off press waits, because no script could report that the second event overtook the first.
func (tab *Tab) press(x, y float64) error {
	send := func(kind input.DispatchMouseEventType) error {
		return tab.try(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{
				Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1,
			})
			return chromedp.Void{}, err
		})
	}
	if tab.scriptless {
		return errors.Join(send(chromedp.MousePressed), send(chromedp.MouseReleased))
	}
	begun, pressed := make(chan struct{}), make(chan error, 1)
	go func() {
		close(begun)
		pressed <- send(chromedp.MousePressed)
	}()
	<-begun
	released := send(chromedp.MouseReleased) // if it overtakes the press, nothing is clicked, and click repeats
	return errors.Join(<-pressed, released)
}

// focusOn focuses an element and selects its text, in one call, so that no page can replace the element in between.
const focusOn = `(selector => {
	const e = document.querySelector(selector);
	if (!e) return "nothing is " + selector;
	e.focus();
	e.select?.();
	return document.activeElement === e ? "" : selector + " takes no focus";
})`

// Type replaces the element's text, as a paste would. It waits for the element, also while the page is replaced.
func (tab *Tab) Type(selector, text string) {
	tab.t.Helper()
	var err error
	every(browserBound, func() bool {
		var why string
		if err = tab.eval(fmt.Sprintf("%s(%q)", focusOn, selector), &why); err == nil && why != "" {
			err = errors.New(why)
		}
		return err == nil
	})
	if err != nil {
		tab.t.Fatalf("type into %s: %v\n%s", selector, err, tab.around())
	}
	tab.do("type into "+selector, func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return chromedp.Void{}, err
	})
}

// Press presses keys one after the other, wherever the focus is: "?", "gd", "\r".
func (tab *Tab) Press(keys string) {
	tab.t.Helper()
	tab.do("press "+keys, chromedp.KeyEvent(keys, func(k *input.DispatchKeyEventParams) {
		if k.Type == kb.KeyDown {
			k.Type = kb.KeyRawDown // as a keyboard does: a key that the page prevents is not typed
		}
	}))
}

// Text returns the element's visible text. The element must exist.
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	text, err := textOf(tab, selector)
	if err != nil {
		tab.t.Fatalf("the text of %s: %v\n%s", selector, err, tab.around())
	}
	return text
}

// WaitText returns when the text of an element of the selector contains want. It fails the test after within.
func (tab *Tab) WaitText(selector, want string, within time.Duration) {
	tab.t.Helper()
	waitText(tab.t, tab, selector, want, within)
}

// Eval evaluates a JavaScript expression, awaits it if it is a promise, and decodes its value as JSON into what
// into points at. A nil into drops the value.
func (tab *Tab) Eval(expression string, into any) {
	tab.t.Helper()
	if err := tab.eval(expression, into); err != nil {
		tab.t.Fatalf("%s: %v\n%s", expression, err, tab.around())
	}
}

func (tab *Tab) eval(expression string, into any) error {
	return tab.evalIn(0, expression, into)
}

// View sets the size of the window and its light or dark colour scheme, until the next View. Motion is reduced, so
// that screenshots show a page at rest.
func (tab *Tab) View(width, height int, dark bool) {
	tab.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	tab.do("set the view", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}})
		if err != nil {
			return chromedp.Void{}, err
		}
		_, err = cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: int64(width), Height: int64(height), DeviceScaleFactor: 1,
		})
		return chromedp.Void{}, err
	})
}

// Scripts switches scripts on or off for the pages opened from now on. The steps here work without scripts too.
func (tab *Tab) Scripts(run bool) {
	tab.t.Helper()
	tab.scriptless = !run
	tab.do("let scripts run or not", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !run})
		return chromedp.Void{}, err
	})
}

// Screenshot sets the view and writes the visible page to a file: .png, .webp or .jpeg. Height 0 takes the whole
// page.
func (tab *Tab) Screenshot(path string, width, height int, dark bool) {
	tab.t.Helper()
	whole := height == 0
	if whole {
		tab.View(width, 900, dark)
		tab.Eval("document.documentElement.scrollHeight", &height)
	}
	tab.View(width, height, dark)
	tab.Eval("document.fonts.ready.then(() => 0)", nil)
	tab.do("take a picture", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, t, page.BringToFront, cdp.Empty{}); err != nil {
			return chromedp.Void{}, err
		}
		format := page.CaptureScreenshotFormat(strings.TrimPrefix(filepath.Ext(path), "."))
		picture, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: format})
		if err != nil {
			return chromedp.Void{}, err
		}
		return chromedp.Void{}, os.WriteFile(path, picture.Data, 0o644)
	})
}

// evalIn evaluates an expression in one of the page's worlds; 0 is the page's own.
func (tab *Tab) evalIn(world runtime.ExecutionContextID, expression string, into any) error {
	ctx, cancel := context.WithTimeout(tab.ctx, browserBound)
	defer cancel()
	yes := true
	got, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ContextID: world, ReturnByValue: &yes, AwaitPromise: &yes, Silent: &yes,
	})
	switch {
	case err != nil:
		return err
	case got.ExceptionDetails != nil:
		return fmt.Errorf("it throws: %s", thrown(got.ExceptionDetails))
	case into == nil:
		return nil
	}
	return read(got.Result, into)
}

func (tab *Tab) around() string { return around(tab, tab.record) }
