package testkit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// FirefoxTab is one page as a user of Firefox sees it. Its steps are those of Tab, and each fails the test if it
// cannot be done. The tab closes with the test, and then fails it for every problem that was not allowed.
type FirefoxTab struct {
	t       testing.TB
	firefox *Firefox
	user    string // the user context, which owns the cookies and workers
	id      string
	record  *record
}

// args are the parameters of a command.
type args map[string]any

// Tab opens a tab that shares nothing with any other.
func (f *Firefox) Tab(t testing.TB) *FirefoxTab {
	t.Helper()
	var made struct{ UserContext string }
	f.do(t, "browser.createUserContext", args{}, &made)
	t.Cleanup(func() {
		t.Helper()
		f.do(t, "browser.removeUserContext", args{"userContext": made.UserContext}, nil)
	})
	return f.open(t, made.UserContext)
}

// Beside opens another window of the same user: the two share cookies and SharedWorkers. The second window must
// end before the first one.
func (tab *FirefoxTab) Beside(t testing.TB) *FirefoxTab {
	t.Helper()
	return tab.firefox.open(t, tab.user)
}

// open opens a window. A tab would not do: the page in a hidden tab notices that it is hidden.
func (f *Firefox) open(t testing.TB, user string) *FirefoxTab {
	t.Helper()
	var made struct{ Context string }
	f.do(t, "browsingContext.create", args{"type": "window", "userContext": user}, &made)
	tab := &FirefoxTab{t: t, firefox: f, user: user, id: made.Context, record: newRecord()}
	f.mu.Lock()
	f.tabs[tab.id] = tab.record
	f.mu.Unlock()
	t.Cleanup(func() {
		t.Helper()
		tab.record.judge(t, tab)
		f.mu.Lock()
		delete(f.tabs, tab.id)
		f.mu.Unlock()
		f.do(t, "browsingContext.close", args{"context": tab.id}, nil)
	})
	// The listener lives in an isolated world, as in watchPolicy.
	f.do(t, "script.addPreloadScript", args{
		"functionDeclaration": "tell => document.addEventListener('securitypolicyviolation', e => " +
			"tell(`${e.effectiveDirective} refuses ${e.blockedURI} at ${e.sourceFile}:${e.lineNumber} ${e.sample}`), true)",
		"arguments": []args{{"type": "channel", "value": args{"channel": policyBinding}}},
		"contexts":  []string{tab.id}, "sandbox": policyWorld,
	}, nil)
	tab.View(1280, 900, false)
	return tab
}

func (f *Firefox) do(t testing.TB, method string, params args, into any) {
	t.Helper()
	if err := f.try(method, params, into); err != nil {
		t.Fatal(err)
	}
}

func (f *Firefox) try(method string, params args, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), browserBound)
	defer cancel()
	return f.conn.call(ctx, method, params, into)
}

func (tab *FirefoxTab) try(method string, params args, into any) error {
	params["context"] = tab.id
	return tab.firefox.try(method, params, into)
}

func (tab *FirefoxTab) do(what, method string, params args) {
	tab.t.Helper()
	if err := tab.try(method, params, nil); err != nil {
		tab.t.Fatalf("%s: %v\n%s", what, err, tab.around())
	}
}

// Open goes to an address and returns when the page has loaded.
func (tab *FirefoxTab) Open(url string) {
	tab.t.Helper()
	tab.record.forget()
	tab.do("open "+url, "browsingContext.navigate", args{"url": url, "wait": "complete"})
}

// Reload loads the page again.
func (tab *FirefoxTab) Reload() {
	tab.t.Helper()
	tab.record.forget()
	tab.do("reload", "browsingContext.reload", args{"wait": "complete"})
}

// URL returns the tab's address.
func (tab *FirefoxTab) URL() string {
	tab.t.Helper()
	url, err := urlOf(tab)
	if err != nil {
		tab.t.Fatalf("where the tab is: %v\n%s", err, tab.around())
	}
	return url
}

// Click is Tab.Click.
func (tab *FirefoxTab) Click(selector string) {
	tab.t.Helper()
	if err := click(tab, selector, true); err != nil {
		tab.t.Fatalf("click %s: %v\n%s", selector, err, tab.around())
	}
}

func (tab *FirefoxTab) press(x, y float64) error {
	return tab.try("input.performActions", args{"actions": []args{{
		"type": "pointer", "id": "mouse", "parameters": args{"pointerType": "mouse"},
		"actions": []args{
			{"type": "pointerMove", "x": int(x), "y": int(y)},
			{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0},
		},
	}}}, nil)
}

// Type replaces the element's text, key by key.
func (tab *FirefoxTab) Type(selector, text string) {
	tab.t.Helper()
	const focus = `(e => {
		if (!e) throw new Error("nothing is there");
		e.focus();
		e.select?.();
	})(document.querySelector(%q))`
	if err := poll(browserBound, func() error { return tab.eval(fmt.Sprintf(focus, selector), nil) }); err != nil {
		tab.t.Fatalf("type into %s: %v\n%s", selector, err, tab.around())
	}
	tab.Press(text)
}

// Press presses keys one after the other, wherever the focus is: "?", "gd", "\r".
func (tab *FirefoxTab) Press(keys string) {
	tab.t.Helper()
	named := map[rune]string{'\r': "\uE006", '\t': "\uE004", '\x1b': "\uE00C", '\b': "\uE003"}
	var strokes []args
	for _, key := range keys {
		value, ok := named[key]
		if !ok {
			value = string(key)
		}
		strokes = append(strokes, args{"type": "keyDown", "value": value}, args{"type": "keyUp", "value": value})
	}
	keyboard := args{"type": "key", "id": "keyboard", "actions": strokes}
	tab.do("press "+keys, "input.performActions", args{"actions": []args{keyboard}})
}

// Text is Tab.Text.
func (tab *FirefoxTab) Text(selector string) string {
	tab.t.Helper()
	text, err := textOf(tab, selector)
	if err != nil {
		tab.t.Fatalf("the text of %s: %v\n%s", selector, err, tab.around())
	}
	return text
}

// WaitText is Tab.WaitText.
func (tab *FirefoxTab) WaitText(selector, want string, within time.Duration) {
	tab.t.Helper()
	waitText(tab.t, tab, selector, want, within)
}

// Eval is Tab.Eval.
func (tab *FirefoxTab) Eval(expression string, into any) {
	tab.t.Helper()
	if err := tab.eval(expression, into); err != nil {
		tab.t.Fatalf("%s: %v\n%s", expression, err, tab.around())
	}
}

func (tab *FirefoxTab) eval(expression string, into any) error {
	return tab.firefox.evalIn(tab.id, expression, into)
}

// evalIn evaluates an expression in a page or in the browser's own window. The value travels as JSON, which is
// simpler than the protocol's own form.
func (f *Firefox) evalIn(context, expression string, into any) error {
	var got struct {
		Type   string
		Result struct {
			Type  string
			Value string
		}
		ExceptionDetails struct{ Text string }
	}
	err := f.try("script.evaluate", args{
		"expression": "(async () => JSON.stringify(await (" + expression + ")))()", "awaitPromise": true,
		"target": args{"context": context},
	}, &got)
	switch {
	case err != nil:
		return err
	case got.Type != "success":
		return errors.New("it throws: " + got.ExceptionDetails.Text)
	case into == nil:
		return nil
	case got.Result.Type != "string":
		return fmt.Errorf("it is %s, nothing that JSON has", got.Result.Type)
	}
	return json.Unmarshal([]byte(got.Result.Value), into)
}

// View sets the size of the window and its light or dark colour scheme.
func (tab *FirefoxTab) View(width, height int, dark bool) {
	tab.t.Helper()
	size := args{"width": width, "height": height}
	tab.do("set the view", "browsingContext.setViewport", args{"viewport": size, "devicePixelRatio": 1.0})
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	// The protocol has no command for the colour scheme, so this calls the browser's own function.
	err := tab.firefox.evalIn(tab.firefox.chrome, fmt.Sprintf(`ChromeUtils
		.importESModule("chrome://remote/content/shared/NavigableManager.sys.mjs")
		.NavigableManager.getBrowsingContextById(%q).top.prefersColorSchemeOverride = %q`, tab.id, scheme), nil)
	if err != nil {
		tab.t.Fatalf("set the view: %v\n%s", err, tab.around())
	}
}

// Screenshot writes the visible page to a .png file.
func (tab *FirefoxTab) Screenshot(path string) {
	tab.t.Helper()
	var got struct{ Data string }
	err := tab.try("browsingContext.captureScreenshot", args{}, &got)
	var picture []byte
	if err == nil {
		picture, err = base64.StdEncoding.DecodeString(got.Data)
	}
	if err == nil {
		err = os.WriteFile(path, picture, 0o644)
	}
	if err != nil {
		tab.t.Fatalf("take a picture: %v\n%s", err, tab.around())
	}
}

// around returns the tab's address and its visible text, for error messages.
func (tab *FirefoxTab) around() string { return around(tab, tab.record) }
