package worker

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"
)

// mostPlaces is how many jobs a worker may run at once.
const mostPlaces = 1000

// Option changes a Worker.
type Option func(*Worker)

// WithToken authenticates with an API key of the role worker ("tq_<id>_<secret>").
func WithToken(token string) Option { return func(w *Worker) { w.token = token } }

// WithConcurrency sets how many jobs run at once, 1 to 1000. The default is 10.
func WithConcurrency(n int) Option {
	return func(w *Worker) {
		if n < 1 || n > mostPlaces {
			w.refuse(fmt.Sprintf("the concurrency is not 1 to %d", mostPlaces))
			return
		}
		w.places = n
	}
}

// WithTiers makes the worker claim jobs of these tiers only. Their priorities must follow each other.
func WithTiers(tiers ...string) Option { return func(w *Worker) { w.tiers = tiers } }

// WithLease sets how long a job stays the worker's without a heartbeat: 5 s to 1 h, in whole seconds. By default the
// server decides by the job's tier: 5 s for PUBLIC, 6 s for UNPAID, 15 s for PAID. If a worker dies its jobs go to
// others after this time.
func WithLease(d time.Duration) Option {
	return func(w *Worker) {
		if d < 5*time.Second || d > time.Hour || d%time.Second != 0 {
			w.refuse("the lease is not 5 s to 1 h in whole seconds")
			return
		}
		w.lease = d
	}
}

// WithDrain sets how long Run waits for the running handlers after its context has ended. The default is 25 s.
func WithDrain(d time.Duration) Option { return func(w *Worker) { w.drain = max(d, 0) } }

// WithName sets the name that operators see and that signs attempts: 1 to 64 of A-Z a-z 0-9 . _ -, and no other
// running worker's. The default has the host's name, the process id and a random part.
func WithName(name string) Option {
	return func(w *Worker) {
		if name == "" || len(name) > 64 || clean(name) != name {
			w.refuse("the name is not 1 to 64 of A-Z a-z 0-9 . _ -")
			return
		}
		w.name = name
	}
}

// WithVersion says which version of the program this is, for operators: 1 to 64 visible ASCII characters.
func WithVersion(version string) Option {
	return func(w *Worker) {
		hidden := func(r rune) bool { return r < ' ' || r > '~' }
		if version == "" || len(version) > 64 || strings.ContainsFunc(version, hidden) {
			w.refuse("the version is not 1 to 64 visible ASCII characters")
			return
		}
		w.version = version
	}
}

// WithLog sets the logger; the default is slog.Default().
func WithLog(log *slog.Logger) Option {
	return func(w *Worker) {
		if log != nil {
			w.log = log
		}
	}
}

// WithHTTPClient sends requests through h, which sets the transport, proxy or TLS. Redirects are not followed. A
// Timeout of h also cuts claims that wait for a job.
func WithHTTPClient(h *http.Client) Option {
	return func(w *Worker) {
		if h != nil {
			w.http = h
		}
	}
}

// ownName returns a name that no other worker has.
func ownName() string {
	host, _ := os.Hostname() // a name without it is as good
	return clean(fmt.Sprintf("%.40s-%d-%06x", host, os.Getpid(), rand.Uint32()>>8))
}

// clean replaces what a name may not have.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, name)
}
