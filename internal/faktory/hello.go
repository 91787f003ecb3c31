package faktory

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// hello is what a client says of itself.
type hello struct {
	Version  int      `json:"v"`
	Hostname string   `json:"hostname"`
	Wid      string   `json:"wid"` // "" = it only pushes, mostly
	PID      int      `json:"pid"`
	Labels   []string `json:"labels"`
	Username string   `json:"username"` // the id of the API key
	Hash     string   `json:"pwdhash"`
}

const (
	helloBound = 2 * time.Second
	// iterations is how often clients hash the password.
	iterations = 1000
	// mostWid is how long the name of a worker may be.
	mostWid = 200
)

// greet says HI, and reads HELLO. An error ends the connection.
func (c *conn) greet() error {
	s := c.server
	c.readBy(time.Now().Add(helloBound))
	hi := `+HI {"v":2}`
	if !s.Keys.Open() {
		salt := make([]byte, 8)
		_, _ = rand.Read(salt) // never fails, says crypto/rand
		c.salt = hex.EncodeToString(salt)
		hi = `+HI {"v":2,"i":` + strconv.Itoa(iterations) + `,"s":"` + c.salt + `"}`
	}
	if err := c.write(append(append(c.out[:0], hi...), "\r\n"...)); err != nil {
		return err
	}
	line, err := c.readLine(helloLine)
	if errors.Is(err, errTooLong) {
		_ = c.fail(err.Error())
		c.linger()
		return err
	}
	if err != nil {
		return err
	}
	text, ok := bytes.CutPrefix(line, []byte("HELLO "))
	var h hello
	if !ok || json.Unmarshal(text, &h) != nil {
		return c.failAndClose("invalid HELLO")
	}
	if len(h.Wid) > mostWid {
		return c.failAndClose("invalid HELLO: wid is longer than " + strconv.Itoa(mostWid) + " bytes")
	}
	ctx, cancel := context.WithTimeout(s.io, commandTime)
	defer cancel()
	if err := c.authenticate(ctx, &h); err != nil {
		if errors.Is(err, job.ErrUnauthorized) {
			return c.failAndClose("Invalid password")
		}
		return c.failAndClose(reasonOf(err))
	}
	c.worker = s.workers.enter(c, &h)
	c.readBy(time.Time{})
	return c.ok()
}

// authenticate finds the caller of a connection.
func (c *conn) authenticate(ctx context.Context, h *hello) error {
	s := c.server
	if err := s.Rates.CountAddress(ctx, c.from); err != nil {
		return err
	}
	c.looked = time.Now()
	if s.Keys.Open() {
		c.caller = job.Caller{Address: c.from, Open: true}
		return nil
	}
	id := h.Username
	if id == "" {
		id = s.DefaultKey
	}
	caller, passwords, err := s.Keys.Gateway(ctx, id)
	if err != nil && !errors.Is(err, job.ErrUnauthorized) {
		return err
	}
	times := iterations
	if h.Version < 2 { // such clients hash once, whatever HI said
		times = 1
	}
	right := 0
	for _, password := range passwords {
		right |= subtle.ConstantTimeCompare([]byte(h.Hash), []byte(proof(password, c.salt, times)))
	}
	if len(passwords) == 0 { // an unknown key takes as long as a wrong password
		_ = proof("", c.salt, times)
	}
	if err != nil || right == 0 || c.salt == "" {
		if err := s.Rates.CountWrong(ctx, c.from); err != nil {
			return err
		}
		return job.ErrUnauthorized
	}
	s.Keys.NoteUse(id)
	c.caller, c.keyID = caller, id
	c.caller.Address = c.from
	return nil
}

// proof returns what a client sends that knows a password.
func proof(password, salt string, times int) string {
	sum := sha256.Sum256([]byte(password + salt))
	for range times - 1 {
		sum = sha256.Sum256(sum[:])
	}
	return hex.EncodeToString(sum[:])
}

// lookAgain is how long a connection serves a caller before it looks whether the caller's key is still valid.
const lookAgain = time.Second

// lookUp looks whether the caller may still come. An error ends the connection.
func (c *conn) lookUp(ctx context.Context) error {
	s := c.server
	now := time.Now()
	if now.Sub(c.looked) < lookAgain {
		return nil
	}
	c.looked = now
	if c.keyID == "" {
		if s.Keys.Open() {
			return nil
		}
		return c.failAndClose("Invalid password") // the server has keys by now
	}
	caller, _, err := s.Keys.Gateway(ctx, c.keyID)
	switch {
	case errors.Is(err, job.ErrUnauthorized):
		return c.failAndClose("Invalid password")
	case err == nil:
		s.Keys.NoteUse(c.keyID)
		c.caller = caller
		c.caller.Address = c.from
	}
	return nil
}

// spend charges n requests to the caller.
func (c *conn) spend(ctx context.Context, n int) error {
	if !(c.caller.Key.Rate > 0) {
		return nil
	}
	if a := c.server.Rates.Spend(ctx, &c.caller, n); a.RetryIn > 0 {
		return &job.RateError{In: a.RetryIn}
	}
	return nil
}
