package testkit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// steps is what the shared steps need of a tab, in Chromium as in Firefox.
type steps interface {
	eval(expression string, into any) error
	// press presses the mouse's button at a point of the window, and releases it there. It returns when the page has
	// seen both.
	press(x, y float64) error
	// around says where the tab is and what it shows, for error messages.
	around() string
}

// aimAt finds an element and the middle of its box in one call, so that no page can replace the element in
// between. From then on the page's document records whether a click reaches that element or a replacement of it.
const aimAt = `(selector => {
	const all = [...document.querySelectorAll(selector)];
	if (!all.length) return {why: "nothing is " + selector};
	const box = e => [...e.getClientRects()].find(r => r.width > 0 && r.height > 0);
	const e = all.find(box);
	if (!e) return {why: selector + " is not to be seen"};
	const middle = () => (r => [r.left + r.width / 2, r.top + r.height / 2])(box(e));
	let [x, y] = middle();
	if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) {
		e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
		[x, y] = middle();
	}
	const top = document.elementFromPoint(x, y);
	if (!top || !e.contains(top) && top.closest("label")?.control !== e) {
		return {why: selector + " is covered by " + top?.outerHTML.slice(0, 100)};
	}
	const name = Symbol.for("testkit.click");
	if (globalThis[name]) document.removeEventListener("click", globalThis[name].note, true);
	const ours = n => n === e || n.matches?.(selector);
	const seen = {reached: false, note(event) { seen.reached ||= event.composedPath().some(ours); }};
	globalThis[name] = seen;
	document.addEventListener("click", seen.note, true);
	return {x, y};
})`

// reached says whether the click hit its target. It is null if the clicked page is gone.
const reached = `(seen => seen ? seen.reached : null)(globalThis[Symbol.for("testkit.click")])`

// painted says whether the page has loaded and was painted. Chromium drops mouse events before that.
const painted = `document.readyState === "complete" && performance.getEntriesByType("paint").length > 0`

// click clicks the first visible element of the selector with the mouse. It repeats the click while the page moves
// the element away from under the mouse. With scripts off nothing moves after the first paint, and no click can be
// recorded.
func click(p steps, selector string, scripts bool) error {
	var err error
	every(browserBound, func() bool {
		var at struct {
			X, Y float64
			Why  string
		}
		if err = p.eval(fmt.Sprintf("%s(%q)", aimAt, selector), &at); err == nil && at.Why != "" {
			err = errors.New(at.Why)
		}
		if err != nil { // the element is not there yet, or the page is navigating
			return false
		}
		if !scripts {
			var ready bool
			if err = p.eval(painted, &ready); err == nil && !ready {
				err = errors.New("the page was not painted yet")
			}
			if err != nil {
				return false
			}
		}
		if err = p.press(at.X, at.Y); err != nil || !scripts {
			return true
		}
		var there *bool
		if gone := p.eval(reached, &there); gone != nil || there == nil || *there {
			return true
		}
		err = fmt.Errorf("the page moves %s away from under the mouse", selector)
		return false
	})
	return err
}

// urlOf returns the address of a tab. It asks again while the tab is navigating.
func urlOf(p steps) (url string, err error) {
	every(browserBound, func() bool {
		err = p.eval("location.href", &url)
		return err == nil
	})
	return url, err
}

// textOf returns the texts of the elements that the selector finds, one per line.
func textOf(p steps, selector string) (string, error) {
	var found *string
	const texts = `(all => all.length ? all.map(e => e.innerText ?? e.textContent).join("\n") : null)(
		[...document.querySelectorAll(%q)])`
	err := p.eval(fmt.Sprintf(texts, selector), &found)
	if err == nil && found == nil {
		err = fmt.Errorf("nothing is %s", selector)
	}
	if err != nil {
		return "", err
	}
	return *found, nil
}

// waitText returns when an element's text contains want. It fails the test after within.
func waitText(t testing.TB, p steps, selector, want string, within time.Duration) {
	t.Helper()
	last := ""
	met := every(within, func() bool {
		text, err := textOf(p, selector)
		if last = text; err != nil { // the element is not there yet, or the page is navigating
			last = err.Error()
		}
		return err == nil && strings.Contains(text, want)
	})
	if !met {
		t.Fatalf("%s does not say %q within %v, but %q\n%s", selector, want, within, last, p.around())
	}
}

// around returns a tab's address and its visible text, for error messages.
func around(p steps, r *record) string {
	var shown string
	if err := p.eval("location.href + '\\n' + (document.body?.innerText ?? '')", &shown); err != nil {
		shown = err.Error()
	}
	const most = 2000
	if len(shown) > most {
		shown = shown[:most] + "..."
	}
	return "the tab is at " + shown + "\nits problems so far: " + fmt.Sprint(r.all())
}
