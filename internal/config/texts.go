package config

// text is what the documentation says of a setting.
type text struct {
	doc string // one line: what the setting does, and what a special value means
	why string // the reason of its bounds
}

// texts has the text of every setting, in the order of Config.
var texts = map[string]text{
	"TIERQ_ADDR": {
		doc: "host:port to listen on, each process of a host needs its own: the API; without the api role /livez, " +
			"/readyz and /actuator/health only. Beyond loopback the API is only where keys were made, or with " +
			"TIERQ_INSECURE=on",
	},
	"TIERQ_OPS_ADDR": {
		doc: "host:port of a second listener that serves /metrics, /debug/pprof, /livez and /readyz only, in " +
			"processes of any role; beyond loopback it wants an operator's key; unset: none, and the API serves " +
			"them",
	},
	"REDIS_URL": {
		doc: "redis://, rediss:// or unix:// URL; unset together with MYSQL_DSN: embedded mode",
	},
	"MYSQL_DSN": {
		doc: "user:password@tcp(host:3306)/database; unset together with REDIS_URL: embedded mode",
	},
	"TIERQ_DATA_DIR": {
		doc: "folder of the embedded SQLite file, of mail that has no server, and of files that jobs make",
	},
	"TIERQ_ROLES": {
		doc: "what this process does; external mode may leave some of them out",
	},
	"TIERQ_QUEUES": {
		doc: "queues whose jobs this process runs, with commas between them",
	},
	"TIERQ_WORKERS": {
		doc: "jobs this process runs at once",
		why: "a slot is a goroutine and an entry of every heartbeat",
	},
	"TIERQ_CAPACITY": {
		doc: "ready jobs never claimed; beyond a tier's share of it submits get 503 QUEUE_FULL. Embedded mode: at " +
			"most 100000",
		why: "waiting jobs live in Redis' memory",
	},
	"TIERQ_SCHEDULED_LIMIT": {
		doc: "jobs scheduled at submit; a tier may fill its share of it. Embedded mode: at most 100000",
		why: "scheduled jobs live in Redis' memory",
	},
	"TIERQ_LIVING_LIMIT": {
		doc: "jobs that have not ended: waiting, scheduled, running or waiting for a retry; beyond a tier's share " +
			"of it submits get 503 QUEUE_FULL; 0: twice TIERQ_CAPACITY and TIERQ_SCHEDULED_LIMIT together",
		why: "living jobs are kept in Redis' memory",
	},
	"TIERQ_LIVING_BYTES": {
		doc: "payloads and checkpoints of jobs that have not ended; beyond a tier's share of it, or for jobs " +
			"scheduled at submit of half of it, submits get 503 QUEUE_FULL; 0: half of Redis' maxmemory, as the " +
			"servers tell it, 1 GiB where there is none, and 256 MiB in embedded mode",
		why: "living jobs are kept in Redis' memory",
	},
	"TIERQ_LATER_LIMIT": {
		doc: "how often a job may ask to be run later (a busy endpoint's Retry-After does) before each time costs a " +
			"retry; 0: any number of times",
		why: "a job that never ends is kept in Redis' memory",
	},
	"TIERQ_LATER_AGE": {
		doc: "how long after its first attempt a job may ask to be run before each time costs a retry; 0: for ever",
		why: "a job that never ends is kept in Redis' memory",
	},
	"TIERQ_UNKNOWN_FOR": {
		doc: "how long a job waits for a worker that knows its type, before it is a dead letter with the cause " +
			"UNKNOWN_JOB_TYPE; no retry is spent meanwhile; 0: for ever",
		why: "a job that never ends is kept in Redis' memory",
	},
	"TIERQ_PRIORITY_BASE": {
		doc: "one tier step in ms of arrival; the default makes tiers strict",
		why: "above it a score is no longer exact in a double",
	},
	"TIERQ_PARTITIONS": {
		doc: "parts of the queue, one Redis Cluster slot each; 1 in embedded mode",
		why: "an id carries its partition in one byte",
	},
	"TIERQ_HEARTBEAT_INTERVAL": {
		doc: "between two heartbeats of a worker",
		why: "a worker must beat several times within the shortest heartbeat timeout",
	},
	"TIERQ_RETENTION": {
		doc: "how long Redis answers for COMPLETED and CANCELLED jobs, a minute at least; 0: not at all, SQL does; " +
			"embedded mode: a minute",
		why: "SQL is the archive, Redis is not",
	},
	"TIERQ_FAILED_RETENTION": {
		doc: "how long Redis answers for FAILED jobs, a minute at least, then SQL does; 0: not at all; embedded " +
			"mode: a minute",
		why: "SQL is the archive, Redis is not",
	},
	"TIERQ_KEEP_ENDED": {
		doc: "ended jobs that Redis keeps at most; many endings shorten the retention, to 60 s at the least",
		why: "ended jobs live in Redis' memory",
	},
	"TIERQ_SQL_RETENTION": {
		doc: "how long SQL keeps what ended: an age such as 36h, 90d, 2w or 1y (at least 24h; 0: for ever), then, " +
			"with commas between them, others for results, dead, cancelled (expired too), changes (the log of changes) and " +
			"mails (.eml files), and for those of one tier: 90d,dead=1y,PUBLIC.results=7d; unset: 90d, or what Redis " +
			"keeps if that is longer; a job's history and file go with its outcome",
	},
	"TIERQ_IDEMPOTENCY_TTL": {
		doc: "how long an Idempotency-Key stands for its job; embedded mode: 10 minutes at most",
		why: "a key takes about 270 bytes of Redis' memory, and a client that repeats does so soon",
	},
	"TIERQ_IDEMPOTENCY_LIMIT": {
		doc: "Idempotency-Keys of one API key that stand at once: so many submits may bring one, and so many per " +
			"TIERQ_IDEMPOTENCY_TTL from then on; beyond that 429; 0: any number",
		why: "they live in Redis' memory, and with the journal in SQL",
	},
	"TIERQ_JOURNAL": {
		doc: "on: a 202 means that SQL has the job too, so that a Redis which loses it gets it back; SQL being down " +
			"then closes the gate; on every process or on none; embedded mode: always on",
	},
	"TIERQ_GATE_THRESHOLD": {
		doc: "infrastructure errors in a row that close the gate (503 SYSTEM_UNHEALTHY)",
		why: "a gate that never closes lets submits hang",
	},
	"TIERQ_OUTBOX_LIMIT": {
		doc: "outcomes not yet in SQL that close the gate",
		why: "outcomes wait for SQL in Redis' memory",
	},
	"TIERQ_PAYLOAD_LIMIT": {
		doc: "largest payload of a job; above it 413",
		why: "one script call stays within 1 MiB",
	},
	"TIERQ_RESULT_LIMIT": {
		doc: "largest result of a job; above it the job fails with RESULT_TOO_LARGE",
		why: "one script call stays within 1 MiB",
	},
	"TIERQ_DRAIN_TIMEOUT": {
		doc: "how long a stopping process lets running jobs finish before it gives them back",
		why: "a process manager kills a process that stops too slowly",
	},
	"TIERQ_INSECURE": {
		doc: "on: a server without API keys is open, in external mode too, and every caller on the network may " +
			"reach TIERQ_ADDR and TIERQ_OPS_ADDR",
	},
	"TIERQ_ADMIN_KEY": {
		doc: "tq_<id>_<secret>, as tierq keys generate prints one: an admin key that needs no store, to make the " +
			"others with",
	},
	"TIERQ_ANONYMOUS_RATE": {
		doc: "requests a second that one address may make without a key where there are keys: submits to PUBLIC, " +
			"and polls of jobs submitted so; 0: none",
		why: "it is counted in Redis",
	},
	"TIERQ_ANONYMOUS_TYPES": {
		doc: "job types that may be submitted without a key where TIERQ_ANONYMOUS_RATE lets strangers submit, with " +
			"commas between them; CALLBACK lets them name a callbackUrl. Types that send mail or call out make the " +
			"server a relay for strangers",
	},
	"TIERQ_ANONYMOUS_TOTAL": {
		doc: "requests a second that all addresses together may make without a key; 0: ten times " +
			"TIERQ_ANONYMOUS_RATE",
		why: "it is counted in Redis",
	},
	"TIERQ_ANONYMOUS_QUOTA": {
		doc: "jobs that have not ended which one address, of IPv6 a /64, may have submitted without a key where " +
			"there are keys; beyond it 429; 0: any number",
		why: "living jobs are kept in Redis' memory",
	},
	"TIERQ_KEY_QUOTA": {
		doc: "jobs that have not ended which a submit key, or a worker's key that submits, may have if it has no quota " +
			"of its own; beyond it 429; 0: any number",
		why: "living jobs are kept in Redis' memory",
	},
	"TIERQ_ADDRESS_RATE": {
		doc: "requests a second that one address may make, over all keys and without one: pages, their files and " +
			"the API description count too, health does not; 0: any number",
		why: "it is counted in Redis",
	},
	"TIERQ_TYPES": {
		doc: "job types that submits may name, such as SEND_EMAIL,SEND_WEBHOOK; all: every type that this server " +
			"runs; unset: every type too, and where there are API keys a warning at each start",
	},
	"TIERQ_TRUSTED_PROXIES": {
		doc: "networks such as 10.1.0.0/16, with commas between them, whose X-Forwarded-For says where a request " +
			"came from; unset: the header is not read",
	},
	"TIERQ_REDACT": {
		doc: "members of payloads and results that read-only keys do not see: TYPE:member,member with spaces " +
			"between the types; TYPE:* hides all; none: nothing is hidden",
	},
	"TIERQ_CONNECTIONS": {
		doc: "connections that a listener holds at once; one more takes the place of the one that was idle longest",
		why: "each takes a descriptor and about 20 KiB",
	},
	"TIERQ_ADDRESS_CONNECTIONS": {
		doc: "connections of a listener that one address may have, of IPv6 a /64; one more takes the place of an " +
			"idle one of its own, or is closed; a proxy in TIERQ_TRUSTED_PROXIES has no such limit; 0: a quarter " +
			"of TIERQ_CONNECTIONS, and no limit for this machine",
		why: "a listener has no more",
	},
	"TIERQ_H2C": {
		doc: "on: TIERQ_ADDR also speaks HTTP/2 without TLS, to clients that begin with it; for a proxy in front",
	},
	"TIERQ_DEMO": {
		doc: "off: no /demo, on which visitors of a server without API keys play scenarios on small queues in its " +
			"memory, at most eight at a time; a server with keys has no /demo",
	},
	"TIERQ_CA_FILE": {
		doc: "PEM file of authorities that Redis, MySQL and the mail server may be signed by, beside the system's",
	},
	"TIERQ_FAKTORY_ADDR": {
		doc: "host:port of a listener that serves the protocol of Faktory, 127.0.0.1:7419 by custom, in processes with " +
			"the api role; unset: none",
	},
	"TIERQ_FAKTORY_TLS_CERT": {
		doc: "PEM file of the certificate of TIERQ_FAKTORY_ADDR, with its chain: clients connect with tcp+tls://; unset: " +
			"connections are not encrypted",
	},
	"TIERQ_FAKTORY_TLS_KEY": {
		doc: "PEM file of the certificate's private key",
	},
	"TIERQ_FAKTORY_KEY": {
		doc: "id of the API key of Faktory clients that send no user name, as those for Node, Python and Rust; unset: such " +
			"clients cannot connect where there are keys",
	},
	"TIERQ_FAKTORY_QUEUES": {
		doc: "tiers of the jobs of Faktory clients by their queue, the first that fits, such as critical=PAID bulk*=PUBLIC " +
			"*=UNPAID; others get the tier that their queue is called like, or UNPAID",
	},
	"TIERQ_FAKTORY_FLUSH": {
		doc: "on: an admin's key may send FLUSH, which cancels all jobs of Faktory clients; a server without keys takes it " +
			"from every caller",
	},
	"TIERQ_SMTP_URL": {
		doc: "smtp://user:password@host:587?from=tierq@example.com (STARTTLS) or smtps://host:465?from=...; unset: " +
			"mail is written as .eml files under TIERQ_DATA_DIR",
	},
	"TIERQ_BLOB_URL": {
		doc: "where the files that jobs make are kept: file:///folder or s3://bucket?region=...; unset: under " +
			"TIERQ_DATA_DIR",
	},
	"TIERQ_WEBHOOK_MASTER": {
		doc: "whmaster_<base64>: each API key's own secret and key pair, which sign its webhooks and callbacks, are " +
			"derived from it; for no receiver; the same on every process; several with spaces between them while " +
			"one is replaced, the new one first; unset: embedded mode makes one under TIERQ_DATA_DIR, external " +
			"mode has none",
	},
	"TIERQ_WEBHOOK_SECRET": {
		doc: "whsec_<base64>: signs the webhooks and callbacks of all keys beside TIERQ_WEBHOOK_MASTER, for " +
			"receivers that share it from before; each of them can forge every message, so unset it once all " +
			"verify with a key's own; unset: embedded mode takes webhook-secret under TIERQ_DATA_DIR if a version " +
			"before left one",
	},
	"TIERQ_GATEWAY_SECRET": {
		doc: "at least 32 characters: each API key's password for gateways of other protocols is derived from it; the " +
			"same on every process; another one changes all passwords; unset: embedded mode makes one under " +
			"TIERQ_DATA_DIR, in external mode keys have no such passwords",
	},
	"TIERQ_EGRESS_ALLOW": {
		doc: "networks such as 10.1.0.0/16 that webhooks, callbacks and forwarding may reach although they are " +
			"private, with commas between them",
	},
	"TIERQ_REQUEUE_RATE": {
		doc: "dead letters per second that a bulk requeue brings back",
		why: "a bulk requeue must leave capacity for submits",
	},
	"OTEL_EXPORTER_OTLP_ENDPOINT": {
		doc: "URL of an OpenTelemetry collector (OTLP over HTTP); unset: no traces are sent",
	},
	"TIERQ_LOG_LEVEL": {
		doc: "debug, info, warn or error",
	},
	"TIERQ_LOG_FORMAT": {
		doc: "text or json; unset: text on a terminal, json elsewhere",
	},
}
