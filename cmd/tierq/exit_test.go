package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each error gives its exit code and its message.
func TestClientExitCodes(t *testing.T) {
	t.Parallel()
	refuseWith := func(status int, code string) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Retry-After", "3600")
			refuse(w, status, code)
			return true
		}
	}
	silent := func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		<-r.Context().Done()
		return true
	}
	// hangUp closes the connection of a change without an answer.
	hangUp := func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Method != http.MethodGet {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	for name, tc := range map[string]struct {
		args     string
		first    func(http.ResponseWriter, *http.Request, string) bool
		environ  []string
		code     int
		inStderr string
	}{
		"done":               {"submit paid", nil, nil, 0, ""},
		"refused":            {"jobs cancel " + doneID, nil, nil, 1, "409 INVALID_STATE_TRANSITION"},
		"not allowed":        {"jobs list", refuseWith(401, "UNAUTHORIZED"), nil, 1, "TIERQ_TOKEN"},
		"somebody else":      {"tiers set paid --share 5", refusePut(412), nil, 1, "another caller changed it"},
		"no id":              {"poll abc", nil, nil, 2, `"abc" is not a job id`},
		"no argument":        {"watch", nil, nil, 2, "a JOB_ID is missing\nSee: tierq watch --help"},
		"a command too far":  {"jobs nope", nil, nil, 2, `unknown command "nope" of tierq jobs`},
		"a format":           {"stats -o yaml", nil, nil, 2, `--output "yaml" is none of table, wide, json, ndjson, name`},
		"no such flag":       {"stats --nope", nil, nil, 2, "unknown flag: --nope"},
		"bad payload":        {"submit paid --data {", nil, nil, 2, "--data is not JSON"},
		"bad tier":           {"submit a/b", nil, nil, 2, `"a/b" is not the name of a tier`},
		"both times":         {"submit paid --delay 1s --run-at x", nil, nil, 2, "none of the others can be"},
		"bad moment":         {"submit paid --run-at x", nil, nil, 2, "such as 2026-12-01T08:00:00Z"},
		"both expiries":      {"submit paid --expires-in 1s --expires-at x", nil, nil, 2, "none of the others can be"},
		"bad expiry":         {"submit paid --expires-at x", nil, nil, 2, "--expires-at \"x\" is not a time"},
		"negative expiry":    {"submit paid --expires-in -1s", nil, nil, 2, "--expires-in is negative"},
		"bad before":         {"dead list --before yesterday", nil, nil, 2, "nor how long ago"},
		"no file":            {"submit paid --file /nowhere/at/all", nil, nil, 2, "no such file"},
		"nothing to set":     {"tiers set paid", nil, nil, 2, "nothing to change"},
		"which ones":         {"dead requeue", nil, nil, 2, "which ones?"},
		"ids and filters":    {"dead requeue " + failedID + " --all", nil, nil, 2, "either JOB_IDs or filters"},
		"no limit":           {"jobs list --limit 0", nil, nil, 2, "less than 1"},
		"too often":          {"stats --watch 1ms", nil, nil, 2, "at least 200ms"},
		"a bad server":       {"stats --server ftp://x", nil, nil, 2, "must look like http://host:port"},
		"a password":         {"stats", nil, []string{"TIERQ_URL=http://u:geheim@x"}, 2, "must hold no user"},
		"a bad token":        {"stats", nil, []string{"TIERQ_TOKEN=two words"}, 2, "not visible ASCII"},
		"a negative time":    {"stats --timeout -1s", nil, nil, 2, "--timeout is negative"},
		"serve with a token": {"serve --token x", nil, nil, 2, "--token is for the commands that talk to a server"},
		"failed":             {"watch " + failedID, nil, nil, 3, "failed after 5 retries: HANDLER_ERROR"},
		"cancelled":          {"poll --wait 1s " + stoppedID, nil, nil, 3, "was cancelled"},
		"still waiting":      {"poll --wait 10ms " + pendingID, nil, nil, 4, "is still PENDING after 10ms"},
		"out of time":        {"stats --timeout 50ms", silent, nil, 4, "not done within 50ms (--timeout)"},
		"watch out of time":  {"watch --timeout 50ms " + pendingID, nil, nil, 4, "not done within 50ms (--timeout)"},
		"unknown outcome": {"submit paid", refuseWith(504, "OUTCOME_UNKNOWN"), nil, 4,
			"the same command again with --idempotency-key"},
		"unknown cancel": {"jobs cancel " + pendingID, refuseWith(504, "OUTCOME_UNKNOWN"), nil, 4,
			"find out: tierq poll " + pendingID},
		"unknown requeue": {"dead requeue " + failedID, hangUp, nil, 4, "find out: tierq poll " + failedID},
		"unknown plan":    {"tiers set paid --share 5", hangUp, nil, 4, "check whether it was done before you repeat it"},
		"unavailable":     {"submit paid", refuseWith(503, "QUEUE_FULL"), nil, 5, "try again in 1h"},
		"nobody there": {"stats", nil, []string{"TIERQ_URL=http://127.0.0.1:1"}, 5,
			"no tierq server at http://127.0.0.1:1: start one with `tierq serve`, or point --server / TIERQ_URL to yours\n"},
		"nobody for many": {"submit paid --count 3", nil, []string{"TIERQ_URL=127.0.0.1:1"}, 5,
			"no tierq server at http://127.0.0.1:1: start"},
		"no job": {"jobs show " + unknownID, nil, nil, 6, "404 JOB_NOT_FOUND: Refused.\n  trace id: trace-9\n"},
		"no tier": {"submit gold --count 2 --server " + "", refuseWith(404, "UNKNOWN_TIER"), nil, 6,
			"UNKNOWN_TIER"},
		"no file of a job": {"jobs artifact " + failedID, nil, nil, 6, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.instead(tc.first)
			args := split(tc.args)
			if strings.HasSuffix(tc.args, "--server ") {
				args = append(args, f.URL)
			}
			end := f.cli(t, world{environ: tc.environ}, args...)
			if end.code != tc.code || !strings.Contains(end.stderr, tc.inStderr) || tc.inStderr == "" && end.stderr != "" {
				t.Errorf("code %d, want %d\nstderr: %s", end.code, tc.code, end.stderr)
			}
			if strings.Contains(end.stderr, "geheim") {
				t.Error("a password is printed")
			}
		})
	}
}

// refusePut refuses PUTs; the fake server answers GETs.
func refusePut(status int) func(http.ResponseWriter, *http.Request, string) bool {
	return func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Method != http.MethodPut {
			return false
		}
		refuse(w, status, "PRECONDITION_FAILED")
		return true
	}
}

// The flags for the server and the token override the environment.
func TestServerAndToken(t *testing.T) {
	f := newFake(t)
	end := f.cli(t, world{environ: []string{"TIERQ_TOKEN=tq_env", "TIERQ_URL=http://127.0.0.1:1"}}, "stats", "--server",
		f.URL+"/")
	if got := f.last(); end.code != 0 || got.header.Get("Authorization") != "Bearer tq_env" ||
		!strings.HasPrefix(got.header.Get("User-Agent"), "tierq-cli/") {
		t.Errorf("%v %v", end, got)
	}
	if end := f.cli(t, world{environ: []string{"TIERQ_TOKEN=tq_env"}}, "stats", "--token", "tq_flag"); end.code != 0 ||
		f.last().header.Get("Authorization") != "Bearer tq_flag" {
		t.Errorf("%v %v", end, f.last())
	}
}

// Ctrl-C ends a command at once, whether it waits for events or for input.
func TestInterrupt(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		signal os.Signal
		code   int
	}{
		"events": {[]string{"watch", pendingID}, syscall.SIGINT, 130},
		"typing": {[]string{"submit", "paid", "--data", "-"}, syscall.SIGINT, 130},
		"term":   {[]string{"stats", "--watch", "1s"}, syscall.SIGTERM, 143},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			arrived := make(chan struct{}, 100)
			f.instead(func(http.ResponseWriter, *http.Request, string) bool { arrived <- struct{}{}; return false })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			child := exec.CommandContext(ctx, os.Args[0], tc.args...)
			child.Env = []string{childSwitch + "=client", "TIERQ_URL=" + f.URL}
			stdin, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			if tc.args[0] == "submit" {
				// The text is larger than a pipe's buffer: when the write returns, the child is reading.
				if _, err := stdin.Write([]byte(strings.Repeat(" ", 256<<10))); err != nil {
					t.Fatal(err)
				}
			} else {
				<-arrived
			}
			begun := time.Now()
			if err := child.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			err = child.Wait()
			if got := child.ProcessState.ExitCode(); got != tc.code {
				t.Errorf("exit code %d, want %d (%v)", got, tc.code, err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
