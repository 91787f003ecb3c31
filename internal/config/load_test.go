package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// external is the environment of external mode, with a password in each secret.
var external = []string{"REDIS_URL=redis://:sesame@cache:6379/0", "MYSQL_DSN=tierq:sesame@tcp(db:3306)/tierq"}

func load(t *testing.T, environ ...string) (Config, []string) {
	t.Helper()
	c, err := Load(environ, "", nil)
	return c, list(t, err)
}

func list(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	p, ok := errors.AsType[*Problems](err)
	if !ok {
		t.Fatalf("error is %T, want *Problems", err)
	}
	return p.List
}

func TestDefaults(t *testing.T) {
	t.Attr("proves", "S2-N15")
	t.Setenv("TIERQ_WORKERS", "7") // Load reads its arguments, not the environment of the process
	c, problems := load(t)
	if problems != nil {
		t.Fatal(problems)
	}
	want := Config{
		Addr: "127.0.0.1:8080", DataDir: "./data", Roles: Roles{API: true, Worker: true, Recovery: true},
		Workers: 16, Capacity: 10_000, ScheduledLimit: 100_000, PriorityBase: 10_000_000_000_000, Partitions: 1,
		HeartbeatInterval: 500 * time.Millisecond, Retention: 24 * time.Hour, FailedRetention: time.Hour,
		Queues: "main", KeepEnded: 1_000_000, IdempotencyTTL: time.Hour, IdempotencyLimit: 4_000_000,
		GateThreshold: 3, OutboxLimit: 100_000, PayloadLimit: 64 << 10, ResultLimit: 64 << 10, DrainTimeout: 30 * time.Second,
		RequeueRate: 500,
		LaterLimit:  100, LaterAge: 8 * 24 * time.Hour, UnknownFor: time.Hour, AnonymousQuota: 100, KeyQuota: 10_000,
		SQLRetention: "90d", AnonymousTypes: "SIMULATION,GENERATE_PDF", Connections: 8192, Demo: true,
		Redact: "SEND_EMAIL:to,subject,body,html,accepted,refused EMAIL:to,subject,body,html,accepted,refused " +
			"SEND_WEBHOOK:headers,body FORWARD_DOCUMENT:body",
	}
	if c != want {
		t.Errorf("got\n%v\nwant\n%v", c, want)
	}
	if !c.Embedded() {
		t.Error("nothing configured is not embedded mode")
	}
	if c.Living() != 220_000 {
		t.Errorf("%d jobs may live", c.Living())
	}
	if c.LivingLimit = 7; c.Living() != 7 {
		t.Errorf("%d jobs may live, of 7", c.Living())
	}
}

func TestValues(t *testing.T) {
	t.Attr("proves", "S2-C1")
	c, problems := load(t, append(external,
		"TIERQ_ROLES= worker , recovery", "TIERQ_WORKERS=3", "TIERQ_PAYLOAD_LIMIT=1KiB", "TIERQ_RESULT_LIMIT=65536",
		"TIERQ_RETENTION=0", "TIERQ_INSECURE=on", "TIERQ_ADDR=:9000", "TIERQ_LOG_LEVEL=debug", "TIERQ_LOG_FORMAT=json",
		"TIERQ_CAPACITY=", "TIERQ_URL=http://cli", "TIERQ_TOKEN=cli", "TIERQ_DEMO=",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318",
		"TIERQ_EGRESS_ALLOW= 10.1.2.3/16, fd00::/8 ", "TIERQ_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"TIERQ_BLOB_URL=s3://files?region=eu", "HOME=/x")...)
	if problems != nil {
		t.Fatal(problems)
	}
	if c.Embedded() || c.RedisURL != "redis://:sesame@cache:6379/0" || c.MySQLDSN != "tierq:sesame@tcp(db:3306)/tierq" {
		t.Errorf("stores: %q %q", c.RedisURL, c.MySQLDSN)
	}
	if c.Roles != (Roles{Worker: true, Recovery: true}) || c.Roles.String() != "worker,recovery" {
		t.Errorf("roles: %+v", c.Roles)
	}
	if c.Workers != 3 || c.PayloadLimit != 1024 || c.ResultLimit != 65536 || c.Retention != 0 || !c.Insecure ||
		c.Capacity != 10_000 {
		t.Errorf("got\n%v", c)
	}
	if c.OTLPEndpoint != "http://collector:4318" || fmt.Sprint(c.Egress()) != "[10.1.0.0/16 fd00::/8]" ||
		c.BlobURL != "s3://files?region=eu" {
		t.Errorf("outgoing: %v", c)
	}
	if c.LogLevel.String() != "DEBUG" || c.LogFormat != "json" {
		t.Errorf("log: %v %v", c.LogLevel, c.LogFormat)
	}
}

func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		environ []string
		want    string // part of the only problem
	}{
		"redis alone":       {[]string{"REDIS_URL=redis://h:1"}, "MYSQL_DSN: not set, but REDIS_URL is"},
		"mysql alone":       {[]string{"MYSQL_DSN=u:p@tcp(h:1)/d"}, "REDIS_URL: not set, but MYSQL_DSN is"},
		"roles in embedded": {[]string{"TIERQ_ROLES=api"}, "embedded mode needs all of api,worker,recovery"},
		"capacity in embedded": {[]string{"TIERQ_CAPACITY=100001"},
			`TIERQ_CAPACITY="100001": must be at most 100000 in embedded mode`},
		"delayed in embedded": {[]string{"TIERQ_CAPACITY=100000", "TIERQ_SCHEDULED_LIMIT=100001"},
			`TIERQ_SCHEDULED_LIMIT="100001": must be at most 100000 in embedded mode`},
		"queue": {[]string{"TIERQ_QUEUES=main,.films"},
			`TIERQ_QUEUES="main,.films": ".films": queue is not valid`},
		"empty queue":    {[]string{"TIERQ_QUEUES=main,"}, `"": queue is not valid`},
		"unknown role":   {[]string{"TIERQ_ROLES=api,cook"}, `TIERQ_ROLES="api,cook": "cook" is no role`},
		"no port":        {[]string{"TIERQ_ADDR=127.0.0.1"}, "is not host:port"},
		"port too high":  {[]string{"TIERQ_ADDR=127.0.0.1:65536"}, "has no port"},
		"not a number":   {[]string{"TIERQ_WORKERS=many"}, `TIERQ_WORKERS="many": is not a whole number`},
		"beyond int64":   {[]string{"TIERQ_WORKERS=99999999999999999999"}, "is not a whole number"},
		"workers zero":   {[]string{"TIERQ_WORKERS=0"}, "must be 1 to 10000"},
		"base above":     {[]string{"TIERQ_PRIORITY_BASE=10000000000001"}, "no longer exact in a double"},
		"base zero":      {[]string{"TIERQ_PRIORITY_BASE=0"}, "must be 1 to 10000000000000"},
		"partitions":     {[]string{"TIERQ_PARTITIONS=257"}, "must be 1 to 256"},
		"embedded parts": {[]string{"TIERQ_PARTITIONS=2"}, "must be 1 in embedded mode"},
		"share of nothing": {[]string{external[0], external[1], "TIERQ_PARTITIONS=8", "TIERQ_CAPACITY=7"},
			"less than TIERQ_PARTITIONS=8"},
		"heartbeat too slow": {[]string{"TIERQ_HEARTBEAT_INTERVAL=1001ms"}, "must be 10ms to 1s"},
		"duration without":   {[]string{"TIERQ_DRAIN_TIMEOUT=30"}, "is not a duration"},
		"negative retention": {[]string{"TIERQ_RETENTION=-1s"}, "must be 0s to 8760h"},
		"payload above":      {[]string{"TIERQ_PAYLOAD_LIMIT=524289"}, "must be 1 to 512KiB"},
		"result above":       {[]string{"TIERQ_RESULT_LIMIT=1MiB"}, "one script call stays within 1 MiB"},
		"size in KB":         {[]string{"TIERQ_PAYLOAD_LIMIT=64KB"}, "is not a size"},
		"size beyond int64":  {[]string{"TIERQ_PAYLOAD_LIMIT=9999999999999GiB"}, "is not a size"},
		"size negative":      {[]string{"TIERQ_PAYLOAD_LIMIT=-1"}, "is not a size"},
		"switch":             {[]string{"TIERQ_INSECURE=maybe"}, "neither on nor off"},
		"log level":          {[]string{"TIERQ_LOG_LEVEL=loud"}, `TIERQ_LOG_LEVEL="loud"`},
		"log format":         {[]string{"TIERQ_LOG_FORMAT=xml"}, "neither text nor json"},
		"redis scheme":       {[]string{"REDIS_URL=http://h:1", external[1]}, "must begin with redis://"},
		"redis host":         {[]string{"REDIS_URL=redis:///0", external[1]}, "names no host"},
		"redis socket":       {[]string{"REDIS_URL=unix://", external[1]}, "names no socket"},
		"mysql url":          {[]string{external[0], "MYSQL_DSN=mysql://u:sesame@h/d"}, "is a DSN, not a URL"},
		"mysql without base": {[]string{external[0], "MYSQL_DSN=u:sesame@tcp(h:1)/?x=y"}, "names no database"},
		"unknown": {[]string{"TIERQ_WORKER=3"},
			"TIERQ_WORKER: unknown setting; the nearest known one is TIERQ_WORKERS"},
		"unknown and empty":    {[]string{"TIERQ_ADDRR="}, "nearest known one is TIERQ_ADDR"},
		"a test's switch":      {[]string{"TIERQ_TEST_CRASH=on"}, "TIERQ_TEST_CRASH: unknown setting"},
		"a file for no secret": {[]string{"TIERQ_ADDR_FILE=x"}, "TIERQ_ADDR_FILE: unknown setting"},
		"file missing": {[]string{"REDIS_URL_FILE=/nowhere/at/all", external[1]},
			"REDIS_URL_FILE: /nowhere/at/all cannot be read"},
		"variable and file": {[]string{external[0], external[1], "MYSQL_DSN_FILE=/x"},
			"MYSQL_DSN: MYSQL_DSN_FILE is set too"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := load(t, tc.environ...)
			if len(problems) != 1 || !strings.Contains(problems[0], tc.want) {
				t.Errorf("problems %q, want one with %q", problems, tc.want)
			}
		})
	}
}

func TestEveryProblemAtOnce(t *testing.T) {
	_, problems := load(t, "TIERQ_WORKERS=x", "TIERQ_CAPACITY=0", "REDIS_URL=redis://h:1", "TIERQ_ADDR=1",
		"TIERQ_PAYLOAD_LIMIT=z",
		"TIERQ_NOPE=1", "TIERQ_DEMO=perhaps", "TIERQ_LOG_FORMAT=xml", "TIERQ_ROLES=cook")
	text := strings.Join(problems, "\n")
	for _, name := range []string{"WORKERS", "CAPACITY", "MYSQL_DSN", "ADDR", "PAYLOAD_LIMIT", "NOPE", "DEMO",
		"LOG_FORMAT", "ROLES"} {
		if !strings.Contains(text, name) {
			t.Errorf("nothing about %s in\n%s", name, text)
		}
	}
	if len(problems) != 9 {
		t.Errorf("%d problems, want 9:\n%s", len(problems), text)
	}
}

func TestOrder(t *testing.T) {
	dotenv := write(t, "TIERQ_WORKERS=1\nTIERQ_CAPACITY=1\nTIERQ_OUTBOX_LIMIT=1\nTIERQ_GATE_THRESHOLD=9\n"+
		"MYSQL_ROOT_PASSWORD=other\n")
	environ := []string{"TIERQ_WORKERS=2", "TIERQ_CAPACITY=2", "TIERQ_GATE_THRESHOLD="}
	c, err := Load(environ, dotenv, map[string]string{"TIERQ_WORKERS": "3"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Workers != 3 || c.Capacity != 2 || c.OutboxLimit != 1 || c.GateThreshold != 3 || c.KeepEnded != 1_000_000 {
		t.Errorf("got\n%v", c)
	}

	_, err = Load([]string{"TIERQ_CAPACITY=x"}, write(t, "TIERQ_KEEP_ENDED=y\nTIERQ_WROKERS=1\n"),
		map[string]string{"TIERQ_WORKERS": "z"})
	text := strings.Join(list(t, err), "\n")
	for _, part := range []string{`TIERQ_WORKERS="z" (flag --workers): `, `TIERQ_CAPACITY="x": `, `.env): is not`,
		`TIERQ_WROKERS (`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestDotenvFile(t *testing.T) {
	if _, err := Load(nil, filepath.Join(t.TempDir(), "none"), nil); err != nil {
		t.Errorf("a missing .env is a problem: %v", err)
	}
	if _, err := Load(nil, t.TempDir(), nil); err == nil {
		t.Error("an unreadable .env is no problem")
	}
	_, err := Load(nil, write(t, "TIERQ_WORKERS=1\nwrong%name=1\nREDIS_URL=redis://:sesame@h\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "cannot be parsed") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a broken .env: %v", err)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOutgoingProblems(t *testing.T) {
	for setting, says := range map[string]string{
		"TIERQ_SMTP_URL=http://mail":                           "smtp://",
		"TIERQ_SMTP_URL=smtp:///x":                             "smtp://",
		"TIERQ_BLOB_URL=/folder":                               "file:///folder",
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318":           "http://127.0.0.1:4318",
		"TIERQ_WEBHOOK_SECRET=MfKQ9r8GKYqrTwjUPD8ILPZ":         "whsec_",
		"TIERQ_WEBHOOK_SECRET=whsec_c2hvcnQ=":                  "24 to 64 bytes",
		"TIERQ_GATEWAY_SECRET=0123456789012345678901234567890": "has 31 characters and must have 32 or more",
		"TIERQ_EGRESS_ALLOW=10.0.0.1":                          "no network",
		"TIERQ_REQUEUE_RATE=0":                                 "must be 1 to 100000",
	} {
		_, problems := load(t, setting)
		if len(problems) != 1 || !strings.Contains(problems[0], says) {
			t.Errorf("%s: %q, want %q", setting, problems, says)
		}
	}
}

func TestOpsAddr(t *testing.T) {
	if _, problems := load(t, "TIERQ_OPS_ADDR=127.0.0.1:9090"); problems != nil {
		t.Error(problems)
	}
	for setting, says := range map[string]string{
		"TIERQ_OPS_ADDR=9090":           "is not host:port",
		"TIERQ_OPS_ADDR=127.0.0.1:8080": "is the same as TIERQ_ADDR",
	} {
		if _, problems := load(t, setting); len(problems) != 1 || !strings.Contains(problems[0], says) {
			t.Errorf("%s: %q", setting, problems)
		}
	}
}
