package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
)

const fuzzedSecret = "hunter2hunter2hunter2"

// Any .env file gives either settings within their bounds or a list of problems, and neither shows a password.
func FuzzDotenv(f *testing.F) {
	f.Attr("proves", "A47")
	file := filepath.Join(f.TempDir(), ".env")
	fuzz.Text(f, func(t *testing.T, text string) {
		if strings.Contains(text, "_FILE") { // the named file would be read
			return
		}
		if err := os.WriteFile(file,
			[]byte("REDIS_URL=redis://:"+fuzzedSecret+"@127.0.0.1:6379\nMYSQL_DSN=tierq:"+fuzzedSecret+
				"@tcp(127.0.0.1:3306)/tierq\n"+text),
			0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(nil, file, nil)
		if err != nil {
			problems, ok := errors.AsType[*Problems](err)
			if !ok || len(problems.List) == 0 {
				t.Fatalf("refused with %v", err)
			}
			if strings.Contains(err.Error(), fuzzedSecret) {
				t.Errorf("a password is in %q", err)
			}
			return
		}
		if strings.Contains(c.String()+c.GoString()+c.LogValue().String(), fuzzedSecret) {
			t.Errorf("a password is in %s", c)
		}
		if c.Workers < 0 || c.Partitions < 1 || c.Capacity < c.Partitions || c.PayloadLimit < 1 || c.PayloadLimit > 512<<10 ||
			c.DrainTimeout < 0 {
			t.Errorf("taken: %s", c)
		}
	}, "TIERQ_ADDR=127.0.0.1:0\nTIERQ_WORKERS=4\n", "TIERQ_PAYLOAD_LIMIT=1KiB\n", "TIERQ_ROLES=api,worker\n",
		"TIERQ_CAPACITY=-1\n",
		"TIERQ_WORKRS=4\n", "export TIERQ_LOG_FORMAT='json' # c\n",
		"TIERQ_REDACT=SEND_EMAIL:to,body X:*\n", "TIERQ_TRUSTED_PROXIES=10.0.0.0/8,::1/128\n",
		"TIERQ_ADMIN_KEY=tq_aaaaaaaaaaaaaaaa_x\n",
		"A=\"unclosed\nB=", "TIERQ_DRAIN_TIMEOUT=1h30m\n", "=\n", "TIERQ_SMTP_URL=smtp://u:p@h?from=a@b\n")
}

// Values that were parsed are parsed as the same values from their shown form.
func FuzzValues(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, text string) {
		if n, err := parseSize(text); err == nil {
			if again, err := parseSize(formatSize(n)); n < 0 || err != nil || again != n {
				t.Errorf("a size of %d, which is written %s and read as %d, %v", n, formatSize(n), again, err)
			}
		}
		if d, err := parseDuration(text); err == nil {
			if again, err := parseDuration(d.String()); err != nil || again != d {
				t.Errorf("a duration of %s, which is read as %s, %v", d, again, err)
			}
		}
		var r Roles
		if err := r.UnmarshalText([]byte(text)); err == nil {
			var again Roles
			if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
				t.Errorf("roles %s, which are read as %s, %v", r, again, err)
			}
		}
		if networks, err := parseNetworks(text); err == nil {
			for _, n := range networks {
				if !n.IsValid() || n != n.Masked() {
					t.Errorf("a network %s", n)
				}
			}
		}
		if types, err := parseRedact(text); err == nil {
			var again []string
			for _, typ := range slices.Sorted(maps.Keys(types)) {
				again = append(again, typ+":"+strings.Join(types[typ], ","))
			}
			if same, err := parseRedact(strings.Join(again, " ")); err != nil || !maps.EqualFunc(types, same, slices.Equal) {
				t.Errorf("redacted %v, which is read as %v, %v", types, same, err)
			}
		}
		if near := nearest(text, knownNames()); near != "" && !knownNames()[near] {
			t.Errorf("the nearest is %q", near)
		}
	}, "64KiB", "1MiB", "65536", "9223372036854775807", "4611686018427387904B", "-1", "1 KiB", "1h30m", "-5s", "1e3s",
		"api,worker", "api,,",
		"10.1.0.0/16,fd00::/8", "10.1.2.3/8", "1.2.3.4", "TIERQ_WORKRS",
		"SEND_EMAIL:to,subject X:*", "A:b A:c", "none", "X:")
}

// A password is shown neither in the settings nor in their problems, wherever the rest of its URL or DSN is
// broken. (FuzzReadURL in internal/queue tests what Redis' parser does with such texts.)
func FuzzRedact(f *testing.F) {
	f.Attr("proves", "A47")
	fuzz.Text(f, func(t *testing.T, text string) {
		before, after, _ := strings.Cut(text, "\n")
		if shown := redactURL(before + "://user:" + fuzzedSecret + "@" + after); strings.Contains(shown, fuzzedSecret) {
			t.Errorf("shown as %q", shown)
		}
		if shown := redactDSN(before + ":" + fuzzedSecret + "@" + after); strings.Contains(shown, fuzzedSecret) {
			t.Errorf("shown as %q", shown)
		}
		if shown := redactEndpoint(before + "://user:" + fuzzedSecret + "@" + after); strings.Contains(shown, fuzzedSecret) {
			t.Errorf("shown as %q", shown)
		}
		url := before + ":" + fuzzedSecret + "@" + after
		for _, environ := range [][]string{
			{"REDIS_URL=" + url, "MYSQL_DSN=" + url, "TIERQ_SMTP_URL=" + url, "TIERQ_BLOB_URL=" + url},
			{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url},
		} {
			if c, err := Load(environ, "", nil); err != nil && strings.Contains(err.Error(), fuzzedSecret) ||
				strings.Contains(c.String(), fuzzedSecret) {
				t.Errorf("of %q it says %v, and shows %s", environ, err, c)
			}
		}
	}, "redis://tierq:/\nhost:6379/0", "redis://user:12/\nhost:6379/0", "redis://user:12?\nhost", "redis://user:12#\nhost",
		"https://collector/\nx/v1", "http://u\ncollector:4318",
		"s3://key\nbucket?region=eu", "/folder\nx", "tierq\ntcp(db:3306", "u:12/\ntcp(h:1)",
		"redis\nhost:6379/0", "rediss\nhost?password=x", "tierq\ntcp(127.0.0.1:3306)/tierq?parseTime=true", "a/b\n", "\n@/",
		"redis\n[::1",
		"http\n%zz", "unix\n/x@y")
}

// A DSN without @ has its password in the place of the address.
func TestRedactDSN_WithoutAt(t *testing.T) {
	t.Attr("proves", "A47")
	for dsn, want := range map[string]string{
		"tierq:" + fuzzedSecret + "/tierq": hidden, "tcp(127.0.0.1:3306)/tierq": "tcp(127.0.0.1:3306)/tierq",
		"/tierq": "/tierq",
	} {
		if got := redactDSN(dsn); got != want {
			t.Errorf("%q is shown as %q, want %q", dsn, got, want)
		}
	}
}
