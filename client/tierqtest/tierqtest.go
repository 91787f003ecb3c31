// Package tierqtest is a fake tierq server for the tests of a program that submits jobs. The fake runs in the test's
// own process, in memory and on a free port of the loopback address, and ends with the test:
//
//	s := tierqtest.New(t)
//	shop := NewShop(s.Client()) // or s.URL(), for a program that makes its own client
//	shop.Order("4711")
//	if jobs := s.Jobs(); len(jobs) != 1 || jobs[0].Type != "SEND_EMAIL" {
//		t.Errorf("submitted: %+v", jobs)
//	}
//
// No job ends by itself. The test ends it with Complete or Fail, or gives its type a handler with Handle. Refuse and
// LoseAnswers show what the program does while the server refuses or its answers are lost.
//
// # What the fake promises
//
//   - It speaks HTTP, so it serves package client and every other program that calls a tierq server.
//   - It answers submits of every tier, alone and in batches, polls (also with a wait), the stream of events of one
//     job, and cancels. That is what Submit, SubmitJob, SubmitBatch, Poll, Wait, Watch and Cancel of package client
//     need, also with Gather. It answers all calls of package client about batches and flows. Every other call is
//     answered 501 NOT_IN_TIERQTEST.
//   - A repeated idempotency key gets the first job; with another body or tier it gets 422 IDEMPOTENCY_MISMATCH.
//   - Of the jobs with one unique key one holds it: a submit that finds the holder is answered with it, is refused,
//     gives a waiting job its payload, or is HELD until the holder has ended.
//   - A batch takes members until it is sealed. When it is sealed and its last member has ended, its then job is there,
//     once, with the counts in its payload. With ThenSucceeded a failed member makes the batch STUCK.
//   - A job of a flow is WAITING until the last job that it waits for has ended. OnFailure decides whether
//     it is cancelled, runs or waits on if one of these did not complete.
//   - A job that waits is cancelled at once. A running job ends CANCELLED at its next Complete or Fail.
//   - A call that the test makes on a Server has happened when it returns: the next poll shows it.
//   - All methods may be called by several goroutines at once.
//
// A test of tierq (TestFakeAnswersAsAServer) tells one story to a server and to the fake, and compares what a client
// learns: statuses, results, refusals and their codes.
//
// # What the fake cannot show
//
//   - Order and time. The fake starts no job because of its tier, its delay, its queue or the key of its line,
//     keeps no capacity, and ends no job that runs too long. A job with a delay stays SCHEDULED until Begin.
//   - Retries. The first failure of a job is its last. There is no requeue, so a batch has one round.
//   - Fan-out and inputs. These are calls of a worker; a handler of the fake has the payload of its job only.
//   - Checks. The fake takes every tier, queue, API key, payload and option; Types limits the job types. All callers
//     share their unique keys.
//   - Unique keys and expiry of the jobs of flows. The fake refuses them with 400; a server takes them.
//   - Durability. The jobs are gone with the Server.
//   - Callbacks. The fake calls no callbackUrl.
//
// A test against a server that is really there (`tierq serve` in a folder of its own) shows these.
package tierqtest

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/internal/fake"
)

// Server is a fake tierq server.
type Server struct {
	fake   *fake.Server
	misuse func(format string, args ...any) // reports a mistake of the test

	mu       sync.Mutex
	clients  []*client.Client
	handlers map[string]func(Job) (any, error)
	types    map[string]bool // nil = all are accepted
	faults   []fake.Fault    // of the next submits
	running  sync.WaitGroup  // handlers
}

// New starts a fake server that ends with the test. A mistake in the use of the Server, such as Complete with an
// unknown id, is an error of t.
func New(t testing.TB) *Server {
	t.Helper()
	s := Start()
	s.misuse = func(format string, args ...any) { t.Helper(); t.Errorf("tierqtest: "+format, args...) }
	t.Cleanup(s.Close)
	return s
}

// Start starts a fake server for a program that is not a test, such as an example. Its caller closes it. A mistake in
// the use of the Server panics.
func Start() *Server {
	s := &Server{fake: fake.New(), handlers: map[string]func(Job) (any, error){}, misuse: panics}
	s.fake.Judge(s.judge)
	s.fake.Accepted(s.accept)
	s.fake.Faults(s.fault)
	s.fake.Groups()
	s.fake.Handle("/", func(w http.ResponseWriter, _ *http.Request) {
		fake.Refuse(w, http.StatusNotImplemented, "NOT_IN_TIERQTEST")
	})
	return s
}

// Close stops the server, waits for the running handlers, and closes the clients of Client.
func (s *Server) Close() {
	s.fake.Close()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		c.Close()
	}
}

// URL returns the address of the server, such as "http://127.0.0.1:41234".
func (s *Server) URL() string { return s.fake.URL }

// Client returns a client of the server. It waits for milliseconds between its tries, so that tests of refusals are
// short, and it does not wait for a Retry-After above 100 ms; options may change that.
func (s *Server) Client(opts ...client.Option) *client.Client {
	c := client.New(s.URL(), append([]client.Option{client.WithBackoff(time.Millisecond, 100*time.Millisecond)},
		opts...)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c
}

func panics(format string, args ...any) { panic("tierqtest: " + fmt.Sprintf(format, args...)) }
