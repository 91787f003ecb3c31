// Package config turns flags, environment and .env into a Config, once, and reports all problems together.
//
// The struct tags of Config are the one table of settings: the flags of `tierq serve`, its help, .env.example and
// docs/SETTINGS.md are all made from it.
package config

import (
	"log/slog"
	"net/netip"
	"time"
)

// Config holds the settings of the process. Only Load makes a Config; one that was returned without an error is
// within all bounds.
//
// Tags: env and envDefault name the setting and its default; doc is its one line of documentation; min, max and
// why bound it; unit:"bytes" takes sizes like 64KiB; secret keeps it out of logs and adds NAME_FILE.
type Config struct {
	Addr     string `env:"TIERQ_ADDR" envDefault:"127.0.0.1:8080" doc:"host:port to listen on, each process of a host needs its own: the API; without the api role /livez, /readyz and /actuator/health only. Beyond loopback the API is only where keys were made, or with TIERQ_INSECURE=on"`
	OpsAddr  string `env:"TIERQ_OPS_ADDR" doc:"host:port of a second listener that serves /metrics, /debug/pprof, /livez and /readyz only, in processes of any role; beyond loopback it wants an operator's key; unset: none, and the API serves them"`
	RedisURL string `env:"REDIS_URL" secret:"yes" doc:"redis://, rediss:// or unix:// URL; unset together with MYSQL_DSN: embedded mode"`
	MySQLDSN string `env:"MYSQL_DSN" secret:"yes" doc:"user:password@tcp(host:3306)/database; unset together with REDIS_URL: embedded mode"`
	DataDir  string `env:"TIERQ_DATA_DIR" envDefault:"./data" doc:"folder of the embedded SQLite file, of mail that has no server, and of files that jobs make"`

	Roles   Roles `env:"TIERQ_ROLES" envDefault:"api,worker,recovery" doc:"what this process does; external mode may leave some of them out"`
	Workers int   `env:"TIERQ_WORKERS" envDefault:"16" min:"1" max:"10000" why:"a slot is a goroutine and an entry of every heartbeat" doc:"jobs this process runs at once"`

	Capacity       int `env:"TIERQ_CAPACITY" envDefault:"10000" min:"1" max:"100000000" why:"waiting jobs live in Redis' memory" doc:"ready jobs never claimed; beyond a tier's share of it submits get 503 QUEUE_FULL. Embedded mode: at most 100000"`
	ScheduledLimit int `env:"TIERQ_SCHEDULED_LIMIT" envDefault:"100000" min:"0" max:"100000000" why:"scheduled jobs live in Redis' memory" doc:"jobs scheduled at submit; a tier may fill its share of it. Embedded mode: at most 100000"`
	LivingLimit    int `env:"TIERQ_LIVING_LIMIT" envDefault:"0" min:"0" max:"1000000000" why:"living jobs are kept in Redis' memory" doc:"jobs that have not ended: waiting, scheduled, running or waiting for a retry; beyond a tier's share of it submits get 503 QUEUE_FULL; 0: twice TIERQ_CAPACITY and TIERQ_SCHEDULED_LIMIT together"`
	LivingBytes    int `env:"TIERQ_LIVING_BYTES" envDefault:"0" unit:"bytes" min:"0" max:"1048576MiB" why:"living jobs are kept in Redis' memory" doc:"payloads and checkpoints of jobs that have not ended; beyond a tier's share of it, or for jobs scheduled at submit of half of it, submits get 503 QUEUE_FULL; 0: half of Redis' maxmemory, as the servers tell it, 1 GiB where there is none, and 256 MiB in embedded mode"`
	LaterLimit     int `env:"TIERQ_LATER_LIMIT" envDefault:"100" min:"0" max:"1000000000" why:"a job that never ends is kept in Redis' memory" doc:"how often a job may ask to be run later (a busy endpoint's Retry-After does) before each time costs a retry; 0: any number of times"`

	LaterAge   time.Duration `env:"TIERQ_LATER_AGE" envDefault:"192h" min:"0s" max:"8760h" why:"a job that never ends is kept in Redis' memory" doc:"how long after its first attempt a job may ask to be run before each time costs a retry; 0: for ever"`
	UnknownFor time.Duration `env:"TIERQ_UNKNOWN_FOR" envDefault:"1h" min:"0s" max:"8760h" why:"a job that never ends is kept in Redis' memory" doc:"how long a job waits for a worker that knows its type, before it is a dead letter with the cause UNKNOWN_JOB_TYPE; no retry is spent meanwhile; 0: for ever"`

	PriorityBase int64 `env:"TIERQ_PRIORITY_BASE" envDefault:"10000000000000" min:"1" max:"10000000000000" why:"above it a score is no longer exact in a double" doc:"one tier step in ms of arrival; the default makes tiers strict"`
	Partitions   int   `env:"TIERQ_PARTITIONS" envDefault:"1" min:"1" max:"256" why:"an id carries its partition in one byte" doc:"parts of the queue, one Redis Cluster slot each; 1 in embedded mode"`

	HeartbeatInterval time.Duration `env:"TIERQ_HEARTBEAT_INTERVAL" envDefault:"500ms" min:"10ms" max:"1s" why:"a worker must beat several times within the shortest heartbeat timeout" doc:"between two heartbeats of a worker"`
	Retention         time.Duration `env:"TIERQ_RETENTION" envDefault:"24h" min:"0s" max:"8760h" why:"SQL is the archive, Redis is not" doc:"how long Redis answers for COMPLETED and CANCELLED jobs, a minute at least; 0: not at all, SQL does; embedded mode: a minute"`
	FailedRetention   time.Duration `env:"TIERQ_FAILED_RETENTION" envDefault:"1h" min:"0s" max:"8760h" why:"SQL is the archive, Redis is not" doc:"how long Redis answers for FAILED jobs, a minute at least, then SQL does; 0: not at all; embedded mode: a minute"`
	KeepEnded         int           `env:"TIERQ_KEEP_ENDED" envDefault:"1000000" min:"0" max:"1000000000" why:"ended jobs live in Redis' memory" doc:"ended jobs that Redis keeps at most; many endings shorten the retention, to 60 s at the least"`

	SQLRetention string `env:"TIERQ_SQL_RETENTION" envDefault:"90d" doc:"how long SQL keeps what ended: an age such as 36h, 90d, 2w or 1y (at least 24h; 0: for ever), then, with commas between them, others for results, dead, cancelled, changes (the log of changes) and mails (.eml files), and for those of one tier: 90d,dead=1y,PUBLIC.results=7d; unset: 90d, or what Redis keeps if that is longer; a job's history and file go with its outcome"`

	IdempotencyTTL   time.Duration `env:"TIERQ_IDEMPOTENCY_TTL" envDefault:"1h" min:"1m" max:"168h" why:"a key takes about 270 bytes of Redis' memory, and a client that repeats does so soon" doc:"how long an Idempotency-Key stands for its job; embedded mode: 10 minutes at most"`
	IdempotencyLimit int           `env:"TIERQ_IDEMPOTENCY_LIMIT" envDefault:"4000000" min:"0" max:"1000000000" why:"they live in Redis' memory, and with the journal in SQL" doc:"Idempotency-Keys of one API key that stand at once: so many submits may bring one, and so many per TIERQ_IDEMPOTENCY_TTL from then on; beyond that 429; 0: any number"`

	Journal bool `env:"TIERQ_JOURNAL" envDefault:"off" doc:"on: a 202 means that SQL has the job too, so that a Redis which loses it gets it back; SQL being down then closes the gate; on every process or on none; embedded mode: always on"`

	GateThreshold int `env:"TIERQ_GATE_THRESHOLD" envDefault:"3" min:"1" max:"1000" why:"a gate that never closes lets submits hang" doc:"infrastructure errors in a row that close the gate (503 SYSTEM_UNHEALTHY)"`
	OutboxLimit   int `env:"TIERQ_OUTBOX_LIMIT" envDefault:"100000" min:"1" max:"100000000" why:"outcomes wait for SQL in Redis' memory" doc:"outcomes not yet in SQL that close the gate"`

	PayloadLimit int `env:"TIERQ_PAYLOAD_LIMIT" envDefault:"64KiB" unit:"bytes" min:"1" max:"512KiB" why:"one script call stays within 1 MiB" doc:"largest payload of a job; above it 413"`
	ResultLimit  int `env:"TIERQ_RESULT_LIMIT" envDefault:"64KiB" unit:"bytes" min:"1" max:"512KiB" why:"one script call stays within 1 MiB" doc:"largest result of a job; above it the job fails with RESULT_TOO_LARGE"`

	DrainTimeout time.Duration `env:"TIERQ_DRAIN_TIMEOUT" envDefault:"30s" min:"0s" max:"1h" why:"a process manager kills a process that stops too slowly" doc:"how long a stopping process lets running jobs finish before it gives them back"`

	Insecure       bool   `env:"TIERQ_INSECURE" envDefault:"off" doc:"on: a server without API keys is open, in external mode too, and every caller on the network may reach TIERQ_ADDR and TIERQ_OPS_ADDR"`
	AdminKey       string `env:"TIERQ_ADMIN_KEY" secret:"yes" doc:"tq_<id>_<secret>, as tierq keys generate prints one: an admin key that needs no store, to make the others with"`
	AnonymousRate  int    `env:"TIERQ_ANONYMOUS_RATE" envDefault:"0" min:"0" max:"1000000" why:"it is counted in Redis" doc:"requests a second that one address may make without a key where there are keys: submits to PUBLIC, and polls of jobs submitted so; 0: none"`
	AnonymousTypes string `env:"TIERQ_ANONYMOUS_TYPES" envDefault:"SIMULATION,GENERATE_PDF" doc:"job types that may be submitted without a key where TIERQ_ANONYMOUS_RATE lets strangers submit, with commas between them; CALLBACK lets them name a callbackUrl. Types that send mail or call out make the server a relay for strangers"`
	AnonymousTotal int    `env:"TIERQ_ANONYMOUS_TOTAL" envDefault:"0" min:"0" max:"1000000" why:"it is counted in Redis" doc:"requests a second that all addresses together may make without a key; 0: ten times TIERQ_ANONYMOUS_RATE"`
	AnonymousQuota int    `env:"TIERQ_ANONYMOUS_QUOTA" envDefault:"100" min:"0" max:"1000000000" why:"living jobs are kept in Redis' memory" doc:"jobs that have not ended which one address, of IPv6 a /64, may have submitted without a key where there are keys; beyond it 429; 0: any number"`
	KeyQuota       int    `env:"TIERQ_KEY_QUOTA" envDefault:"10000" min:"0" max:"1000000000" why:"living jobs are kept in Redis' memory" doc:"jobs that have not ended which a submit key may have that has no quota of its own; beyond it 429; 0: any number"`
	AddressRate    int    `env:"TIERQ_ADDRESS_RATE" envDefault:"0" min:"0" max:"1000000" why:"it is counted in Redis" doc:"requests a second that one address may make, over all keys and without one: pages, their files and the API description count too, health does not; 0: any number"`
	Types          string `env:"TIERQ_TYPES" doc:"job types that submits may name, such as SEND_EMAIL,SEND_WEBHOOK; all: every type that this server runs; unset: every type too, and where there are API keys a warning at each start"`
	TrustedProxies string `env:"TIERQ_TRUSTED_PROXIES" doc:"networks such as 10.1.0.0/16, with commas between them, whose X-Forwarded-For says where a request came from; unset: the header is not read"`
	Redact         string `env:"TIERQ_REDACT" envDefault:"SEND_EMAIL:to,subject,body,html,accepted,refused EMAIL:to,subject,body,html,accepted,refused SEND_WEBHOOK:headers,body FORWARD_DOCUMENT:body" doc:"members of payloads and results that read-only keys do not see: TYPE:member,member with spaces between the types; TYPE:* hides all; none: nothing is hidden"`
	Connections    int    `env:"TIERQ_CONNECTIONS" envDefault:"8192" min:"16" max:"1000000" why:"each takes a descriptor and about 20 KiB" doc:"connections that a listener holds at once; one more takes the place of the one that was idle longest"`
	PerAddress     int    `env:"TIERQ_ADDRESS_CONNECTIONS" envDefault:"0" min:"0" max:"1000000" why:"a listener has no more" doc:"connections of a listener that one address may have, of IPv6 a /64; one more takes the place of an idle one of its own, or is closed; a proxy in TIERQ_TRUSTED_PROXIES has no such limit; 0: a quarter of TIERQ_CONNECTIONS, and no limit for this machine"`
	H2C            bool   `env:"TIERQ_H2C" envDefault:"off" doc:"on: TIERQ_ADDR also speaks HTTP/2 without TLS, to clients that begin with it; for a proxy in front"`
	Demo           bool   `env:"TIERQ_DEMO" envDefault:"on" doc:"off: no /demo, on which visitors of a server without API keys play scenarios on small queues in its memory, at most eight at a time; a server with keys has no /demo"`
	CAFile         string `env:"TIERQ_CA_FILE" doc:"PEM file of authorities that Redis, MySQL and the mail server may be signed by, beside the system's"`

	SMTPURL       string `env:"TIERQ_SMTP_URL" secret:"yes" doc:"smtp://user:password@host:587?from=tierq@example.com (STARTTLS) or smtps://host:465?from=...; unset: mail is written as .eml files under TIERQ_DATA_DIR"`
	BlobURL       string `env:"TIERQ_BLOB_URL" doc:"where the files that jobs make are kept: file:///folder or s3://bucket?region=...; unset: under TIERQ_DATA_DIR"`
	WebhookMaster string `env:"TIERQ_WEBHOOK_MASTER" secret:"yes" doc:"whmaster_<base64>: each API key's own secret and key pair, which sign its webhooks and callbacks, are derived from it; for no receiver; the same on every process; several with spaces between them while one is replaced, the new one first; unset: embedded mode makes one under TIERQ_DATA_DIR, external mode has none"`
	WebhookSecret string `env:"TIERQ_WEBHOOK_SECRET" secret:"yes" doc:"whsec_<base64>: signs the webhooks and callbacks of all keys beside TIERQ_WEBHOOK_MASTER, for receivers that share it from before; each of them can forge every message, so unset it once all verify with a key's own; unset: embedded mode takes webhook-secret under TIERQ_DATA_DIR if a version before left one"`
	EgressAllow   string `env:"TIERQ_EGRESS_ALLOW" doc:"networks such as 10.1.0.0/16 that webhooks, callbacks and forwarding may reach although they are private, with commas between them"`
	RequeueRate   int    `env:"TIERQ_REQUEUE_RATE" envDefault:"500" min:"1" max:"100000" why:"a bulk requeue must leave capacity for submits" doc:"dead letters per second that a bulk requeue brings back"`
	OTLPEndpoint  string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"URL of an OpenTelemetry collector (OTLP over HTTP); unset: no traces are sent"`

	LogLevel  slog.Level `env:"TIERQ_LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error"`
	LogFormat string     `env:"TIERQ_LOG_FORMAT" doc:"text or json; unset: text on a terminal, json elsewhere"`

	// Exposed names the NAME_FILE settings whose file other users of this machine may read; "" = none. Load sets it.
	Exposed string
}

// Roles says what a process does.
type Roles struct {
	API      bool
	Worker   bool
	Recovery bool
}

// All reports whether the process has every role.
func (r Roles) All() bool { return r.API && r.Worker && r.Recovery }

// Egress returns the networks of TIERQ_EGRESS_ALLOW.
func (c Config) Egress() []netip.Prefix {
	networks, _ := parseNetworks(c.EgressAllow) // Load has checked the text
	return networks
}

// Living returns how many jobs that have not ended there may be: TIERQ_LIVING_LIMIT, or a number derived from the
// other two limits.
func (c Config) Living() int {
	if c.LivingLimit > 0 {
		return c.LivingLimit
	}
	return 2 * (c.Capacity + c.ScheduledLimit)
}

// Journaled reports whether there is an accept journal. Embedded mode always has one: without it no job would
// survive the process.
func (c Config) Journaled() bool { return c.Journal || c.Embedded() }

// Embedded reports whether the stores are inside the process: no external store is configured.
func (c Config) Embedded() bool { return c.RedisURL == "" && c.MySQLDSN == "" }
