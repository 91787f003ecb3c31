package app

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

const typesAdmin = "tq_aaaaaaaaaaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// submit makes a submit with the admin key.
func (a *aging) submit(body string) (status int, answer string) {
	a.t.Helper()
	q, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.base+"/paid/submit", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+typesAdmin)
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

const mailTo = `{"type":"SEND_EMAIL","payload":{"to":"ada@example.com","subject":"Hello"}}`

// With TIERQ_TYPES submits may name only the types of the list; a body without a type means SIMULATION.
func TestTypes_AreOnByTheList(t *testing.T) {
	t.Parallel()
	a := newAging(t, "TIERQ_ADMIN_KEY="+typesAdmin, "TIERQ_TYPES=SEND_WEBHOOK, SEND_EMAIL")
	if status, text := a.submit(mailTo); status != http.StatusAccepted {
		t.Errorf("a type of the list: %d %s", status, text)
	}
	for _, body := range []string{"{}", `{"type":"SIMULATION"}`, `{"type":"EMAIL","payload":{}}`, `{"type":"CALLBACK"}`} {
		status, text := a.submit(body)
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, "UNKNOWN_JOB_TYPE") ||
			!strings.Contains(text, "known types: SEND_EMAIL, SEND_WEBHOOK") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if text := a.server.typesWarning(); text != "" {
		t.Errorf("with a list there is nothing to warn of: %s", text)
	}
}

// Without TIERQ_TYPES every type is on, as before that setting existed, and a server with keys logs a warning.
func TestTypes_WithoutAList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env   []string
		warns bool
	}{
		"keys":           {[]string{"TIERQ_ADMIN_KEY=" + typesAdmin}, true},
		"keys, and all":  {[]string{"TIERQ_ADMIN_KEY=" + typesAdmin, "TIERQ_TYPES=all"}, false},
		"an open server": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAging(t, c.env...)
			if text := a.server.typesWarning(); strings.Contains(text, "set TIERQ_TYPES") != c.warns {
				t.Errorf("it warns %q", text)
			}
			if a.server.keyring.Open() {
				return
			}
			if status, text := a.submit("{}"); status != http.StatusAccepted {
				t.Errorf("SIMULATION: %d %s", status, text)
			}
		})
	}
}

// A list with a type that this server does not run stops the start.
func TestTypes_UnknownOnes(t *testing.T) {
	t.Parallel()
	a := newAging(t)
	_, err := offer(a.server.registry, []string{"SEND_EMAIL", "CALLBACK"})
	if err == nil || !strings.Contains(err.Error(), "this server has no job type CALLBACK; it has EMAIL, ") {
		t.Errorf("%v", err)
	}
}
