package config

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (l *loader) checkBounds(c Config) {
	v := reflect.ValueOf(c)
	for _, s := range table {
		if s.Max == "" || l.bad[s.Name] {
			continue
		}
		n := v.Field(s.index).Int()
		if n < bound(s.Min, s) || n > bound(s.Max, s) {
			l.problem(s.Name, fmt.Sprintf("must be %s to %s: %s", s.Min, s.Max, s.Why))
		}
	}
}

// bound reads a min or max tag in the setting's own unit. A tag that does not parse is a programming error that a
// test finds.
func bound(tag string, s Setting) int64 {
	var n int64
	var err error
	switch reflect.TypeFor[Config]().Field(s.index).Type {
	case reflect.TypeFor[time.Duration]():
		var d time.Duration
		d, err = parseDuration(tag)
		n = int64(d)
	default:
		n, err = parseSize(tag)
	}
	if err != nil {
		panic(s.Name + ": bound " + tag + " " + err.Error())
	}
	return n
}

func (l *loader) checkStores(c Config) {
	for _, s := range table {
		// Every user of the machine can read a command line. The environment and the files are private.
		if v := l.values[s.Name]; s.Secret && strings.HasPrefix(v.from, "flag ") && hasPassword(s.Name, v.text) {
			l.problem(s.Name, "a password on the command line can be read by every user of the machine; use the variable or "+
				s.Name+"_FILE")
		}
	}
	if c.RedisURL != "" && !l.bad["REDIS_URL"] {
		l.checkRedisURL(c.RedisURL)
	}
	if c.MySQLDSN != "" && !l.bad["MYSQL_DSN"] {
		l.checkDSN(c.MySQLDSN)
	}
	if l.bad["REDIS_URL"] || l.bad["MYSQL_DSN"] {
		return
	}
	switch {
	case c.RedisURL != "" && c.MySQLDSN == "":
		l.problem("MYSQL_DSN", "not set, but REDIS_URL is; set both (external mode) or neither (embedded mode)")
	case c.RedisURL == "" && c.MySQLDSN != "":
		l.problem("REDIS_URL", "not set, but MYSQL_DSN is; set both (external mode) or neither (embedded mode)")
	case c.Embedded():
		l.checkEmbedded(c)
	}
}

// embeddedMost is the largest number of waiting, and of scheduled, jobs in embedded mode: its Redis copies and
// sorts all of them for each claim, and answers no other call meanwhile.
const embeddedMost = 100_000

func (l *loader) checkEmbedded(c Config) {
	if !l.bad["TIERQ_ROLES"] && !c.Roles.All() {
		l.problem("TIERQ_ROLES", "embedded mode needs all of api,worker,recovery: its stores serve one process; set "+
			"REDIS_URL and MYSQL_DSN to share the work")
	}
	// after a start with another number, jobs would be left in partitions that nothing reads
	if !l.bad["TIERQ_PARTITIONS"] && c.Partitions > 1 {
		l.problem("TIERQ_PARTITIONS", "must be 1 in embedded mode, which has one Redis inside the process; set "+
			"REDIS_URL and MYSQL_DSN for more")
	}
	for _, limit := range []struct {
		name  string
		value int
	}{{"TIERQ_CAPACITY", c.Capacity}, {"TIERQ_SCHEDULED_LIMIT", c.ScheduledLimit}} {
		if !l.bad[limit.name] && limit.value > embeddedMost {
			l.problem(limit.name, fmt.Sprintf("must be at most %d in embedded mode: each claim reads all waiting jobs; "+
				"set REDIS_URL and MYSQL_DSN for more", embeddedMost))
		}
	}
}

// escapeIt is the advice for a URL whose password was parsed as something else.
const escapeIt = "in a password, write special characters as %XX"

// cutPassword says whether the end of a password is behind the host: a / ? or # in the password was taken for the
// end of the host.
func cutPassword(u *url.URL) bool {
	return u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@")
}

// checkRedisURL never repeats the parser's error, which would quote a password with a / in it as the port.
func (l *loader) checkRedisURL(text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		l.problem("REDIS_URL", "not a URL; "+escapeIt)
	case cutPassword(u):
		l.problem("REDIS_URL", "has an @ or a # behind its host; "+escapeIt)
	case u.Scheme == "unix":
		if u.Path == "" {
			l.problem("REDIS_URL", "names no socket: write unix:///path/to/redis.sock")
		}
	case u.Scheme != "redis" && u.Scheme != "rediss":
		l.problem("REDIS_URL", "must begin with redis://, rediss:// or unix://")
	case u.Host == "":
		l.problem("REDIS_URL", "names no host: write redis://host:6379/0")
	}
}

var dsnAddress = regexp.MustCompile(`^[a-z0-9]*(\([^@]*\))?$`)

// checkDSN refuses texts that the driver would quote: if an @ or a / is missing, the driver takes the password for
// a protocol or a database.
func (l *loader) checkDSN(text string) {
	_, address, _, _ := splitDSN(text)
	switch database := dsnDatabase(text); {
	case strings.HasPrefix(text, "mysql://"):
		l.problem("MYSQL_DSN", "is a DSN, not a URL: write user:password@tcp(host:3306)/database")
	case database == "" || strings.Contains(database, "@"):
		l.problem("MYSQL_DSN", "names no database: write user:password@tcp(host:3306)/database")
	case !dsnAddress.MatchString(address):
		l.problem("MYSQL_DSN", "has no address like tcp(host:3306): write user:password@tcp(host:3306)/database")
	}
}

func (l *loader) checkAddr(c Config) {
	l.checkListener("TIERQ_ADDR", c.Addr)
	if c.OpsAddr != "" {
		l.checkListener("TIERQ_OPS_ADDR", c.OpsAddr)
	}
	if c.OpsAddr != "" && c.OpsAddr == c.Addr && c.Roles.API && !strings.HasSuffix(c.Addr, ":0") {
		l.problem("TIERQ_OPS_ADDR", "is the same as TIERQ_ADDR, where the API serves these pages already")
	}
}

func (l *loader) checkListener(name, addr string) {
	if l.bad[name] {
		return
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		l.problem(name, "is not host:port: write 127.0.0.1:8080")
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		l.problem(name, "has no port from 0 to 65535")
	}
}

// checkOutgoing checks where mail, files, signatures and traces go. It never repeats a value, because that may
// hold a password.
func (l *loader) checkOutgoing(c Config) {
	wants := func(name, text, form string, schemes ...string) {
		if text == "" || l.bad[name] {
			return
		}
		u, err := url.Parse(text)
		if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" && u.Scheme != "file" {
			l.problem(name, "must look like "+form)
		}
	}
	wants("TIERQ_SMTP_URL", c.SMTPURL, "smtp://user:password@host:587?from=tierq@example.com", "smtp", "smtps")
	wants("TIERQ_BLOB_URL", c.BlobURL, "file:///folder or s3://bucket?region=...", "file", "s3")
	wants("OTEL_EXPORTER_OTLP_ENDPOINT", c.OTLPEndpoint, "http://127.0.0.1:4318", "http", "https")
	if u, err := url.Parse(c.OTLPEndpoint); err == nil && !l.bad["OTEL_EXPORTER_OTLP_ENDPOINT"] &&
		(u.User != nil || cutPassword(u)) {
		l.problem("OTEL_EXPORTER_OTLP_ENDPOINT",
			"has a user or a password, which is not sent: put it into OTEL_EXPORTER_OTLP_HEADERS")
	}
	for one := range strings.FieldsSeq(c.WebhookSecret) {
		secret, ok := strings.CutPrefix(one, "whsec_")
		if key, err := base64.StdEncoding.DecodeString(secret); (!ok || err != nil || len(key) < 24 || len(key) > 64) &&
			!l.bad["TIERQ_WEBHOOK_SECRET"] {
			l.problem("TIERQ_WEBHOOK_SECRET",
				"must be whsec_ and 24 to 64 bytes in base64: write whsec_$(openssl rand -base64 32)")
		}
	}
	l.checkMasters(c)
	if _, err := parseNetworks(c.EgressAllow); err != nil && !l.bad["TIERQ_EGRESS_ALLOW"] {
		l.problem("TIERQ_EGRESS_ALLOW", err.Error())
	}
}

// checkMasters checks the masters from which the keys' webhook secrets are derived. A master that is also a
// receiver's secret would reveal all other secrets to that receiver.
func (l *loader) checkMasters(c Config) {
	for one := range strings.FieldsSeq(c.WebhookMaster) {
		text, ok := strings.CutPrefix(one, "whmaster_")
		key, err := base64.StdEncoding.DecodeString(text)
		switch {
		case l.bad["TIERQ_WEBHOOK_MASTER"]:
		case !ok || err != nil || len(key) < 32 || len(key) > 64:
			l.problem("TIERQ_WEBHOOK_MASTER",
				"must be whmaster_ and 32 to 64 bytes in base64: write whmaster_$(openssl rand -base64 32)")
		case slices.Contains(strings.Fields(c.WebhookSecret), "whsec_"+text):
			l.problem("TIERQ_WEBHOOK_MASTER",
				"is TIERQ_WEBHOOK_SECRET, which receivers know: they could sign for every key; write another one")
		}
	}
}

func parseNetworks(text string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			continue
		}
		p, err := netip.ParsePrefix(one)
		if err != nil {
			return nil, fmt.Errorf("%q is no network: write 10.1.0.0/16 or fd00::/8", one)
		}
		networks = append(networks, p.Masked())
	}
	return networks, nil
}

func (l *loader) checkRest(c Config) {
	if c.LogFormat != "" && c.LogFormat != "text" && c.LogFormat != "json" {
		l.problem("TIERQ_LOG_FORMAT", "is neither text nor json")
	}
	if !l.bad["TIERQ_CAPACITY"] && !l.bad["TIERQ_PARTITIONS"] && c.Capacity < c.Partitions {
		l.problem("TIERQ_CAPACITY", fmt.Sprintf("is less than TIERQ_PARTITIONS=%d: every partition owns a part of it",
			c.Partitions))
	}
}
