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

// browserBound is the limit for one step in the browser. It detects a hung browser; it does not measure speed.
const browserBound = 30 * time.Second

// Browser is one headless Chromium. Each Tab has its own cookies and workers, unless it was opened by Tab.Beside.
type Browser struct {
	ctx   context.Context
	close func()
}

var browser struct {
	sync.Mutex
	running *Browser
}

// StartBrowser returns the Chromium that all tests of the process share. The first call starts it, and StopShared
// ends it. The program is CHROME_BIN, or else the first Chromium or Chrome in PATH.
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

// stopBrowser ends the shared browser with all its processes and removes its profile. A second call does nothing.
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
		bin, err = program(installBrowser, "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
			"google-chrome-stable", "chrome",
			"/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
		if err != nil {
			return nil, err
		}
	}
	home, err := os.MkdirTemp("", "testkit-browser-") // files outside its profile, such as crash reports
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
		// Without these flags each window loads two of the browser's own pages, for the suggestions under its address
		// bar.
		chromedp.Flag("disable-features",
			"SpareRendererForSitePerProcess,site-per-process,IsolateOrigins,PaintHolding,Translate,WebUIOmniboxPopup,"+
				"WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,AiModeOmniboxEntryPoint"),
		chromedp.WindowSize(1280, 900),
	)
	// The library puts the profile into a temporary folder and has the kernel kill the browser when this process
	// dies. It also switches off the use of /dev/shm and, for root, the sandbox.
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &Browser{ctx: ctx, close: sync.OnceFunc(func() {
		ask, done := context.WithTimeout(ctx, browserBound)
		_ = chromedp.Cancel(ask) // ends the browser and removes its files; a browser that does not end is killed
		done()
		cancel()
		end()
		_ = os.RemoveAll(home) // files left in the temporary folder do no harm
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
