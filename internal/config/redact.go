package config

import (
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

const hidden = "***"

// String returns every setting as NAME=value, one per line, without passwords.
func (c Config) String() string {
	var b strings.Builder
	for _, s := range table {
		fmt.Fprintf(&b, "%s=%s\n", s.Name, c.shown(s))
	}
	return b.String()
}

// GoString returns the same as String, so that %#v shows no password either.
func (c Config) GoString() string { return c.String() }

// LogValue returns every setting as a group, without passwords.
func (c Config) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, len(table))
	for _, s := range table {
		attrs = append(attrs, slog.String(s.Name, c.shown(s)))
	}
	return slog.GroupValue(attrs...)
}

func (c Config) shown(s Setting) string {
	switch s.Name {
	case "REDIS_URL":
		return redactURL(c.RedisURL)
	case "MYSQL_DSN":
		return redactDSN(c.MySQLDSN)
	case "TIERQ_SMTP_URL":
		return redactURL(c.SMTPURL)
	case "TIERQ_BLOB_URL":
		return redactURL(c.BlobURL)
	case "OTEL_EXPORTER_OTLP_ENDPOINT":
		return redactEndpoint(c.OTLPEndpoint)
	}
	v := reflect.ValueOf(c).Field(s.index)
	switch {
	case s.Secret && v.String() == "":
		return ""
	case s.Secret:
		return hidden
	case s.bytes:
		return formatSize(v.Int())
	case v.Kind() == reflect.Bool:
		return map[bool]string{true: "on", false: "off"}[v.Bool()]
	}
	return fmt.Sprint(v.Interface())
}

// redactURL hides the whole user part, because a password in place of the user is a common mistake. Of the query,
// which may hold a sentinel's password, only the names stay.
func redactURL(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Scheme == "" || u.Fragment != "" || strings.Contains(u.Path, "@") {
		return hidden
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		shown += hidden + "@"
	}
	shown += u.Host + u.Path
	sign := "?"
	for _, name := range slices.Sorted(maps.Keys(u.Query())) {
		if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
			if strings.Contains(name, "@") { // the name is the end of a password that begins where the host should be
				return hidden
			}
			name = hidden // no parameter has such a name: it may be part of a password
		}
		shown += sign + name + "=" + hidden
		sign = "&"
	}
	return shown
}

// redactEndpoint hides the path as well, because some collectors have a token there.
func redactEndpoint(text string) string {
	shown := redactURL(text)
	u, err := url.Parse(text)
	if err != nil || shown == hidden || strings.Trim(u.Path, "/") == "" {
		return shown
	}
	return u.Scheme + "://" + u.Host + "/" + hidden
}

// mayHide are settings that are no secrets, but whose text may contain one: their problems are reported without
// the value.
var mayHide = map[string]bool{"TIERQ_BLOB_URL": true, "OTEL_EXPORTER_OTLP_ENDPOINT": true}

// splitDSN cuts user:password@protocol(address)/database?params as the driver does: the last / ends the address,
// the last @ before it ends the password.
func splitDSN(dsn string) (user, address, database string, ok bool) {
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		return "", "", "", false
	}
	at := strings.LastIndexByte(dsn[:slash], '@')
	if at >= 0 {
		user = dsn[:at]
	}
	return user, dsn[at+1 : slash], dsn[slash+1:], true
}

func dsnDatabase(dsn string) string {
	_, _, database, _ := splitDSN(dsn)
	name, _, _ := strings.Cut(database, "?")
	return name
}

func redactDSN(dsn string) string {
	if dsn == "" {
		return ""
	}
	user, address, database, ok := splitDSN(dsn)
	if !ok || strings.Contains(database, "@") { // the password has a /, and no database follows
		return hidden
	}
	// the @ is missing, so this is no address
	if user == "" && strings.Contains(address, ":") && !strings.Contains(address, "(") {
		return hidden
	}
	if user != "" {
		user = hidden + "@"
	}
	return user + address + "/" + database
}

// hasPassword reports whether a secret setting's text has a password, or cannot be parsed well enough to exclude
// that.
func hasPassword(name, text string) bool {
	if text == "" {
		return false
	}
	switch name {
	case "TIERQ_WEBHOOK_SECRET", "TIERQ_WEBHOOK_MASTER", "TIERQ_GATEWAY_SECRET", "TIERQ_ADMIN_KEY":
		return true
	}
	if name == "MYSQL_DSN" {
		user, _, _, ok := splitDSN(text)
		return !ok || strings.Contains(user, ":")
	}
	u, err := url.Parse(text)
	return err != nil || u.User != nil || strings.Contains(u.RawQuery, "pass")
}
