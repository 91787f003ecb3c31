package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const installBrowser = "apt-get install -y chromium"

// browserBound is how long one step in the browser may take: a bound on being alive, not on being quick.
const browserBound = 30 * time.Second

// Browser is one headless Chromium. Every Tab has cookies and workers of its own, as if it were the only one.
type Browser struct {
	ctx   context.Context
	close func()
}

var browser struct {
	sync.Mutex
	running *Browser
}

// StartBrowser returns the Chromium that all tests of the process share; the first who asks starts it, StopShared ends
// it. It is CHROME_BIN, else what is found in PATH.
func StartBrowser(t testing.TB) *Browser {
	t.Helper()
	browser.Lock()
	defer browser.Unlock()
	if browser.running == nil {
		b, err := startBrowser()
		if err != nil {
			t.Fatal(err)
		}
		browser.running = b
	}
	return browser.running
}

// stopBrowser ends the shared browser with all that it started, and removes its profile. Safe twice.
func stopBrowser() {
	browser.Lock()
	defer browser.Unlock()
	if browser.running != nil {
		browser.running.close()
		browser.running = nil
	}
}

func startBrowser() (*Browser, error) {
	bin := os.Getenv("CHROME_BIN")
	if bin == "" {
		var err error
		bin, err = program(installBrowser, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
			"/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
		if err != nil {
			return nil, err
		}
	}
	home, err := os.MkdirTemp("", "testkit-browser-") // what it keeps outside its profile, such as crash reports
	if err != nil {
		return nil, fmt.Errorf("start the browser: %w", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(bin),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TZ=UTC", "LANG=C.UTF-8"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-crash-reporter", true),
		chromedp.Flag("lang", "en-US"),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-software-rasterizer", true),
		// Each window would load two pages of the browser's own for what drops from its address line, which nobody sees
		// here.
		chromedp.Flag("disable-features",
			"SpareRendererForSitePerProcess,site-per-process,IsolateOrigins,PaintHolding,Translate,WebUIOmniboxPopup,"+
				"WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,AiModeOmniboxEntryPoint"),
		chromedp.WindowSize(1280, 900),
	)
	// The library keeps the profile in a temporary folder, has the kernel kill the browser when this process dies, and
	// takes /dev/shm and, as root, the sandbox from it.
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &Browser{ctx: ctx, close: sync.OnceFunc(func() {
		ask, done := context.WithTimeout(ctx, browserBound)
		_ = chromedp.Cancel(ask) // it takes its files along; one that does not is killed
		done()
		cancel()
		end()
		_ = os.RemoveAll(home) // what is left in the temporary folder harms nobody
	})}
	late := time.AfterFunc(browserBound, cancel)
	err = chromedp.Do(ctx)
	if !late.Stop() {
		err = errors.Join(err, fmt.Errorf("it was not there within %v", browserBound))
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	return b, nil
}
