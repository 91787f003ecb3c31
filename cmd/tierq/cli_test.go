package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/*.golden from what is printed")

// world is the environment of a command line.
type world struct {
	environ []string
	stdin   string
	tty     bool
}

// ended is the result of a command line.
type ended struct {
	code           int
	stdout, stderr string
}

// cli runs a command line against the fake server, or against the server in the environment.
func (f *fake) cli(t *testing.T, w world, args ...string) ended {
	t.Helper()
	var out, errOut bytes.Buffer
	p := program{
		environ: append([]string{"TIERQ_URL=" + f.URL}, w.environ...), stdin: strings.NewReader(w.stdin), stdout: &out,
		stderr: &errOut,
		tty:    func(any) bool { return w.tty }, now: func() time.Time { return fixedNow },
	}
	code := p.execute(args)
	return ended{code, out.String(), errOut.String()}
}

// commands are command lines that succeed, or end with an exit code of their own. Every command is among them.
var commands = []struct {
	name string
	args string // separated by spaces; ' quotes
	code int
}{
	{"submit", "submit paid --type SEND_EMAIL --data '{\"to\": \"ada\"}' --max-retries 2 --callback https://example.com/x",
		0},
	{"submit-wait", "submit paid --wait", 0},
	{"submit-count", "submit UNPAID --count 3", 0},
	{"submit-count-wait", "submit unpaid --count 2 --wait", exitJob},
	{"submit-refused", "submit public --type NOPE", exitError},
	{"submit-many-refused", "submit public --type NOPE --count 2", exitError},
	{"submit-no-tier", "submit gold", exitNotFound},
	{"poll", "poll " + doneID, 0},
	{"poll-pending", "poll " + pendingID, 0},
	{"poll-failed", "poll " + failedID, 0},
	{"poll-wait-failed", "poll " + failedID + " --wait 5s", exitJob},
	{"poll-unknown", "poll " + unknownID, exitNotFound},
	{"watch", "watch " + doneID, 0},
	{"watch-failed", "watch " + failedID, exitJob},
	{"watch-several", "watch " + doneID + " " + stoppedID + " " + unknownID, exitNotFound},
	{"jobs-list", "jobs list --limit 2", 0},
	{"jobs-list-all", "jobs list --all", 0},
	{"jobs-show", "jobs show " + failedID, 0},
	{"jobs-cancel", "jobs cancel " + pendingID, 0},
	{"jobs-cancel-several", "jobs cancel " + pendingID + " " + doneID + " " + stoppedID, exitError},
	{"jobs-why", "jobs why " + pendingID, 0},
	{"dead-list", "dead list --all", 0},
	{"dead-show", "dead show " + failedID, 0},
	{"dead-show-alive", "dead show " + doneID, exitNotFound},
	{"dead-export", "dead export", 0},
	{"dead-requeue", "dead requeue " + failedID, 0},
	{"dead-requeue-filter", "dead requeue --cause HANDLER_ERROR", 0},
	{"dead-requeue-dry", "dead requeue --all --dry-run", 0},
	{"tiers-get", "tiers get", 0},
	{"tiers-get-one", "tiers get public", 0},
	{"tiers-get-none", "tiers get gold", exitNotFound},
	{"tiers-set", "tiers set public --share 40 --max-retries 0 --backoff-cap 2m", 0},
	{"tiers-set-same", "tiers set public --share 100", 0},
	{"tiers-create", "tiers create gold --priority 2 --share 90", 0},
	{"tiers-create-dry", "tiers create gold --priority 2 --dry-run", 0},
	{"workers-list", "workers list", 0},
	{"workers-quiet", "workers quiet img-3-4711-58aeba", 0},
	{"workers-resume", "workers resume img-3-4711-58aeba", 0},
	{"workers-terminate", "workers terminate img-3-4711-58aeba", 0},
	{"queues-list", "queues list", 0},
	{"queues-declare", "queues declare films --limit 5000", 0},
	{"queues-pause", "queues pause films", 0},
	{"queues-resume", "queues resume films", 0},
	{"queues-purge", "queues purge films --yes", 0},
	{"queues-delete", "queues delete films", 0},
	{"queues-delete-busy", "queues delete busy", exitError},
	{"queues-delete-unknown", "queues delete flims", exitNotFound},
	{"keys-create", "keys create --name ci --role submit --tier public --rate 100 --in-flight 5", 0},
	{"keys-list", "keys list", 0},
	{"keys-rotate", "keys rotate " + keyID + " --grace 1h", 0},
	{"keys-rotate-unknown", "keys rotate unknown", exitNotFound},
	{"keys-revoke", "keys revoke " + keyID, 0},
	{"keys-gateway", "keys gateway " + keyID, 0},
	{"keys-gateway-own", "keys gateway", 0},
	{"keys-gateway-unknown", "keys gateway unknown", exitNotFound},
	{"changes", "changes --limit 2", 0},
	{"changes-all", "changes --all", 0},
	{"stats", "stats", 0},
	{"doctor", "doctor", exitError},
	{"doctor-repair", "doctor --repair", exitError},
}

// The table and the wide form of every command equal the stored ones, and contain no control sequence from the
// server.
func TestPrinted(t *testing.T) {
	t.Attr("proves", "A54")
	for _, tc := range commands {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			var got strings.Builder
			for _, format := range []string{"table", "wide"} {
				end := f.cli(t, world{}, append(split(tc.args), "-o", format)...)
				if end.code != tc.code {
					t.Errorf("code %d, want %d\n%s%s", end.code, tc.code, end.stdout, end.stderr)
				}
				got.WriteString("# tierq " + tc.args + " -o " + format + "\n" + end.stdout + "# exit " + strconv.Itoa(end.code) +
					"\n" + end.stderr)
			}
			text := steady(f, got.String())
			if bad := regexp.MustCompile(`[^\n\x20-\x7e…\x{fffd}]|fake line\n`).FindString(text); bad != "" {
				t.Errorf("%q is printed:\n%q", bad, text)
			}
			golden(t, tc.name, text)
		})
	}
}

// steady replaces the parts of an output that differ between two runs.
func steady(f *fake, text string) string {
	text = strings.ReplaceAll(text, f.URL, "http://SERVER")
	return regexp.MustCompile(`--idempotency-key [A-Z0-9]{26}`).ReplaceAllString(text, "--idempotency-key KEY")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, -update writes it):\n%s", file, diff)
	}
}

// Every command prints valid JSON, one document or one per line, and nothing else; with -o name it prints only
// ids.
func TestFormats(t *testing.T) {
	t.Attr("proves", "A54")
	for _, tc := range commands {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			nothing := tc.code == exitNotFound && !strings.Contains(tc.args, doneID+" ") || tc.name == "submit-refused" ||
				tc.name == "queues-delete-busy"
			for _, format := range []string{"json", "ndjson"} {
				end := f.cli(t, world{}, append(split(tc.args), "--output="+format)...)
				if end.code != tc.code || nothing != (end.stdout == "") {
					t.Fatalf("%s: code %d, want %d\n%s%s", format, end.code, tc.code, end.stdout, end.stderr)
				}
				if strings.ContainsAny(end.stdout, "\x1b\u009b\u202e") {
					t.Errorf("%s: not fit for a terminal: %q", format, end.stdout)
				}
				for i, text := range strings.SplitAfter(end.stdout, map[string]string{"json": "\x00", "ndjson": "\n"}[format]) {
					var v obj
					if err := json.Unmarshal([]byte(text), &v); text != "" && err != nil {
						t.Errorf("%s: part %d: %v\n%s", format, i, err, text)
					}
				}
			}
			end := f.cli(t, world{}, append(split(tc.args), "-o", "name")...)
			if end.code != tc.code {
				t.Errorf("name: code %d, want %d", end.code, tc.code)
			}
			for line := range strings.Lines(end.stdout) {
				if !aName.MatchString(line) && !strings.HasPrefix(tc.name, "dead-requeue-") {
					t.Errorf("name: %q", line)
				}
			}
		})
	}
}

// aName matches a line of -o name: the id of a job, a tier, a queue or a worker of the fake, the id of a key, a key,
// the address of a gateway, the number of a change.
var aName = regexp.MustCompile(`^([0-9a-f-]{36}|[A-Z]+|main|films|img-3-4711-58aeba|vm-42-9f0c|[a-z2-7]{16}` +
	`|tq_[a-z2-7]{16}_[A-Za-z0-9_-]{43}|tcp://[a-z2-7]{16}:[A-Za-z0-9_-]{43}@jobs.local:7419|[0-9])\n$`)

// JSON output contains the members that this version does not know.
func TestJSONKeepsNews(t *testing.T) {
	f := newFake(t)
	for _, args := range []string{"jobs show " + failedID, "jobs why " + pendingID, "stats", "dead show " + failedID,
		"dead export"} {
		end := f.cli(t, world{}, append(split(args), "-o", "json")...)
		if !strings.Contains(end.stdout, `"news"`) {
			t.Errorf("%s: %s", args, end.stdout)
		}
	}
}

// split cuts a command line at its spaces, except those between two quotes.
func split(line string) (args []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	return args
}
