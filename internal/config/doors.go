package config

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/job"
)

// Wide returns the listeners of this process that other machines can reach, as NAME=address. Without API keys
// there must be none.
func (c Config) Wide() (listeners []string) {
	for _, l := range []struct {
		name, addr string
		serves     bool
	}{{"TIERQ_ADDR", c.Addr, c.Roles.API}, {"TIERQ_OPS_ADDR", c.OpsAddr, c.OpsAddr != ""},
		{"TIERQ_FAKTORY_ADDR", c.FaktoryAddr, c.Faktory()}} {
		if l.serves && !Loopback(l.addr) {
			listeners = append(listeners, l.name+"="+l.addr)
		}
	}
	return listeners
}

// Loopback says whether a host:port can only be reached from this machine.
func Loopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Proxies returns the networks of TIERQ_TRUSTED_PROXIES.
func (c Config) Proxies() []netip.Prefix {
	networks, _ := parseNetworks(c.TrustedProxies) // Load has checked the text
	return networks
}

// Serves returns the queues of TIERQ_QUEUES, from which this process claims.
func (c Config) Serves() []string {
	var names []string
	for one := range strings.SplitSeq(c.Queues, ",") {
		if one = strings.TrimSpace(one); !slices.Contains(names, one) {
			names = append(names, one)
		}
	}
	return names
}

// checkQueues checks the names of TIERQ_QUEUES.
func (l *loader) checkQueues(c Config) {
	for _, name := range c.Serves() {
		if name == job.MainQueue {
			continue
		}
		if err := (job.Queue{Name: name}).Check(); err != nil {
			l.problem("TIERQ_QUEUES", fmt.Sprintf("%q: %v", name, err))
			return
		}
	}
}

// TypesOn returns the job types of TIERQ_TYPES that submits may name; nil = every type.
func (c Config) TypesOn() []string {
	if c.Types == "" || c.Types == "all" {
		return nil
	}
	var types []string
	for one := range strings.SplitSeq(c.Types, ",") {
		types = append(types, strings.TrimSpace(one))
	}
	return types
}

// StrangersTypes returns the job types of TIERQ_ANONYMOUS_TYPES.
func (c Config) StrangersTypes() []string {
	types, _ := parseTypes(c.AnonymousTypes) // Load has checked the text
	return types
}

// StrangersRate returns how many requests per second all callers without a key together may make.
func (c Config) StrangersRate() int {
	if c.AnonymousTotal > 0 {
		return c.AnonymousTotal
	}
	return 10 * c.AnonymousRate
}

// parseTypes reads names of job types separated by commas, at least one.
func parseTypes(text string) (types []string, err error) {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if !job.IsTypeName(one) {
			return nil, fmt.Errorf("%q is not a job type: write names such as SIMULATION,GENERATE_PDF", one)
		}
		if !slices.Contains(types, one) {
			types = append(types, one)
		}
	}
	return types, nil
}

// Redacted returns the members of payloads and results that read-only keys do not see, by job type; "*" = all.
func (c Config) Redacted() map[string][]string {
	types, _ := parseRedact(c.Redact) // Load has checked the text
	return types
}

var keyText = regexp.MustCompile(`^tq_[a-z2-7]{16}_([A-Za-z0-9_-]{43})$`)

// isKey says whether a text has the form of an API key.
func isKey(text string) bool {
	parts := keyText.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	return err == nil
}

// gatewaySecretLeast is the least number of characters of TIERQ_GATEWAY_SECRET: whoever has seen one password could try
// shorter ones without asking the server.
const gatewaySecretLeast = 32

// checkDoors checks the settings about callers. It repeats nothing of an admin key.
func (l *loader) checkDoors(c Config) {
	if c.AdminKey != "" && !isKey(c.AdminKey) && !l.bad["TIERQ_ADMIN_KEY"] {
		l.problem("TIERQ_ADMIN_KEY", "is not an API key: write the output of tierq keys generate")
	}
	if n := utf8.RuneCountInString(c.GatewaySecret); n > 0 && n < gatewaySecretLeast && !l.bad["TIERQ_GATEWAY_SECRET"] {
		l.problem("TIERQ_GATEWAY_SECRET", fmt.Sprintf("has %d characters and must have %d or more: write the output of "+
			"openssl rand -base64 32", n, gatewaySecretLeast))
	}
	if !l.bad["TIERQ_TRUSTED_PROXIES"] {
		networks, err := parseNetworks(c.TrustedProxies)
		if err != nil {
			l.problem("TIERQ_TRUSTED_PROXIES", err.Error())
		}
		for _, n := range networks {
			if n.Bits() == 0 {
				l.problem("TIERQ_TRUSTED_PROXIES", n.String()+" contains every address: any caller could claim any address")
			}
		}
	}
	if _, err := parseTypes(c.AnonymousTypes); err != nil && !l.bad["TIERQ_ANONYMOUS_TYPES"] {
		l.problem("TIERQ_ANONYMOUS_TYPES", err.Error())
	}
	if _, err := parseRedact(c.Redact); err != nil && !l.bad["TIERQ_REDACT"] {
		l.problem("TIERQ_REDACT", err.Error())
	}
	for _, typ := range c.TypesOn() {
		if !job.IsTypeName(typ) && !l.bad["TIERQ_TYPES"] {
			l.problem("TIERQ_TYPES", fmt.Sprintf("%q is not a job type: write SEND_EMAIL,SEND_WEBHOOK, or all", typ))
		}
	}
	if c.CAFile != "" && !l.bad["TIERQ_CA_FILE"] {
		if err := readAuthorities(c.CAFile); err != nil {
			l.problem("TIERQ_CA_FILE", err.Error())
		}
	}
}

var redactedMember = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// parseRedact reads TYPE:member,member with spaces between the types; "none" hides nothing.
func parseRedact(text string) (map[string][]string, error) {
	types := map[string][]string{}
	if text == "none" {
		return types, nil
	}
	for one := range strings.FieldsSeq(text) {
		typ, members, _ := strings.Cut(one, ":")
		if !job.IsTypeName(typ) || members == "" {
			return nil, fmt.Errorf("%q is not TYPE:member,member", one)
		}
		if types[typ] != nil {
			return nil, fmt.Errorf("%s is named twice", typ)
		}
		for member := range strings.SplitSeq(members, ",") {
			if member != "*" && !redactedMember.MatchString(member) {
				return nil, fmt.Errorf("%q of %s is not a member: write letters, digits, _, . or -, or * for all", member, typ)
			}
			types[typ] = append(types[typ], member)
		}
	}
	return types, nil
}

// readAuthorities checks that a file holds certificates and nothing else.
func readAuthorities(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return errors.New("cannot be read: " + withoutPath(err))
	}
	found := 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("holds a %s; it is for certificates", block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("its certificate %d cannot be read", found+1)
		}
		found++
	}
	if found == 0 {
		return errors.New("holds no certificate in PEM form")
	}
	return nil
}
