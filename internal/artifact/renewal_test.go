package artifact

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tokenService is an STS at the other end of a pipe. It accepts every request, and answers only while works is
// set.
type tokenService struct {
	works atomic.Bool
	asked atomic.Int32
}

func (s *tokenService) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		if _, err := http.ReadRequest(bufio.NewReader(there)); err != nil {
			return
		}
		n := s.asked.Add(1)
		if !s.works.Load() {
			_, _ = io.Copy(io.Discard, there) // until the client hangs up
			return
		}
		text := fmt.Sprintf(`<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
			<AccessKeyId>web%d</AccessKeyId><SecretAccessKey>s</SecretAccessKey><Expiration>%s</Expiration>
			</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
			n, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		fmt.Fprintf(there, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}()
	return here, nil
}

// A token service that accepts a renewal and never answers delays one request by five seconds, twice a minute,
// while the known keys are good. A request that waits for its turn ends with its own context.
func TestRenewalThatHangs(t *testing.T) {
	credentials(t, keys{})
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "a.b.c"))
	t.Setenv("AWS_ROLE_ARN", "arn:x")
	t.Setenv("AWS_ENDPOINT_URL_STS", "http://sts.test")
	synctest.Test(t, func(t *testing.T) {
		s := &tokenService{}
		i := newIdentity("", "x", &http.Client{Transport: &http.Transport{DialContext: s.dial}})
		// get checks the key id ("" = an error), the time that the call takes, and the number of requests so far.
		get := func(ctx context.Context, when, id string, takes time.Duration, asked int32) {
			t.Helper()
			began := time.Now()
			k, err := i.keys(ctx)
			if took := time.Since(began); k.id != id || (err == nil) != (id != "") || took != takes || s.asked.Load() != asked {
				t.Errorf("%s: %q, %v after %s and %d requests", when, k.id, err, took, s.asked.Load())
			}
		}
		s.works.Store(true)
		get(t.Context(), "first", "web1", 0, 1)
		s.works.Store(false)
		<-time.After(56 * time.Minute)
		get(t.Context(), "a renewal hangs", "web1", 5*time.Second, 2)
		get(t.Context(), "right after it", "web1", 0, 2)
		<-time.After(29 * time.Second)
		get(t.Context(), "within 30 s", "web1", 0, 2)
		<-time.After(time.Second)

		first := make(chan error)
		go func() {
			_, err := i.keys(t.Context())
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		get(ctx, "a waiter whose time is over", "", time.Second, 3)
		if err := <-first; err != nil {
			t.Error(err)
		}

		<-time.After(4 * time.Minute)
		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		get(late, "the known keys have ended", "", time.Minute, 4)
		if !errors.Is(late.Err(), context.DeadlineExceeded) {
			t.Error(late.Err())
		}
		s.works.Store(true)
		get(t.Context(), "the service is back", "web5", 0, 5)
		i.forget(t.Context())
		get(t.Context(), "forgotten", "web6", 0, 6)
	})
}
