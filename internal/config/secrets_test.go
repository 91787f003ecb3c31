package config

import (
	"bytes"
	"fmt"
	"log/slog"
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

// Whatever is wrong with a secret, or right, its password is in no text made of it.
func TestPasswordsAreNeverShown(t *testing.T) {
	redisURLs := []string{
		"redis://:sesame@h:1/0", "redis://u:sesame@h:1", "redis://sesame@h:1", "rediss://u:x/sesame@h:1", "redis://u:%zzsesame@h",
		"redis://h:1?sentinel_password=sesame", "u:sesame@h", "redis:sesame", "http://u:sesame@h", "redis://:sesame@h:port",
	}
	dsns := []string{
		"u:sesame@tcp(h:1)/d", "u:x@sesame/y:z@tcp(h:1)/d?tls=true", "sesame", "mysql://u:sesame@h/d", "u:sesame@tcp(h:1)",
		"u:sesame@tcp(h:1)/",
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
		c := Config{RedisURL: redis, MySQLDSN: mysql, SMTPURL: "smtp://u:sesame@h:587?from=a", WebhookSecret: "whsec_sesame", AdminKey: "tq_sesame", BlobURL: "s3://b?secret=sesame"}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			check(format, fmt.Sprintf(format, c))
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("starting", "config", c)
		check("the log", log.String())

		environ := []string{"REDIS_URL=" + redis, "MYSQL_DSN=" + mysql, "TIERQ_WORKERS=x", "TIERQ_REDIS_URL=redis://:sesame@h",
			"TIERQ_SMTP_URL=sesame://u:sesame@h", "TIERQ_WEBHOOK_SECRET=sesame", "TIERQ_ADMIN_KEY=tq_sesame_sesame"}
		_, err := Load(environ, "", nil)
		check("Load", err.Error())
		_, err = Load(nil, write(t, strings.Join(environ, "\n")), nil)
		check("Load of .env", err.Error())
		_, err = Load([]string{environ[2]}, "", map[string]string{"REDIS_URL": redis, "MYSQL_DSN": mysql, "TIERQ_ADMIN_KEY": "sesame"})
		check("Load of flags", err.Error())
	}
	if seen == 0 {
		t.Error("nothing was checked")
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
	if got := redactURL("redis://h:1/0?b=1&a=2"); got != "redis://h:1/0?a=***&b=***" {
		t.Errorf("query: %s", got)
	}
}

func TestPasswordsOnTheCommandLine(t *testing.T) {
	_, err := Load(nil, "", map[string]string{"REDIS_URL": "redis://:sesame@h:1", "MYSQL_DSN": "u:sesame@tcp(h:1)/d", "TIERQ_ADMIN_KEY": aKey})
	if problems := list(t, err); len(problems) != 3 || !strings.Contains(problems[0], "command line") || !strings.Contains(problems[1], "MYSQL_DSN_FILE") {
		t.Errorf("got %q", problems)
	}
	c, err := Load(nil, "", map[string]string{"REDIS_URL": "redis://h:1", "MYSQL_DSN_FILE": write(t, "u:sesame@tcp(h:1)/d")})
	if err != nil || c.MySQLDSN == "" {
		t.Errorf("without a password: %v", err)
	}
}
