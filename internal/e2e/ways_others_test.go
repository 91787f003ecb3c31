package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// faktoryLine is a connection to the Faktory gateway.
type faktoryLine struct {
	net.Conn
	replies *bufio.Reader
}

func (l *faktoryLine) ask(command string) (string, error) {
	if command != "" {
		if _, err := fmt.Fprintf(l, "%s\r\n", command); err != nil {
			return "", err
		}
	}
	reply, err := l.replies.ReadString('\n')
	return strings.TrimSpace(reply), err
}

// dialFaktory opens a connection with a key's password for gateways.
func dialFaktory(addr, key, password string) (*faktoryLine, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	l := &faktoryLine{conn, bufio.NewReader(conn)}
	hi, err := l.ask("")
	var said struct {
		I int
		S string
	}
	if err == nil {
		err = json.Unmarshal([]byte(strings.TrimPrefix(hi, "+HI ")), &said)
	}
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(password + said.S))
	for range said.I - 1 {
		hash = sha256.Sum256(hash[:])
	}
	ok, err := l.ask(`HELLO {"v":2,"username":"` + key + `","pwdhash":"` + hex.EncodeToString(hash[:]) + `"}`)
	if err != nil || ok != "+OK" {
		return nil, errors.Join(err, errors.New("HELLO: "+ok))
	}
	return l, nil
}

// The ways in that waysIn does not have: requeues of one's own dead jobs, jobs that a running job adds to its flow, and
// PUSH. From 24 connections at once each of them brings an owner to its quota, and not beyond it.
func TestWaysIn_Others(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	for _, way := range []string{"requeued", "added", "pushed"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			fillsQuota(t, way)
		})
	}
}

func fillsQuota(t *testing.T, way string) {
	t.Helper()
	heavy(t)
	const quota = 12
	c := newCluster(t)
	faktory := fmt.Sprint("127.0.0.1:", testkit.FreePort(t))
	s := c.start("TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_GATEWAY_SECRET="+strings.Repeat("s", 32),
		"TIERQ_FAKTORY_ADDR="+faktory)
	must := func(a answer, status int) answer {
		t.Helper()
		if a.status != status {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a
	}
	must(s.asks(theAdmin, http.MethodPut, "/admin/queues/idle", `{"limit":1000}`), http.StatusOK)
	must(s.asks(theAdmin, http.MethodPut, "/admin/queues/adds", `{"limit":1000}`), http.StatusOK)
	made := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ann","role":"submit","inFlight":12}`)
	ann := made.Key
	var dead []string
	for range 3 {
		var wave []string
		for range quota - 1 {
			a := must(s.asks(ann, http.MethodPost, "/paid/submit", idleJob), http.StatusAccepted)
			wave = append(wave, accepted(t, a))
		}
		for _, id := range wave {
			must(s.asks(theAdmin, http.MethodPost, "/admin/jobs/"+id+"/kill", `{"reason":"a test"}`), http.StatusOK)
		}
		dead = append(dead, wave...)
	}
	testkit.Eventually(t, 20*time.Second, "SQL has the dead jobs", func() (bool, string) {
		n := 0
		c.row("SELECT COUNT(*) FROM failed_jobs", &n)
		return n == len(dead), fmt.Sprint(n)
	})
	var flow struct{ FlowID string }
	a := must(s.asks(ann, http.MethodPost, "/api/flows", `{"jobs":{"a":{"type":"ADDS","queue":"adds"}}}`),
		http.StatusCreated)
	if err := json.Unmarshal(a.body, &flow); err != nil || flow.FlowID == "" {
		t.Fatalf("%v %s", err, a.body)
	}
	leases := s.claims(theAdmin, "w", `"queues":["adds"],"max":1,"leaseSeconds":60`)
	if len(leases) != 1 {
		t.Fatalf("%d leases", len(leases))
	}
	password := s.gatewayPassword(ann)
	var group sync.WaitGroup
	var pushed atomic.Int64
	for n := range 24 {
		group.Go(func() {
			line, err := dialFaktory(faktory, made.ID, password)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = line.Close() }()
			for round := range 3 {
				pushes := func() {
					push := `PUSH {"jid":"jid-%d-%d-12345","jobtype":"X","queue":"idle","args":[]}`
					switch said, err := line.ask(fmt.Sprintf(push, n, round)); {
					case err == nil && said == "+OK":
						pushed.Add(1)
					case err != nil || !strings.HasPrefix(said, "-ERR"):
						t.Errorf("PUSH: %s %v", said, err)
					}
				}
				asks := func(path, key, body string) func() {
					return func() {
						a, err := try(http.MethodPost, s.base+path, body, "Authorization", "Bearer "+key)
						if err != nil || a.status >= 500 && a.status != http.StatusServiceUnavailable || a.status == 400 {
							t.Errorf("%s: %d %s %v", path, a.status, a.body, err)
						}
					}
				}
				adds := fmt.Sprintf(`{"lease":%q,"jobs":{"a/%d-%d":{"type":"X","queue":"idle","after":["a"]}}}`,
					leases[0].Lease, n, round)
				map[string]func(){
					"pushed": pushes, "added": asks("/api/flows/"+flow.FlowID+"/jobs", theAdmin, adds),
					"requeued": asks("/jobs/"+dead[(3*n+round)%len(dead)]+"/retry", ann, ""),
				}[way]()
				if _, owners := c.counted(); owners[made.ID] > quota {
					t.Errorf("%d are taken of %d", owners[made.ID], quota)
				}
			}
		})
	}
	group.Wait()
	_, owners := c.counted()
	ways := map[string]int{"pushed": int(pushed.Load())}
	for what, query := range map[string]string{
		"requeued": "SELECT COUNT(*) FROM accepted_jobs WHERE generation = 2",
		"added":    "SELECT COUNT(*) FROM flow_jobs WHERE name <> 'a'",
	} {
		n := 0
		c.row(query, &n)
		ways[what] = n
	}
	t.Logf("evidence: %d of %d, %v", owners[made.ID], quota, ways)
	if owners[made.ID] != quota || ways[way] != quota-1 { // the flow's first job lives too
		t.Errorf("%d are taken of %d: %v", owners[made.ID], quota, ways)
	}
	if found := append(c.audit(), c.findings(s)...); len(found) > 0 {
		t.Errorf("the audits found %q", found)
	}
}
