package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/app"
	"github.com/tierq/tierq/internal/config"
)

const childSwitch = "SERVE_AS_CHILD"

// TestMain runs the tests. With childSwitch set it is a server or client for the tests of signals, which start
// this binary again.
func TestMain(m *testing.M) {
	if how := os.Getenv(childSwitch); how != "" {
		if how != "client" { // it reads standard input itself, and ends when its server does
			go dieWithParent()
		}
		p := program{stdout: os.Stdout, stderr: os.Stderr,
			serve: func(ctx context.Context, _ config.Config, o app.Options) error {
				fmt.Fprintln(o.Out, "serving")
				<-ctx.Done()
				fmt.Fprintln(o.Out, "draining")
				if how == "hang" {
					select {}
				}
				return nil
			}}
		if how == "client" {
			p.environ, p.stdin = os.Environ(), os.Stdin
			os.Exit(p.execute(os.Args[1:]))
		}
		os.Exit(p.execute(nil))
	}
	goleak.VerifyTestMain(m)
}

// dieWithParent ends a child when its standard input ends, so that no child outlives its test.
func dieWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(9)
}

// run runs a command line with the given environment. served is the configuration with which it started the
// server; nil if it did not.
func run(t *testing.T, environ []string, serveErr error, args ...string) (code int, stdout, stderr string,
	served *config.Config) {
	t.Helper()
	var out, errOut bytes.Buffer
	p := program{environ: environ, stdout: &out, stderr: &errOut}
	p.serve = func(_ context.Context, c config.Config, o app.Options) error {
		served = &c
		o.Log.Info("hello")
		if o.Version == "" {
			t.Error("no version")
		}
		return serveErr
	}
	code = p.execute(args)
	return code, out.String(), errOut.String(), served
}

func TestServeIsTheDefault(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}, {"--workers", "3"}, {"serve", "--workers=3"}} {
		code, _, stderr, served := run(t, []string{"TIERQ_WORKERS=2"}, nil, args...)
		if code != 0 || served == nil {
			t.Fatalf("%q: code %d, %s", args, code, stderr)
		}
		want := 2
		if strings.Contains(strings.Join(args, " "), "3") {
			want = 3
		}
		if served.Workers != want {
			t.Errorf("%q: %d workers, want %d", args, served.Workers, want)
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(stderr), &line); err != nil || line["msg"] != "hello" {
			t.Errorf("the log is not JSON where there is no terminal: %s", stderr)
		}
	}
	if _, _, _, served := run(t, nil, nil, "--insecure", "--addr", ":0"); served == nil || !served.Insecure {
		t.Errorf("--insecure alone: %v", served)
	}
	if _, _, stderr, _ := run(t, nil, nil, "--log-format", "text"); !strings.Contains(stderr, "msg=hello") {
		t.Errorf("text log: %s", stderr)
	}
	if _, _, stderr, _ := run(t, []string{"TIERQ_LOG_LEVEL=warn"}, nil); stderr != "" {
		t.Errorf("log below the level: %s", stderr)
	}
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		args     []string
		environ  []string
		err      error
		code     int
		inStderr string
	}{
		{args: []string{"serve"}, err: errors.New("port taken"), code: 1, inStderr: "tierq: port taken\n"},
		{args: []string{"srve"}, code: 2, inStderr: "unknown command \"srve\""},
		{args: []string{"serve", "now"}, code: 2, inStderr: "unexpected argument \"now\""},
		{args: []string{"--wrokers=1"}, code: 2, inStderr: "unknown flag: --wrokers"},
		{args: []string{"version", "--yaml"}, code: 2, inStderr: "unknown flag"},
		{environ: []string{"TIERQ_WORKERS=x", "TIERQ_NOPE=1"}, code: 2, inStderr: "tierq: TIERQ_WORKERS="},
		{args: []string{"--redis-url-file=/nowhere/at/all", "--mysql-dsn=u@tcp(h:1)/d"}, code: 2,
			inStderr: "flag --redis-url-file): /nowhere"},
		{args: []string{"healthcheck", "--addr=nonsense"}, code: 2, inStderr: "is not host:port"},
	} {
		code, stdout, stderr, _ := run(t, tc.environ, tc.err, tc.args...)
		if code != tc.code || !strings.Contains(stderr, tc.inStderr) || stdout != "" {
			t.Errorf("%q: code %d, want %d\nstdout %s\nstderr %s", tc.args, code, tc.code, stdout, stderr)
		}
	}
	_, _, stderr, _ := run(t, []string{"TIERQ_WORKERS=x", "TIERQ_NOPE=1"}, nil)
	if lines := strings.Count(stderr, "\n"); lines != 2 {
		t.Errorf("%d lines for two problems:\n%s", lines, stderr)
	}
}

func TestHelpHasEverySetting(t *testing.T) {
	code, stdout, _, served := run(t, nil, nil, "serve", "--help")
	if code != 0 || served != nil {
		t.Fatalf("code %d, served %v", code, served)
	}
	for _, s := range config.Settings() {
		if !strings.Contains(stdout, "--"+s.Flag+" ") || !strings.Contains(stdout, s.Doc) ||
			!strings.Contains(stdout, s.Default) {
			t.Errorf("nothing about %s", s.Name)
		}
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _, _ := run(t, []string{"TIERQ_URL=http://127.0.0.1:1"}, nil, "version")
	if code != 0 || !strings.HasPrefix(stdout, "tierq "+buildVersion()+" (go") {
		t.Errorf("%d %s", code, stdout)
	}
	code, stdout, _, _ = run(t, []string{"TIERQ_URL=http://127.0.0.1:1"}, nil, "version", "--json")
	var v versionInfo
	if err := json.Unmarshal([]byte(stdout), &v); code != 0 || err != nil || v != readVersion() || v.Version == "" {
		t.Errorf("%d %v %s", code, err, stdout)
	}
	version = "v9.9.9"
	defer func() { version = "" }()
	if got := buildVersion(); got != "v9.9.9" {
		t.Errorf("the build said v9.9.9, got %s", got)
	}
}

func TestHealthcheck(t *testing.T) {
	status := http.StatusOK
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		w.WriteHeader(status)
		fmt.Fprintln(w, `{"status":"IT"}`)
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)

	for _, tc := range []struct {
		environ, args []string
	}{
		{nil, []string{"--addr", addr}},
		{[]string{"TIERQ_ADDR=" + addr}, nil},
		{[]string{"TIERQ_ADDR=0.0.0.0:" + port, "HTTP_PROXY=http://127.0.0.1:1"}, nil},
		{[]string{"TIERQ_ADDR=127.0.0.1:1"}, []string{"--addr", ":" + port}},
	} {
		status = http.StatusOK
		code, stdout, stderr, _ := run(t, tc.environ, nil, append([]string{"healthcheck"}, tc.args...)...)
		if code != 0 || stdout != "{\"status\":\"IT\"}\n" || asked != "GET /readyz" {
			t.Errorf("%v: code %d, asked %q\n%s%s", tc, code, asked, stdout, stderr)
		}
		status = http.StatusServiceUnavailable
		code, _, stderr, _ = run(t, tc.environ, nil, append([]string{"healthcheck"}, tc.args...)...)
		if code != 1 || !strings.Contains(stderr, "not ready: 503") {
			t.Errorf("%v: code %d\n%s", tc, code, stderr)
		}
	}
	server.Close()
	if code, _, _, _ := run(t, nil, nil, "healthcheck", "--addr", addr); code != 1 {
		t.Errorf("nobody there: code %d", code)
	}
}

func TestDialable(t *testing.T) {
	for listen, want := range map[string]string{
		":8080": "127.0.0.1:8080", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "127.0.0.1:1", "10.0.0.1:1": "10.0.0.1:1",
		"[::1]:1": "[::1]:1",
	} {
		if got, err := dialable(listen); got != want || err != nil {
			t.Errorf("%s: %s, %v", listen, got, err)
		}
	}
}

func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		how    string
		second os.Signal
		code   int
	}{
		{"drain", nil, 0},
		{"hang", syscall.SIGINT, 130},
		{"hang", syscall.SIGTERM, 143},
	} {
		t.Run(fmt.Sprint(tc.how, tc.code), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			child := exec.CommandContext(ctx, os.Args[0])
			child.Env = []string{childSwitch + "=" + tc.how}
			child.Stderr = os.Stderr
			if _, err := child.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			pipe, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(pipe)
			signalAfter(t, child.Process, lines, "serving", syscall.SIGTERM)
			if tc.second != nil {
				signalAfter(t, child.Process, lines, "draining", tc.second)
			}
			_, _ = io.Copy(io.Discard, pipe)
			err = child.Wait()
			if got := child.ProcessState.ExitCode(); got != tc.code {
				t.Errorf("exit code %d, want %d (%v)", got, tc.code, err)
			}
		})
	}
}

func signalAfter(t *testing.T, p *os.Process, lines *bufio.Scanner, line string, s os.Signal) {
	t.Helper()
	if !lines.Scan() || lines.Text() != line {
		t.Fatalf("the child said %q, want %q", lines.Text(), line)
	}
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}
