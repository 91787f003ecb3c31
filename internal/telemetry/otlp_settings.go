package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// collectorSettings are what OpenTelemetry's standard variables say about a collector.
type collectorSettings struct {
	url        string
	headers    map[string]string
	timeout    time.Duration // of one request
	gzip, json bool
	tls        *tls.Config // nil = the system's configuration
}

// collectorEnv returns the value of OTEL_EXPORTER_OTLP_TRACES_<name>, or else of OTEL_EXPORTER_OTLP_<name>.
func collectorEnv(name string) string {
	const all = "OTEL_EXPORTER_OTLP_"
	return cmp.Or(strings.TrimSpace(os.Getenv(all+"TRACES_"+name)), strings.TrimSpace(os.Getenv(all+name)))
}

// readCollectorSettings reads the environment. It skips unreadable settings and logs their names without the
// values.
func readCollectorSettings(url string, log *slog.Logger) collectorSettings {
	s := collectorSettings{
		url: url, timeout: 10 * time.Second, headers: map[string]string{},
		gzip: collectorEnv("COMPRESSION") == "gzip", json: collectorEnv("PROTOCOL") == "http/json",
	}
	unreadable := func(name string) {
		log.Warn("a setting of the trace collector cannot be read", "setting", "OTEL_EXPORTER_OTLP_"+name)
	}
	if text := collectorEnv("TIMEOUT"); text != "" {
		if ms, err := strconv.Atoi(text); err == nil && ms > 0 {
			s.timeout = time.Duration(ms) * time.Millisecond
		} else {
			unreadable("TIMEOUT")
		}
	}
	if !readHeaders(collectorEnv("HEADERS"), s.headers) {
		unreadable("HEADERS")
	}
	var config tls.Config
	if file := collectorEnv("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if pool := x509.NewCertPool(); err == nil && pool.AppendCertsFromPEM(pem) {
			config.RootCAs, s.tls = pool, &config
		} else {
			unreadable("CERTIFICATE")
		}
	}
	if file := collectorEnv("CLIENT_CERTIFICATE"); file != "" {
		if pair, err := tls.LoadX509KeyPair(file, collectorEnv("CLIENT_KEY")); err == nil {
			config.Certificates, s.tls = []tls.Certificate{pair}, &config
		} else {
			unreadable("CLIENT_CERTIFICATE")
		}
	}
	return s
}

// readHeaders reads name=value,name=value, escaped as in a URL, and says whether all of the text was readable.
func readHeaders(text string, headers map[string]string) bool {
	good := true
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" ||
			strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) ||
			strings.ContainsAny(value, "\r\n\x00") {
			good = false
			continue
		}
		headers[name] = value
	}
	return good
}
