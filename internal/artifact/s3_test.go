package artifact

import (
	"crypto/md5"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestBucketURL(t *testing.T) {
	for _, c := range []struct {
		endpoint, region, bucket string
		pathStyle                bool
		want                     string
	}{
		{"", "eu-central-1", "files", false, "https://files.s3.eu-central-1.amazonaws.com"},
		{"", "eu-central-1", "files", true, "https://s3.eu-central-1.amazonaws.com/files"},
		{"", "cn-north-1", "files", false, "https://files.s3.cn-north-1.amazonaws.com.cn"},
		// No certificate covers such a host.
		{"", "us-east-1", "files.example.com", false, "https://s3.us-east-1.amazonaws.com/files.example.com"},
		{"", "us-east-1", "Files_1", false, "https://s3.us-east-1.amazonaws.com/Files_1"},
		{"https://minio:9000/", "x", "files", false, "https://files.minio:9000"},
		{"https://minio:9000", "x", "files", true, "https://minio:9000/files"},
		{"https://host/s3/", "x", "files", true, "https://host/s3/files"},
		{"http://127.0.0.1:9000", "x", "files", false, "http://127.0.0.1:9000/files"},
		{"http://[::1]:9000", "x", "files", false, "http://[::1]:9000/files"},
	} {
		if u, err := bucketURL(c.endpoint, c.region, c.bucket, c.pathStyle); err != nil || u.String() != c.want {
			t.Errorf("%+v: %v, %v", c, u, err)
		}
	}
}

// A request to a bucket as a host goes to the endpoint, with the bucket in its Host.
func TestVirtualHost(t *testing.T) {
	memory, _ := s3Server(t)
	var hosts []string
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		r.URL.Path = "/files" + r.URL.Path
		memory.Config.Handler.ServeHTTP(w, r)
	}))
	s := open(t, "s3://files?region=x&endpoint=http://s3.test:1")
	tr := s.bucket.(*s3).client.Transport.(*http.Transport)
	tr.Proxy = nil
	tr.DialContext = dialTo(server.Listener.Addr().String())
	put(t.Context(), t, s, one, "a", "a/b", []byte("text"))
	if _, text := read(t, s, one); string(text) != "text" {
		t.Errorf("%q", text)
	}
	if got := strings.Join(hosts, " "); got != "files.s3.test:1 files.s3.test:1" {
		t.Error(got)
	}
}

// answers returns a store whose server gives these answers in turn, the last one for ever, and a count of the
// requests.
func answers(t *testing.T, list ...func(http.ResponseWriter)) (*Store, *int) {
	t.Helper()
	credentials(t, keys{id: "key", secret: "secret"})
	n := 0
	_, address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		list[min(n, len(list)-1)](w)
		n++
	}))
	s := open(t, address)
	s.bucket.(*s3).pause = time.Millisecond
	return s, &n
}

func answer(status int, code string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		if code != "" {
			_, _ = io.WriteString(
				w,
				"<?xml version=\"1.0\"?><Error><Code>"+code+"</Code><Message>what happened</Message></Error>",
			)
		}
	}
}

// A temporary fault is tried three times in all, a permanent one once.
func TestS3Tries(t *testing.T) {
	for name, c := range map[string]struct {
		answers []func(http.ResponseWriter)
		tries   int
		want    string // part of the error; "" = it succeeds
	}{
		"succeeds": {[]func(http.ResponseWriter){answer(200, "")}, 1, ""},
		"slow down, then good": {[]func(http.ResponseWriter){answer(503, "SlowDown"), answer(500, "InternalError"),
			answer(200, "")}, 3, ""},
		"down":     {[]func(http.ResponseWriter){answer(502, "")}, 3, "S3 answers 502"},
		"too many": {[]func(http.ResponseWriter){answer(429, ""), answer(200, "")}, 2, ""},
		"not ours": {[]func(http.ResponseWriter){answer(403, "AccessDenied")}, 1,
			"S3 answers 403 AccessDenied: what happened"},
		"expired": {[]func(http.ResponseWriter){answer(400, "ExpiredToken"), answer(200, "")}, 2, ""},
		"elsewhere": {
			[]func(http.ResponseWriter){answer(301, "PermanentRedirect", "Location", "http://127.0.0.1:1/",
				"X-Amz-Bucket-Region", "eu-west-1")},
			1, "the bucket is in region eu-west-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := answers(t, c.answers...)
			_, err := s.Put(t.Context(), one, 1, "n", "a/b", []byte("text"))
			if (err == nil) != (c.want == "") ||
				err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, job.ErrUnavailable)) ||
				*n != c.tries {
				t.Errorf("%v after %d requests", err, *n)
			}
		})
	}
}

// Only S3's own NoSuchKey means that the file does not exist. A 404 from anything else is an outage.
func TestS3AbsentIsSaid(t *testing.T) {
	for code, want := range map[string]error{"NoSuchKey": job.ErrNoArtifact, "NoSuchBucket": job.ErrUnavailable,
		"": job.ErrUnavailable} {
		s, _ := answers(t, answer(404, code))
		if _, err := s.Read(t.Context(), one, 1); !errors.Is(err, want) {
			t.Errorf("%q: %v", code, err)
		}
	}
}

// Files have the same keys as in earlier versions, with the attempt at the end.
func TestS3Layout(t *testing.T) {
	credentials(t, keys{id: "key", secret: "secret"})
	var got []string
	_, address := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got = append(
			got,
			r.Method,
			r.URL.Path,
			string(text),
			r.Header.Get("Content-Type"),
			r.Header.Get("X-Amz-Server-Side-Encryption"),
			r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"),
			r.Header.Get("Content-MD5"),
		)
		if !strings.Contains(r.Header.Get("Authorization"), "SignedHeaders=content-md5;") {
			t.Error("Content-MD5 is not signed")
		}
	}))
	put(t.Context(), t, open(t, address+"&ssetype=aws:kms&kmskeyid=k1"), one, "a.csv", "text/csv", []byte("a;b"))
	text := `{"name":"a.csv","contentType":"text/csv","size":3}` + "\na;b"
	sum := md5.Sum([]byte(text))
	want := []string{
		"PUT", "/files/made/d4/" + string(one) + ".1", text, "application/octet-stream", "aws:kms", "k1",
		base64.StdEncoding.EncodeToString(sum[:]),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}
