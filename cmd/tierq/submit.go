package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

// maxData limits the bytes read for one payload; the server's own limit is far below.
const maxData = 1 << 20

// asked holds the flags of submit.
type asked struct {
	typ, data, key, runAt, callback, file string
	expiresAt                             string
	queue, lineKey                        string
	unique, uniqueWhile, uniqueOn         string
	batch                                 string
	retries, count                        int
	delay, expiresIn                      time.Duration
	wait                                  bool
}

func (p program) submitCommand() *cobra.Command {
	var a asked
	cmd := &cobra.Command{
		Use: "submit TIER", Short: "Submit a job, or many", Args: wants(1, 1, "a TIER, such as paid, unpaid or public,"),
		ValidArgs: []string{"paid", "unpaid", "public"},
		Long: "Submit a job, or many, and print their ids, one a line.\n\n" +
			"--file reads a job a line: {\"type\", \"payload\", \"maxRetries\", \"delaySeconds\", \"runAt\", " +
			"\"expiresIn\", \"expiresAt\",\n" +
			"\"callbackUrl\", \"queue\", \"key\", \"unique\", \"batch\", \"idempotencyKey\"}, all optional.\n" +
			"Jobs go out in batches of up to 1000; what a full queue refuses is sent again while others get in. A refused job does\n" +
			"not stop the others; a line that is no job stops before its batch.\n\n" +
			"With --idempotency-key the same command may be repeated: no job is made twice. For many jobs the key is " +
			"followed by -1, -2\n" +
			"and so on: the number of the job, or of its line; a line's own key comes first.",
		Example: "  tierq submit paid --type SEND_EMAIL --data '{\"to\": \"ada@example.com\", \"subject\": \"Hello\", " +
			"\"body\": \"Hi\"}'\n" +
			"  tierq submit public --count 1000 --wait\n  tierq submit unpaid --file jobs.ndjson --idempotency-key import-42",
	}
	f := cmd.Flags()
	f.StringVar(&a.typ, "type", "", "job `type` (default: SIMULATION)")
	f.StringVar(&a.data, "data", "", "payload: `JSON`, @file, or - for standard input")
	f.StringVar(
		&a.key, "idempotency-key", "",
		"`key` under which the same submit again is the same job, for 1 h unless the server says otherwise",
	)
	f.IntVar(&a.retries, "max-retries", 0, "retry `n` times at most; never more often than the tier does")
	durationVar(f, &a.delay, "delay", 0, "start after this `time` at the earliest: 30s, 2m, 1h; a bare number is seconds")
	f.StringVar(&a.runAt, "run-at", "", "start at this `moment` at the earliest, such as 2026-12-01T08:00:00Z")
	durationVar(f, &a.expiresIn, "expires-in", 0,
		"end it as EXPIRED if no worker claims it within this `time`: 30s, 2m, 1h; a bare number is seconds")
	f.StringVar(&a.expiresAt, "expires-at", "", "the same by this `moment`, such as 2026-12-01T08:00:00Z")
	f.StringVar(&a.callback, "callback", "", "`URL` that is told of the job's end by a signed POST")
	f.StringVar(&a.queue, "queue", "", "let it wait in this `queue` (default: main)")
	f.StringVar(&a.lineKey, "key", "", "in a tier with lines, let it wait in the line of this `key`")
	f.StringVar(&a.batch, "batch", "", "make it a member of the open batch with this `id`; see tierq batch create")
	f.StringVar(&a.unique, "unique", "", "unique `key`: of the jobs with it only one lives at a time")
	f.StringVar(&a.uniqueWhile, "unique-while", "",
		"how long it holds the unique key: waiting, living or a `time` such as 10m (default: living)")
	f.StringVar(&a.uniqueOn, "on", "",
		"if another job holds the unique key, do `this`: return, refuse, replace or after (default: return)")
	f.IntVar(&a.count, "count", 1, "submit it `n` times")
	f.StringVar(&a.file, "file", "", "submit the jobs of the file at this `path`, one a line; - for standard input")
	f.BoolVar(&a.wait, "wait", false, "follow to the end, as tierq watch does; exit code 3 if a job did not complete")
	cmd.MarkFlagsMutuallyExclusive("delay", "run-at")
	cmd.MarkFlagsMutuallyExclusive("expires-in", "expires-at")
	for _, name := range []string{"type", "data", "max-retries", "delay", "run-at", "expires-in", "expires-at", "callback",
		"queue", "key", "unique", "count"} {
		cmd.MarkFlagsMutuallyExclusive("file", name)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		many := a.file != "" || a.count > 1
		opts := []client.Option{}
		if many {
			opts = append(opts, client.WithBackoff(firstRetry, patience))
		}
		return p.talk(func(ctx context.Context, s *session, args []string) error {
			tier, err := readTier(args[0])
			if err != nil {
				return err
			}
			if err := a.check(cmd.Flags().Changed("max-retries")); err != nil {
				return err
			}
			if many {
				return s.submitMany(ctx, tier, &a, cmd.Flags().Changed("max-retries"))
			}
			return s.submitOne(ctx, tier, &a, cmd.Flags().Changed("max-retries"))
		}, opts...)(cmd, args)
	}
	return cmd
}

func (a *asked) check(bounded bool) error {
	switch {
	case a.count < 1:
		return misused("--count %d is less than 1", a.count)
	case a.delay < 0:
		return misused("--delay is negative")
	case a.expiresIn < 0:
		return misused("--expires-in is negative")
	case bounded && a.retries < 0:
		return misused("--max-retries is negative")
	case a.unique == "" && (a.uniqueWhile != "" || a.uniqueOn != ""):
		return misused("--unique-while and --on need --unique")
	case len(a.key) > 200 || strings.ContainsFunc(a.key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return misused("--idempotency-key is not visible ASCII of at most 200 characters")
	}
	return nil
}

// submission returns the job that the flags describe.
func (s *session) submission(a *asked, bounded bool) (client.Submission, error) {
	job := client.Submission{Type: a.typ, IdempotencyKey: a.key, Delay: a.delay, ExpiresIn: a.expiresIn,
		CallbackURL: a.callback, Queue: a.queue, LineKey: a.lineKey, BatchID: a.batch}
	if bounded {
		job.MaxRetries = &a.retries
	}
	var err error
	if a.unique != "" {
		if job.Unique, err = a.uniqueKey(); err != nil {
			return job, err
		}
	}
	if job.RunAt, err = moment("--run-at", a.runAt); err != nil {
		return job, err
	}
	if job.ExpiresAt, err = moment("--expires-at", a.expiresAt); err != nil {
		return job, err
	}
	if a.data == "" {
		return job, nil
	}
	payload, err := s.readData(a.data)
	if err != nil {
		return job, err
	}
	job.Payload = payload
	return job, nil
}

// moment reads the time of a flag; "" = the zero time.
func moment(flag, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, misused("%s %q is not a time such as 2026-12-01T08:00:00Z", flag, text)
	}
	return at, nil
}

// uniqueKey returns the unique key that the flags describe.
func (a *asked) uniqueKey() (*client.Unique, error) {
	u := &client.Unique{Key: a.unique, On: a.uniqueOn}
	if a.uniqueWhile == "" || a.uniqueWhile == client.WhileWaiting || a.uniqueWhile == client.WhileLiving {
		u.While = a.uniqueWhile
		return u, nil
	}
	d, err := readDuration(a.uniqueWhile)
	if err != nil || d < time.Second {
		return nil, misused("--unique-while %q is not waiting, living or a time of a second or more", a.uniqueWhile)
	}
	u.For = d
	return u, nil
}

// readData reads a payload: the text itself, a file (@name), or standard input (-).
func (s *session) readData(data string) (json.RawMessage, error) {
	text, from := []byte(data), "--data"
	if name, isFile := strings.CutPrefix(data, "@"); isFile || data == "-" {
		in, err := s.input(cmp.Or(name, "-"), isFile)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if text, err = io.ReadAll(io.LimitReader(in, maxData+1)); err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
		from = "the payload"
	}
	if len(text) > maxData {
		return nil, misused("%s has more than %d bytes", from, maxData)
	}
	var any json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil {
		return nil, misused("%s is not JSON: %v", from, err)
	}
	return any, nil
}

// input opens a file, or standard input if the name is "-" and does not come from @.
func (s *session) input(name string, isFile bool) (io.ReadCloser, error) {
	if name == "-" && !isFile {
		if s.stdin == nil {
			return io.NopCloser(strings.NewReader("")), nil
		}
		return io.NopCloser(s.stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, misused("%v", err)
	}
	return f, nil
}

var tierName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,30}$`)

// readTier reads the name of a tier in any case.
func readTier(name string) (client.Tier, error) {
	if name != "" && !tierName.MatchString(name) {
		return "", misused("%q is not the name of a tier", name)
	}
	return client.Tier(strings.ToUpper(name)), nil
}

func (s *session) submitOne(ctx context.Context, tier client.Tier, a *asked, bounded bool) error {
	job, err := s.submission(a, bounded)
	if err != nil {
		return err
	}
	accepted, err := s.client.SubmitJob(ctx, tier, job)
	if err != nil {
		return err
	}
	if a.wait {
		s.hint("submitted %s", accepted.JobID)
		return s.follow(ctx, []string{accepted.JobID})
	}
	if accepted.Replayed {
		s.hint("the idempotency key is known: this is its first job")
	}
	switch {
	case accepted.Replaced:
		s.hint("this job has the unique key; it has the new payload now")
	case accepted.Deduplicated:
		s.hint("this job has the unique key; no other was made")
	}
	switch s.format {
	case asTable, asName:
		return s.line(accepted.JobID)
	case asWide:
		return s.fields(field{name: "JOB", value: accepted.JobID}, status(accepted.Status),
			field{name: "TRACE", value: accepted.TraceID})
	}
	return s.document(accepted)
}
