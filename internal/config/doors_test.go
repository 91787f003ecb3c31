package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

const aKey = "tq_abcdefghijklmn27_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_A"

// There is no admin key by default. A text that is not an API key stops the start, and the problem does not show it.
func TestAdminKey(t *testing.T) {
	t.Attr("proves", "A49")
	c, problems := load(t)
	if problems != nil || c.AdminKey != "" {
		t.Errorf("%q by default, %q", c.AdminKey, problems)
	}
	if c, problems = load(t, "TIERQ_ADMIN_KEY="+aKey); problems != nil || c.AdminKey != aKey ||
		strings.Contains(c.String(), "AAAA") {
		t.Errorf("%q, %q, shown as %s", c.AdminKey, problems, c)
	}
	if c, problems = load(t, "TIERQ_ADMIN_KEY_FILE="+write(t, aKey+"\n")); problems != nil || c.AdminKey != aKey {
		t.Errorf("from a file: %q, %q", c.AdminKey, problems)
	}
	for _, text := range []string{
		"admin", "changeme", aKey[:len(aKey)-1], aKey + "A", aKey[:len(aKey)-1] + "B", strings.ToUpper(aKey), aKey[3:],
		"Bearer " + aKey, "tq_" + strings.Repeat("a", 60),
	} {
		_, problems := load(t, "TIERQ_ADMIN_KEY="+text)
		if len(problems) != 1 || !strings.Contains(problems[0], "is not an API key") || strings.Contains(problems[0], text) {
			t.Errorf("%s: %q", text, problems)
		}
	}
	for name, text := range map[string]string{"empty": "", "blank": " \n"} {
		if _, problems := load(t, "TIERQ_ADMIN_KEY_FILE="+write(t, text)); len(problems) != 1 ||
			!strings.Contains(problems[0], "is empty") {
			t.Errorf("a file that is %s: %q", name, problems)
		}
	}
}

func TestWide(t *testing.T) {
	for setting, want := range map[string]string{
		"TIERQ_ADDR=127.0.0.1:8080": "[]", "TIERQ_ADDR=localhost:0": "[]", "TIERQ_ADDR=[::1]:8080": "[]",
		"TIERQ_OPS_ADDR=127.9.9.9:1": "[]",
		"TIERQ_ADDR=0.0.0.0:8080":    "[TIERQ_ADDR=0.0.0.0:8080]", "TIERQ_ADDR=:8080": "[TIERQ_ADDR=:8080]",
		"TIERQ_ADDR=example.com:80":           "[TIERQ_ADDR=example.com:80]",
		"TIERQ_ADDR=[::]:80":                  "[TIERQ_ADDR=[::]:80]",
		"TIERQ_ADDR=localhost.example.com:80": "[TIERQ_ADDR=localhost.example.com:80]",
		"TIERQ_OPS_ADDR=:9090":                "[TIERQ_OPS_ADDR=:9090]",
	} {
		c, problems := load(t, setting)
		if got := fmt.Sprint(c.Wide()); got != want || problems != nil {
			t.Errorf("%s: %s, want %s; %q", setting, got, want, problems)
		}
	}
	c, problems := load(t, append(external, "TIERQ_ADDR=:1", "TIERQ_ROLES=worker")...)
	if wide := c.Wide(); len(wide) != 0 || problems != nil {
		t.Errorf("a process without the api role listens on %q, %q", wide, problems)
	}
}

func TestRedact(t *testing.T) {
	c, problems := load(t)
	if got := c.Redacted(); problems != nil || !slices.Contains(got["SEND_EMAIL"], "body") || len(got) != 4 {
		t.Errorf("by default: %v, %q", got, problems)
	}
	for text, want := range map[string]map[string][]string{
		"none": {}, "A:*": {"A": {"*"}}, "A:x,y  B:z.z-1": {"A": {"x", "y"}, "B": {"z.z-1"}},
	} {
		c, problems := load(t, "TIERQ_REDACT="+text)
		if got := c.Redacted(); problems != nil || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: %v, %q", text, got, problems)
		}
	}
}

func TestDoorProblems(t *testing.T) {
	for setting, says := range map[string]string{
		"TIERQ_REDACT=A":                             "is not TYPE:member,member",
		"TIERQ_REDACT=A:":                            "is not TYPE:member,member",
		"TIERQ_REDACT=email:to":                      "is not TYPE:member,member",
		"TIERQ_REDACT=A:x A:y":                       "A is named twice",
		"TIERQ_REDACT=A:x,,y":                        "is not a member",
		"TIERQ_TRUSTED_PROXIES=10.0.0.1":             "is no network",
		"TIERQ_TRUSTED_PROXIES=10.0.0.0/8,0.0.0.0/0": "contains every address",
		"TIERQ_TRUSTED_PROXIES=::/0":                 "contains every address",
		"TIERQ_TYPES=SEND_EMAIL,all":                 "is not a job type",
		"TIERQ_TYPES=SEND_EMAIL,":                    "is not a job type",
		"TIERQ_TYPES=" + strings.Repeat("A", 65):     "is not a job type",
		"TIERQ_ADDRESS_RATE=-1":                      "must be 0 to 1000000",
		"TIERQ_ANONYMOUS_RATE=x":                     "is not a whole number",
		"TIERQ_ANONYMOUS_TYPES=email":                "is not a job type",
		"TIERQ_ANONYMOUS_TYPES=A,,B":                 "is not a job type",
		"TIERQ_ANONYMOUS_TOTAL=-1":                   "must be 0 to 1000000",
		"TIERQ_CONNECTIONS=15":                       "must be 16 to 1000000",
		"TIERQ_H2C=maybe":                            "neither on nor off",
		"TIERQ_CA_FILE=/nowhere/at/all":              "cannot be read",
		"TIERQ_CA_FILE=" + write(t, "hello"):         "no certificate in PEM form",
		"TIERQ_CA_FILE=" + write(t, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END "+
			"CERTIFICATE-----\n"): "certificate 1 cannot be read",
		"TIERQ_CA_FILE=" + write(t, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"): "holds a PRIVATE KEY",
	} {
		if _, problems := load(t, setting); len(problems) != 1 || !strings.Contains(problems[0], says) {
			t.Errorf("%s: %q, want %q", setting, problems, says)
		}
	}
	c, problems := load(t, "TIERQ_CA_FILE="+write(t, authority(t)), "TIERQ_TRUSTED_PROXIES=10.1.2.3/16, fd00::/8",
		"TIERQ_H2C=on")
	if problems != nil || fmt.Sprint(c.Proxies()) != "[10.1.0.0/16 fd00::/8]" ||
		!strings.Contains(c.String(), "TIERQ_H2C=on\n") {
		t.Errorf("%q, %v, %s", problems, c.Proxies(), c)
	}
}

func TestStrangers(t *testing.T) {
	for settings, want := range map[string]string{
		"":                          "[SIMULATION GENERATE_PDF] 0",
		"TIERQ_ANONYMOUS_RATE=3":    "[SIMULATION GENERATE_PDF] 30",
		"TIERQ_ANONYMOUS_TYPES=A":   "[A] 0",
		"TIERQ_ANONYMOUS_TYPES=A,A": "[A] 0",
		"TIERQ_ANONYMOUS_RATE=3 TIERQ_ANONYMOUS_TOTAL=4 TIERQ_ANONYMOUS_TYPES=A,CALLBACK": "[A CALLBACK] 4",
	} {
		c, problems := load(t, strings.Fields(settings)...)
		if got := fmt.Sprint(c.StrangersTypes(), c.StrangersRate()); problems != nil || got != want {
			t.Errorf("%s: %s, %q, want %s", settings, got, problems, want)
		}
	}
}

func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
