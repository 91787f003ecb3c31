package faktory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A server without keys greets without a salt, and takes every client.
func TestHello_OpenServer(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	c, hi := connects(t, s)
	if hi != `+HI {"v":2}` {
		t.Errorf("it says %s", hi)
	}
	c.is(`HELLO {"hostname":"h","pid":7,"labels":["ruby-3.4"],"wid":"w1","v":2}`, "+OK")
	eventually(t, "the worker is seen", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.sights) > 0
	})
	if one := w.sights[0]; one.Worker != "w1" || one.Kind != job.FaktoryWorker || one.Info.PID != 7 ||
		one.Info.Language != "ruby" {
		t.Errorf("it is seen as %+v", one)
	}
	c.is("END", "closed: ")
}

// What is no HELLO ends the connection, and so does silence.
func TestHello_Refused(t *testing.T) {
	s := newWorld(t).serve()
	for _, line := range []string{
		"PUSH {}", "HELLO", "HELLO x", `HELLO {"v":"2"}`, `HELLO {"wid":"` + strings.Repeat("w", 201) + `"}`,
		`hello {"v":2}`,
	} {
		c, _ := connects(t, s)
		if got := c.asks(line); !strings.HasPrefix(got, "-ERR invalid HELLO") {
			t.Errorf("%s: %s", line, got)
		}
		if got := c.reads(); got != "closed: " {
			t.Errorf("%s: then %s", line, got)
		}
	}
	c, _ := connects(t, s)
	if got := c.asks(`HELLO {"wid":"` + strings.Repeat("w", helloLine)); got != "-ERR too long" {
		t.Errorf("a long HELLO: %s", got)
	}
	c, _ = connects(t, s)
	if got := c.reads(); got != "closed: " {
		t.Errorf("without a HELLO: %s", got)
	}
}

// proves says HELLO with a password, as clients do.
func proves(c *client, hi, user, password string, version int) string {
	var greeting struct {
		Salt string `json:"s"`
		I    int    `json:"i"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(hi, "+HI ")), &greeting); err != nil || greeting.Salt == "" {
		c.t.Fatalf("it says %s: %v", hi, err)
	}
	times := greeting.I
	if version < 2 {
		times = 1
	}
	v := fmt.Sprintf(`,"v":%d`, version)
	if version == 0 {
		v = ""
	}
	return c.asks(fmt.Sprintf(`HELLO {"hostname":"h","username":%q,"pwdhash":%q%s}`, user,
		proof(password, greeting.Salt, times), v))
}

// A password opens the gateway for the key that the user name names, or the settings. A client that names no version
// hashes once. A wrong password costs its address.
func TestHello_Passwords(t *testing.T) {
	w := newWorld(t)
	w.open = false
	admin := job.Caller{Key: job.Key{Role: job.RoleAdmin}}
	w.keys["one"] = key{admin, []string{"new", "old"}}
	w.keys["other"] = key{admin, []string{"others"}}
	s := w.serve(func(c *Config) { c.DefaultKey = "other" })
	for _, one := range []struct {
		user, password string
		version        int
		want           string
	}{
		{"one", "new", 2, "+OK"},
		{"one", "old", 2, "+OK"},
		{"one", "new", 0, "+OK"},
		{"one", "new", 1, "+OK"},
		{"", "others", 2, "+OK"},
		{"one", "others", 2, "-ERR Invalid password"},
		{"", "new", 2, "-ERR Invalid password"},
		{"none", "new", 2, "-ERR Invalid password"},
		{"one", "", 2, "-ERR too many requests, try again in 1 s"},
	} {
		c, hi := connects(t, s)
		if got := proves(c, hi, one.user, one.password, one.version); got != one.want {
			t.Errorf("%+v: %s", one, got)
		}
	}
	c, hi := connects(t, s)
	other, _ := connects(t, s)
	if got := proves(other, hi, "one", "new", 2); got == "+OK" {
		t.Error("the proof of another connection opens this one")
	}
	if got := proves(c, hi, "one", "new", 2); got != "+OK" {
		t.Errorf("after the wrong ones: %s", got)
	}
	w.locked(func() { delete(w.keys, "one") })
	eventually(t, "the key that was revoked ends its connection", func() bool {
		got := c.asks("INFO")
		return got == "-ERR Invalid password" || strings.HasPrefix(got, "closed")
	})
}

// A connection from before the first key does nothing afterwards.
func TestHello_ServerGetsKeys(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	c := dial(t, s, "")
	w.locked(func() { w.open = false })
	eventually(t, "the connection is refused", func() bool {
		return c.asks("INFO") == "-ERR Invalid password"
	})
}

// Each address has a share of the connections.
func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t)
	s := w.serve(func(c *Config) { c.Connections, c.PerAddress = 10, 3 })
	var all []*client
	for range 3 {
		all = append(all, dial(t, s, ""))
	}
	if _, got := connects(t, s); got != "-ERR too many connections" {
		t.Errorf("the fourth: %s", got)
	}
	_ = all[0].nc.Close()
	eventually(t, "a closed connection makes room", func() bool {
		_, got := connects(t, s)
		return got == `+HI {"v":2}`
	})
}

// A silent rest of a line does not hold its connection for ever, and a line without an end takes bounded memory.
func TestLines(t *testing.T) {
	w := newWorld(t)
	s := w.serve(func(c *Config) { c.PayloadLimit = 1000 })
	c := dial(t, s, "")
	for _, part := range []string{"PU", "SH {\"jid\":\"12345678\",\"jobtype\":\"T\",", "\"args\":[]}\n"} {
		if _, err := c.nc.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond) // each part arrives alone
	}
	if got := c.reads(); got != "+OK" {
		t.Errorf("a line in parts: %s", got)
	}
	if _, err := c.nc.Write([]byte("BATCH x\nTRACK x\r\nNOPE\n")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-ERR batch subsystem is only available in Faktory Enterprise",
		"-ERR tracking subsystem is only available in Faktory Enterprise", "-ERR unknown command NOPE",
	} {
		if got := c.reads(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c.is("PUSH "+strings.Repeat("x", 1001), "-ERR job is too large: at most 1000 bytes")
	c.is("PUSHB ["+strings.Repeat(" ", 200_000)+"]", "{}")
	go func() { // it is refused before it has ended
		for range 100 {
			if _, err := c.nc.Write([]byte(strings.Repeat("x", 1000))); err != nil {
				return
			}
		}
	}()
	if got := c.reads(); got != "-ERR too long" {
		t.Errorf("a line without an end: %.100s", got)
	}
	eventually(t, "its memory is given back", func() bool { return s.memory.Load() == 0 })
	fresh, _ := connects(t, s)
	if got := fresh.asks("PUSHB [" + strings.Repeat(" ", 200_000)); got != "-ERR too long" {
		t.Errorf("a PUSHB before HELLO: %.100s", got)
	}
}
