// Package config turns flags, environment and .env into a Config, once, and reports all problems together.
//
// The struct tags of Config and the texts beside them are the one table of settings: the flags of `tierq serve`, its
// help, .env.example and docs/SETTINGS.md are all made from it.
package config

import (
	"log/slog"
	"net/netip"
	"time"
)

// Config holds the settings of the process. Only Load makes a Config; one that was returned without an error is
// within all bounds.
//
// Tags: env and envDefault name the setting and its default; min and max bound it; unit:"bytes" takes sizes like 64KiB;
// secret keeps it out of logs and adds NAME_FILE. texts.go has what the documentation says of each setting.
type Config struct {
	Addr     string `env:"TIERQ_ADDR" envDefault:"127.0.0.1:8080"`
	OpsAddr  string `env:"TIERQ_OPS_ADDR"`
	RedisURL string `env:"REDIS_URL" secret:"yes"`
	MySQLDSN string `env:"MYSQL_DSN" secret:"yes"`
	DataDir  string `env:"TIERQ_DATA_DIR" envDefault:"./data"`

	Roles   Roles  `env:"TIERQ_ROLES" envDefault:"api,worker,recovery"`
	Workers int    `env:"TIERQ_WORKERS" envDefault:"16" min:"1" max:"10000"`
	Queues  string `env:"TIERQ_QUEUES" envDefault:"main"`

	Capacity       int `env:"TIERQ_CAPACITY" envDefault:"10000" min:"1" max:"100000000"`
	ScheduledLimit int `env:"TIERQ_SCHEDULED_LIMIT" envDefault:"100000" min:"0" max:"100000000"`
	LivingLimit    int `env:"TIERQ_LIVING_LIMIT" envDefault:"0" min:"0" max:"1000000000"`
	LivingBytes    int `env:"TIERQ_LIVING_BYTES" envDefault:"0" unit:"bytes" min:"0" max:"1048576MiB"`
	LaterLimit     int `env:"TIERQ_LATER_LIMIT" envDefault:"100" min:"0" max:"1000000000"`

	LaterAge   time.Duration `env:"TIERQ_LATER_AGE" envDefault:"192h" min:"0s" max:"8760h"`
	UnknownFor time.Duration `env:"TIERQ_UNKNOWN_FOR" envDefault:"1h" min:"0s" max:"8760h"`

	PriorityBase int64 `env:"TIERQ_PRIORITY_BASE" envDefault:"10000000000000" min:"1" max:"10000000000000"`
	Partitions   int   `env:"TIERQ_PARTITIONS" envDefault:"1" min:"1" max:"256"`

	HeartbeatInterval time.Duration `env:"TIERQ_HEARTBEAT_INTERVAL" envDefault:"500ms" min:"10ms" max:"1s"`
	Retention         time.Duration `env:"TIERQ_RETENTION" envDefault:"24h" min:"0s" max:"8760h"`
	FailedRetention   time.Duration `env:"TIERQ_FAILED_RETENTION" envDefault:"1h" min:"0s" max:"8760h"`
	KeepEnded         int           `env:"TIERQ_KEEP_ENDED" envDefault:"1000000" min:"0" max:"1000000000"`

	SQLRetention string `env:"TIERQ_SQL_RETENTION" envDefault:"90d"`

	IdempotencyTTL   time.Duration `env:"TIERQ_IDEMPOTENCY_TTL" envDefault:"1h" min:"1m" max:"168h"`
	IdempotencyLimit int           `env:"TIERQ_IDEMPOTENCY_LIMIT" envDefault:"4000000" min:"0" max:"1000000000"`

	Journal bool `env:"TIERQ_JOURNAL" envDefault:"off"`

	GateThreshold int `env:"TIERQ_GATE_THRESHOLD" envDefault:"3" min:"1" max:"1000"`
	OutboxLimit   int `env:"TIERQ_OUTBOX_LIMIT" envDefault:"100000" min:"1" max:"100000000"`

	PayloadLimit int `env:"TIERQ_PAYLOAD_LIMIT" envDefault:"64KiB" unit:"bytes" min:"1" max:"512KiB"`
	ResultLimit  int `env:"TIERQ_RESULT_LIMIT" envDefault:"64KiB" unit:"bytes" min:"1" max:"512KiB"`

	DrainTimeout time.Duration `env:"TIERQ_DRAIN_TIMEOUT" envDefault:"30s" min:"0s" max:"1h"`

	Insecure       bool   `env:"TIERQ_INSECURE" envDefault:"off"`
	AdminKey       string `env:"TIERQ_ADMIN_KEY" secret:"yes"`
	AnonymousRate  int    `env:"TIERQ_ANONYMOUS_RATE" envDefault:"0" min:"0" max:"1000000"`
	AnonymousTypes string `env:"TIERQ_ANONYMOUS_TYPES" envDefault:"SIMULATION,GENERATE_PDF"`
	AnonymousTotal int    `env:"TIERQ_ANONYMOUS_TOTAL" envDefault:"0" min:"0" max:"1000000"`
	AnonymousQuota int    `env:"TIERQ_ANONYMOUS_QUOTA" envDefault:"100" min:"0" max:"1000000000"`
	KeyQuota       int    `env:"TIERQ_KEY_QUOTA" envDefault:"10000" min:"0" max:"1000000000"`
	AddressRate    int    `env:"TIERQ_ADDRESS_RATE" envDefault:"0" min:"0" max:"1000000"`
	Types          string `env:"TIERQ_TYPES"`
	TrustedProxies string `env:"TIERQ_TRUSTED_PROXIES"`
	Redact         string `env:"TIERQ_REDACT" envDefault:"SEND_EMAIL:to,subject,body,html,accepted,refused EMAIL:to,subject,body,html,accepted,refused SEND_WEBHOOK:headers,body FORWARD_DOCUMENT:body"`
	Connections    int    `env:"TIERQ_CONNECTIONS" envDefault:"8192" min:"16" max:"1000000"`
	PerAddress     int    `env:"TIERQ_ADDRESS_CONNECTIONS" envDefault:"0" min:"0" max:"1000000"`
	H2C            bool   `env:"TIERQ_H2C" envDefault:"off"`
	Demo           bool   `env:"TIERQ_DEMO" envDefault:"on"`
	CAFile         string `env:"TIERQ_CA_FILE"`

	FaktoryAddr    string `env:"TIERQ_FAKTORY_ADDR"`
	FaktoryTLSCert string `env:"TIERQ_FAKTORY_TLS_CERT"`
	FaktoryTLSKey  string `env:"TIERQ_FAKTORY_TLS_KEY"`
	FaktoryKey     string `env:"TIERQ_FAKTORY_KEY"`
	FaktoryQueues  string `env:"TIERQ_FAKTORY_QUEUES"`
	FaktoryFlush   bool   `env:"TIERQ_FAKTORY_FLUSH" envDefault:"off"`

	SMTPURL       string `env:"TIERQ_SMTP_URL" secret:"yes"`
	BlobURL       string `env:"TIERQ_BLOB_URL"`
	WebhookMaster string `env:"TIERQ_WEBHOOK_MASTER" secret:"yes"`
	WebhookSecret string `env:"TIERQ_WEBHOOK_SECRET" secret:"yes"`
	GatewaySecret string `env:"TIERQ_GATEWAY_SECRET" secret:"yes"`
	EgressAllow   string `env:"TIERQ_EGRESS_ALLOW"`
	RequeueRate   int    `env:"TIERQ_REQUEUE_RATE" envDefault:"500" min:"1" max:"100000"`
	OTLPEndpoint  string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`

	LogLevel  slog.Level `env:"TIERQ_LOG_LEVEL" envDefault:"info"`
	LogFormat string     `env:"TIERQ_LOG_FORMAT"`

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
