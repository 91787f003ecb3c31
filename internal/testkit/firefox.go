package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const installFirefox = "apt-get install -y firefox-esr"

// Firefox is one headless Firefox. Each FirefoxTab has its own cookies and workers, unless it was opened by
// Beside.
type Firefox struct {
	process *Process
	conn    *bidi
	home    string
	chrome  string // the id of the window that shows the pages

	mu   sync.Mutex
	tabs map[string]*record // the problems and requests of each tab, by its id
}

var firefox struct {
	sync.Mutex
	running *Firefox
}

// StartFirefox returns the Firefox that all tests of the process share. The first call starts it, and StopShared
// ends it. The program is FIREFOX_BIN, or else the Firefox in PATH.
func StartFirefox(t testing.TB) *Firefox {
	t.Helper()
	firefox.Lock()
	defer firefox.Unlock()
	if firefox.running == nil {
		f, err := startFirefox()
		if err != nil {
			t.Fatal(err)
		}
		firefox.running = f
	}
	return firefox.running
}

// stopFirefox ends the shared Firefox with all its processes and removes its profile. A second call does nothing.
func stopFirefox() {
	firefox.Lock()
	defer firefox.Unlock()
	if firefox.running != nil {
		firefox.running.stop()
		firefox.running = nil
	}
}

// firefoxSettings are the settings of a profile that contacts no server on its own and shows none of the browser's
// own pages.
const firefoxSettings = `user_pref("app.normandy.enabled", false);
user_pref("app.shield.optoutstudies.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.safebrowsing.blockedURIs.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.search.update", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("browser.startup.page", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("dom.push.connection.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("intl.accept_languages", "en-US");
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.proxy.type", 0);
user_pref("nimbus.rollouts.enabled", false);
user_pref("services.settings.server", "data:,#none");
user_pref("signon.rememberSignons", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("ui.prefersReducedMotion", 1);
`

// firefoxOrigin is the origin that the kit's connection names; the browser refuses all others.
const firefoxOrigin = "http://127.0.0.1"

func startFirefox() (*Firefox, error) {
	bin := os.Getenv("FIREFOX_BIN")
	if bin == "" {
		var err error
		bin, err = program(installFirefox, "firefox-esr", "firefox", "/Applications/Firefox.app/Contents/MacOS/firefox")
		if err != nil {
			return nil, err
		}
	}
	home, err := os.MkdirTemp("", "testkit-firefox-")
	if err != nil {
		return nil, fmt.Errorf("start Firefox: %w", err)
	}
	f := &Firefox{home: home, tabs: map[string]*record{}}
	if err := f.start(bin); err != nil {
		f.stop()
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	return f, nil
}

func (f *Firefox) start(bin string) error {
	profile := filepath.Join(f.home, "profile")
	if err := os.Mkdir(profile, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(firefoxSettings), 0o600); err != nil {
		return err
	}
	var err error
	f.process, err = LaunchProcess(
		bin,
		[]string{
			"HOME=" + f.home, "XDG_CONFIG_HOME=" + f.home, "XDG_CACHE_HOME=" + f.home,
			"TZ=UTC", "LANG=C.UTF-8", "MOZ_CRASHREPORTER_DISABLE=1",
		},
		"--headless",
		"--no-remote",
		"--new-instance",
		"--profile",
		profile,
		"--width",
		"1280",
		"--height",
		"900",
		"--remote-debugging-port",
		"0",
		"--remote-allow-origins",
		firefoxOrigin,
		"--remote-allow-system-access",
		"about:blank",
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*browserBound)
	defer cancel()
	const says = "WebDriver BiDi listening on "
	if err := f.process.WaitOutput(ctx, says+"ws://"); err != nil {
		return err
	}
	_, rest, _ := strings.Cut(f.process.Output(), says)
	address, _, _ := strings.Cut(rest, "\n")
	if f.conn, err = dialBidi(ctx, strings.TrimSpace(address), firefoxOrigin, f.hear); err != nil {
		return err
	}
	if err := f.conn.call(ctx, "session.new", map[string]any{"capabilities": map[string]any{}}, nil); err != nil {
		return err
	}
	var tree struct{ Contexts []struct{ Context string } }
	if err := f.conn.call(ctx, "browsingContext.getTree", map[string]any{"moz:scope": "chrome"}, &tree); err != nil {
		return err
	}
	if len(tree.Contexts) == 0 {
		return errors.New("it has no window")
	}
	f.chrome = tree.Contexts[0].Context
	return f.conn.call(ctx, "session.subscribe", map[string]any{"events": []string{
		"log.entryAdded", "network.beforeRequestSent", "network.responseCompleted", "network.fetchError", "script.message",
	}}, nil)
}

func (f *Firefox) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), browserBound)
	defer cancel()
	if f.conn != nil {
		if err := f.conn.call(ctx, "browser.close", map[string]any{}, nil); err == nil {
			_, _ = f.process.WaitExit(ctx) // Firefox removes its files; one that does not end is killed
		}
		f.conn.close()
	}
	if f.process != nil {
		_ = f.process.Kill()
	}
	_ = poll(browserBound, func() error { return os.RemoveAll(f.home) }) // its last processes may still write files
}

// hear passes an event to the record of the tab that the event names.
func (f *Firefox) hear(method string, params json.RawMessage) {
	var of struct {
		Context string `json:"context"`
		Source  struct {
			Context string `json:"context"`
		} `json:"source"`
	}
	if json.Unmarshal(params, &of) != nil {
		return
	}
	if of.Context == "" {
		of.Context = of.Source.Context
	}
	f.mu.Lock()
	r := f.tabs[of.Context]
	f.mu.Unlock()
	if r != nil { // otherwise the event is of a foreign tab or of a worker
		r.hearFirefox(method, params)
	}
}
