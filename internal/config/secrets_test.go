package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsFromFiles(t *testing.T) {
	redis, mysql := write(t, "redis://:sesame@cache:6379/0\n"), write(t, " u:sesame@tcp(db:3306)/tierq \n")
	c, problems := load(t, "REDIS_URL_FILE="+redis, "MYSQL_DSN_FILE="+mysql)
	if problems != nil {
		t.Fatal(problems)
	}
	if c.RedisURL != "redis://:sesame@cache:6379/0" || c.MySQLDSN != "u:sesame@tcp(db:3306)/tierq" {
		t.Errorf("got %q and %q", c.RedisURL, c.MySQLDSN)
	}
	_, problems = load(t, "REDIS_URL_FILE="+write(t, "\n"), "MYSQL_DSN_FILE="+mysql)
	if len(problems) != 1 || !strings.Contains(problems[0], "is empty") {
		t.Errorf("an empty file: %q", problems)
	}
}

// No text made of a secret shows its password, whether the secret is valid or not.
func TestPasswordsAreNeverShown(t *testing.T) {
	redisURLs := []string{
		"redis://:sesame@h:1/0", "redis://u:sesame@h:1", "redis://sesame@h:1", "rediss://u:x/sesame@h:1",
		"redis://u:%zzsesame@h",
		"redis://h:1?sentinel_password=sesame", "u:sesame@h", "redis:sesame", "http://u:sesame@h", "redis://:sesame@h:port",
		"redis://u:/sesame@h:6379/0", "redis://u:12/sesame@h:6379/0", "redis://u:12?sesame@h", "redis://u:12#sesame@h",
	}
	dsns := []string{
		"u:sesame@tcp(h:1)/d", "u:x@sesame/y:z@tcp(h:1)/d?tls=true", "sesame", "mysql://u:sesame@h/d", "u:sesame@tcp(h:1)",
		"u:sesame@tcp(h:1)/", "u:sesame/d", "/u:sesame@tcp(h:1)", "u:x/sesame@tcp(h:1)",
	}
	seen := 0
	check := func(what, text string) {
		t.Helper()
		seen++
		if strings.Contains(text, "sesame") {
			t.Errorf("%s shows the password: %s", what, text)
		}
	}
	for i := range max(len(redisURLs), len(dsns)) {
		redis, mysql := redisURLs[i%len(redisURLs)], dsns[i%len(dsns)]
		c := Config{RedisURL: redis, MySQLDSN: mysql, SMTPURL: "smtp://u:sesame@h:587?from=a",
			WebhookSecret: "whsec_sesame", WebhookMaster: "whmaster_sesame", AdminKey: "tq_sesame",
			BlobURL:      "s3://b?secret=sesame",
			OTLPEndpoint: "https://u:sesame@collector/sesame?x=sesame"}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			check(format, fmt.Sprintf(format, c))
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("starting", "config", c)
		check("the log", log.String())

		environ := []string{"REDIS_URL=" + redis, "MYSQL_DSN=" + mysql, "TIERQ_WORKERS=x",
			"TIERQ_REDIS_URL=redis://:sesame@h",
			"TIERQ_SMTP_URL=sesame://u:sesame@h", "TIERQ_WEBHOOK_SECRET=sesame", "TIERQ_WEBHOOK_MASTER=sesame",
			"TIERQ_GATEWAY_SECRET=sesame",
			"TIERQ_ADMIN_KEY=tq_sesame_sesame", "TIERQ_BLOB_URL=s3//u:sesame@b",
			"OTEL_EXPORTER_OTLP_ENDPOINT=https//collector/sesame"}
		_, err := Load(environ, "", nil)
		check("Load", err.Error())
		_, err = Load(nil, write(t, strings.Join(environ, "\n")), nil)
		check("Load of .env", err.Error())
		_, err = Load([]string{environ[2]}, "",
			map[string]string{"REDIS_URL": redis, "MYSQL_DSN": mysql, "TIERQ_ADMIN_KEY": "sesame"})
		check("Load of flags", err.Error())
	}
	if seen == 0 {
		t.Error("nothing was checked")
	}
}

// A password whose end is behind the host is refused with a text that does not repeat it, as the stores' own
// parsers would.
func TestPasswordsThatAreCutOff(t *testing.T) {
	t.Attr("proves", "A47")
	for setting, says := range map[string]string{
		"REDIS_URL=redis://tierq:/sesame@h:6379/0":                  escapeIt,
		"REDIS_URL=redis://user:12/sesame@h:6379/0":                 escapeIt,
		"REDIS_URL=redis://user:12?sesame@h:6379/0":                 escapeIt,
		"REDIS_URL=redis://user:12#sesame@h:6379/0":                 escapeIt,
		"REDIS_URL=unix://:12/sesame@/run/redis.sock":               escapeIt,
		"MYSQL_DSN=tierq:sesame/tierq":                              "has no address",
		"MYSQL_DSN=tierq:12/sesame@tcp(h:3306)":                     "names no database",
		"MYSQL_DSN=/tierq:sesame@tcp(h:3306)":                       "names no database",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://u:sesame@collector":    "OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://sesame@collector":      "OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://u:12/sesame@collector": "OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https//collector/sesame":       "must look like",
		"TIERQ_BLOB_URL=s3//key:sesame@bucket":                      "must look like",
	} {
		_, problems := load(t, setting)
		if all := strings.Join(problems, "\n"); !strings.Contains(all, says) || strings.Contains(all, "sesame") {
			t.Errorf("%s: %q, want %q", setting, problems, says)
		}
	}
	// Passwords that only look like that are accepted.
	if _, problems := load(t, "REDIS_URL=redis://u:a%2Fb%40@h:6379/0?username=x%40y",
		"MYSQL_DSN=u:x@y/z@tcp(h:1)/d?tls=true", "OTEL_EXPORTER_OTLP_ENDPOINT=https://collector/otlp"); problems != nil {
		t.Error(problems)
	}
	for _, dsn := range []string{"u:p@/d", "u:p@tcp/d", "u:p@unix(/run/mysqld.sock)/d", "u:p@tcp([::1]:3306)/d"} {
		if _, problems := load(t, "REDIS_URL=redis://h", "MYSQL_DSN="+dsn); problems != nil {
			t.Error(dsn, problems)
		}
	}
}

func TestWhatIsShown(t *testing.T) {
	c, problems := load(t, external...)
	if problems != nil {
		t.Fatal(problems)
	}
	for _, line := range []string{
		"REDIS_URL=redis://***@cache:6379/0\n", "MYSQL_DSN=***@tcp(db:3306)/tierq\n", "TIERQ_PAYLOAD_LIMIT=64KiB\n",
		"TIERQ_INSECURE=off\n", "TIERQ_ROLES=api,worker,recovery\n", "TIERQ_RETENTION=24h0m0s\n",
	} {
		if !strings.Contains(c.String(), line) {
			t.Errorf("no %q in\n%s", line, c)
		}
	}
	for endpoint, want := range map[string]string{
		"http://collector:4318": "http://collector:4318", "https://collector/": "https://collector/",
		"https://collector/token/v1": "https://collector/***",
		"https://u:sesame@collector": "https://***@collector", "https://h#a": hidden, "": "",
	} {
		if got := redactEndpoint(endpoint); got != want {
			t.Errorf("%s is shown as %s, want %s", endpoint, got, want)
		}
	}
	if got := redactURL("redis://h:1/0?b=1&a=2"); got != "redis://h:1/0?a=***&b=***" {
		t.Errorf("query: %s", got)
	}
}

func TestPasswordsOnTheCommandLine(t *testing.T) {
	_, err := Load(nil, "", map[string]string{"REDIS_URL": "redis://:sesame@h:1", "MYSQL_DSN": "u:sesame@tcp(h:1)/d",
		"TIERQ_ADMIN_KEY": aKey})
	if problems := list(t, err); len(problems) != 3 || !strings.Contains(problems[0], "command line") ||
		!strings.Contains(problems[1], "MYSQL_DSN_FILE") {
		t.Errorf("got %q", problems)
	}
	c, err := Load(nil, "", map[string]string{"REDIS_URL": "redis://h:1",
		"MYSQL_DSN_FILE": write(t, "u:sesame@tcp(h:1)/d")})
	if err != nil || c.MySQLDSN == "" {
		t.Errorf("without a password: %v", err)
	}
}

// Only a file with a secret that every user of the machine may read is reported.
func TestExposedFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		secret := "tq_abcdefghijklmn27_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_A\n"
		if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for mode, want := range map[os.FileMode]bool{
		0o600: false, 0o400: false, 0o640: false, 0o660: false, 0o644: true, 0o604: true, 0o444: true,
	} {
		path := file(fmt.Sprintf("%o.key", mode), mode)
		c, problems := load(t, "TIERQ_ADMIN_KEY_FILE="+path)
		named := c.Exposed == "TIERQ_ADMIN_KEY_FILE="+path
		if problems != nil || named != want || !want && c.Exposed != "" {
			t.Errorf("%o: %q, %v", mode, c.Exposed, problems)
		}
	}
	c, _ := load(t, "TIERQ_ADMIN_KEY=tq_abcdefghijklmn27_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_A")
	if c.Exposed != "" {
		t.Errorf("without a file: %q", c.Exposed)
	}
}
