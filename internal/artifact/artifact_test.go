package artifact

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func TestPutRead(t *testing.T) {
	t.Attr("proves", "S1-P4")
	each(t, func(t *testing.T, s *Store) {
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		put(t.Context(), t, s, other, "bystander.csv", "text/csv", []byte("stays"))
		large := bytes.Repeat([]byte("0123456789abcdef"), 12<<20/16) // larger than one part of an S3 upload
		for _, text := range [][]byte{[]byte("first\nline"), large, {}, []byte("{}\n")} {
			put(t.Context(), t, s, one, "Bericht für März.pdf", "application/pdf", text)
			r, got := read(t, s, one)
			if !bytes.Equal(got, text) {
				t.Errorf("read %d bytes, want the %d that were put", len(got), len(text))
			}
			if r.Name != "Bericht für März.pdf" || r.ContentType != "application/pdf" {
				t.Errorf("%q, %q", r.Name, r.ContentType)
			}
		}
		if err := s.Delete(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(t.Context(), one, 1); !errors.Is(err, job.ErrNoArtifact) {
			t.Errorf("a deleted file: %v", err)
		}
		if err := s.Delete(t.Context(), one); err != nil {
			t.Errorf("deleted twice: %v", err)
		}
		if r, got := read(t, s, other); string(got) != "stays" || r.ContentType != "text/csv" {
			t.Errorf("the bystander: %q, %q", got, r.ContentType)
		}
	})
}

func TestBadIDs(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for _, id := range []job.ID{"", "x", "../../../../../../../../etc/passwd/0",
			"019de340-01fe-7a58-be69-567cd7d6b7d4/"} {
			if _, err := s.Put(t.Context(), id, 1, "n", "a/b", nil); !errors.Is(err, job.ErrBadID) {
				t.Errorf("put %q: %v", id, err)
			}
			if _, err := s.Read(t.Context(), id, 1); !errors.Is(err, job.ErrNoArtifact) {
				t.Errorf("read %q: %v", id, err)
			}
			if err := s.Delete(t.Context(), id); !errors.Is(err, job.ErrBadID) {
				t.Errorf("delete %q: %v", id, err)
			}
		}
	})
}

func TestTooLarge(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		_, err := s.Put(t.Context(), one, 1, "n", "a/b", make([]byte, MaxBytes+1))
		if err == nil || !strings.Contains(err.Error(), "the most is") {
			t.Errorf("Put = %v", err)
		}
	})
}

// A put whose context has ended changes nothing and returns the context's cause.
func TestPutAllOrNothing(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		put(t.Context(), t, s, one, "a.pdf", "application/pdf", []byte("the first"))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(handler.ErrDraining)
		_, err := s.Put(ctx, one, 1, "b.pdf", "application/pdf", []byte("the second"))
		if !errors.Is(err, handler.ErrDraining) || errors.Is(err, job.ErrUnavailable) {
			t.Errorf("Put = %v, want the cause", err)
		}
		if r, got := read(t, s, one); string(got) != "the first" || r.Name != "a.pdf" {
			t.Errorf("%q named %q", got, r.Name)
		}
	})
}

// A read during concurrent writes gets one of the files, whole.
func TestPutIsAtomic(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		texts := [][]byte{bytes.Repeat([]byte("a"), 200_000), bytes.Repeat([]byte("b"), 70_000)}
		put(t.Context(), t, s, one, "n", "a/b", texts[0])
		var writers sync.WaitGroup
		for _, text := range texts {
			writers.Go(func() {
				for range 20 {
					if _, err := s.Put(t.Context(), one, 1, "n", "a/b", text); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 40 {
			if _, got := read(t, s, one); !bytes.Equal(got, texts[0]) && !bytes.Equal(got, texts[1]) {
				t.Fatalf("%d bytes that nobody wrote", len(got))
			}
		}
		writers.Wait()
	})
}

// An outage does not look like an empty store.
func TestS3Outages(t *testing.T) {
	server, text := s3Server(t)
	calls := func(t *testing.T, s *Store) {
		t.Helper()
		check := func(verb string, err error) {
			t.Helper()
			if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrNoArtifact) {
				t.Errorf("%s: %v", verb, err)
			}
		}
		_, err := s.Put(t.Context(), one, 1, "n", "a/b", []byte("text"))
		check("put", err)
		_, err = s.Read(t.Context(), one, 1)
		check("read", err)
		check("check", s.Check(t.Context()))
	}
	t.Run("no such bucket", func(t *testing.T) {
		calls(t,
			open(t, strings.Replace(text, "s3://files", "s3://nothing", 1)))
	})
	t.Run("server gone", func(t *testing.T) {
		s := open(t, text)
		s.patience = 300 * time.Millisecond // the client alone would retry for some seconds
		server.Close()
		calls(t, s)
		if err := s.Delete(t.Context(), one); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("delete: %v", err)
		}
	})
}

func TestDeadline(t *testing.T) {
	s3Server(t) // sets the credentials
	s := open(t, silent(t))
	s.patience = 50 * time.Millisecond
	done := make(chan error, 1)
	go func() {
		_, err := s.Read(t.Context(), one, 1)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, job.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Read = %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("waits for a store that never answers")
	}
}

// A slow but steady file is read for longer than one call's patience. A file whose store falls silent is given up.
func TestRead_PatienceIsForEachPiece(t *testing.T) {
	memory, _ := s3Server(t)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // too large to be in transit at once
	var silent atomic.Bool
	_, address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !silent.Load() {
			memory.Config.Handler.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		memory.Config.Handler.ServeHTTP(rec, r)
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:len(text)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	s := open(t, address)
	put(t.Context(), t, s, one, "n", "a/b", text)
	s.patience = time.Second
	r, err := s.Read(t.Context(), one, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	<-time.After(s.patience + 200*time.Millisecond) // the reader may pause between two reads
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}

	silent.Store(true)
	r, err = s.Read(t.Context(), one, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a store that falls silent: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("waits for a store that falls silent")
	}
}
