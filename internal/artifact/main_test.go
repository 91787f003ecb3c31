package artifact

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	one   = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4")
	other = job.ID("019de340-01fe-7a58-be69-567cd7d6b8d4")
)

func open(t *testing.T, text string) *Store {
	t.Helper()
	s, err := Open(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func folder(t *testing.T) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made", "here")
	text, err := FolderURL(dir)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, text), dir
}

// s3Server starts an S3 server in memory with one bucket, "files", and returns the URL of a store in it. The test
// reads only credentials from the environment, so that it does not depend on its machine.
func s3Server(t *testing.T) (*httptest.Server, string) {
	t.Helper()
	credentials(t, keys{id: "key", secret: "secret"})
	memory := s3mem.New()
	if err := memory.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	return serve(t, gofakes3.New(memory).Server())
}

// credentials sets an environment with these keys and no other variable that AWS' tools read.
func credentials(t *testing.T, k keys) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": k.id, "AWS_SECRET_ACCESS_KEY": k.secret, "AWS_SESSION_TOKEN": k.token,
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
	} {
		t.Setenv(name, value)
	}
}

func serve(t *testing.T, h http.Handler) (*httptest.Server, string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	q := url.Values{"region": {"eu-central-1"}, "use_path_style": {"true"}, "endpoint": {server.URL}, "prefix": {"made/"}}
	return server, "s3://files?" + q.Encode()
}

// each runs a test on both kinds of store.
func each(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("folder", func(t *testing.T) {
		s, _ := folder(t)
		test(t, s)
	})
	t.Run("s3", func(t *testing.T) {
		_, text := s3Server(t)
		test(t, open(t, text))
	})
}

func put(ctx context.Context, t *testing.T, s *Store, id job.ID, name, contentType string, text []byte) {
	t.Helper()
	size, err := s.Put(ctx, id, 1, name, contentType, text)
	if err != nil || size != int64(len(text)) {
		t.Fatalf("Put = %d, %v, want %d bytes", size, err, len(text))
	}
}

func read(t *testing.T, s *Store, id job.ID) (*Reader, []byte) {
	t.Helper()
	r, err := s.Read(t.Context(), id, 1)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r.Size != int64(text.Len()) {
		t.Errorf("Size %d, but %d bytes", r.Size, text.Len())
	}
	return r, text.Bytes()
}

// silent starts a server that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	q := url.Values{"region": {"x"}, "use_path_style": {"true"}, "endpoint": {"http://" + l.Addr().String()}}
	return "s3://files?" + q.Encode()
}

// dialTo returns a dial function that always connects to one address.
func dialTo(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
}
