package artifact

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// s3 keeps files in a bucket of S3 or of a server with the same API. It sends four kinds of signed requests: PUT,
// GET and DELETE of an object, and a list of the objects with a prefix, which also shows whether the bucket
// exists.
type s3 struct {
	base     *url.URL // of the bucket, without a final slash
	region   string
	prefix   string
	headers  http.Header // of a PUT: how the server encrypts
	identity *identity
	client   *http.Client
	now      func() time.Time // for signatures
	pause    time.Duration    // before the second try; the third waits twice as long
}

// tries is the number of attempts at a request that meets temporary faults.
const tries = 3

// maxAnswer limits the bytes read of an answer other than a file.
const maxAnswer = 64 << 10

// refusal is an S3 answer other than a success.
type refusal struct {
	status        int
	code, message string
	region        string // where the bucket is, if it is in another region
}

// Error names S3's code and message, or the status of an answer that is not S3's.
func (r *refusal) Error() string {
	text := fmt.Sprintf("S3 answers %d", r.status)
	if r.code != "" {
		text += " " + r.code
	}
	if r.message != "" {
		text += ": " + r.message
	}
	if r.region != "" {
		text += ", the bucket is in region " + r.region
	}
	return text
}

// passes reports whether the same request may succeed a moment later.
func (r *refusal) passes() bool {
	return r.status == http.StatusTooManyRequests || r.status == http.StatusRequestTimeout ||
		r.status >= 500 && r.status != http.StatusNotImplemented ||
		r.code == "RequestTimeout"
}

func (s *s3) check(ctx context.Context) error {
	answer, err := s.find(ctx, s.prefix, 1)
	if err != nil {
		return err
	}
	return drain(answer)
}

// listed is the most keys in one answer, so that the answer stays well below maxAnswer.
const listed = 50

func (s *s3) list(ctx context.Context, prefix string) (keys []string, more bool, err error) {
	answer, err := s.find(ctx, s.prefix+prefix, listed)
	if err != nil {
		return nil, false, err
	}
	defer answer.Body.Close()
	var said struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		IsTruncated bool
		Contents    []struct{ Key string }
	}
	if err := xml.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&said); err != nil {
		return nil, false, fmt.Errorf("read the list: %w", err)
	}
	for _, c := range said.Contents {
		key, ours := strings.CutPrefix(c.Key, s.prefix)
		if !ours || !strings.HasPrefix(key, prefix) {
			return nil, false, fmt.Errorf("read the list: it has %q, which does not begin as was asked", c.Key)
		}
		keys = append(keys, key)
	}
	return keys, said.IsTruncated && len(keys) > 0, nil
}

// find lists the first objects whose keys have this prefix.
func (s *s3) find(ctx context.Context, prefix string, most int) (*http.Response, error) {
	query := url.Values{"list-type": {"2"}, "max-keys": {strconv.Itoa(most)}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return s.do(ctx, http.MethodGet, "", query, nil, nil)
}

func (s *s3) put(ctx context.Context, key string, head, body []byte) error {
	whole := slices.Concat(head, body)
	headers := s.headers.Clone()
	headers.Set("Content-Type", "application/octet-stream")
	sum := md5.Sum(whole)
	headers.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:])) // Object Lock requires a checksum
	answer, err := s.do(ctx, http.MethodPut, key, nil, headers, whole)
	if err != nil {
		return err
	}
	return drain(answer)
}

func (s *s3) get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	answer, err := s.do(ctx, http.MethodGet, key, nil, nil, nil)
	if err != nil {
		if no, ok := errors.AsType[*refusal](err); ok && no.status == http.StatusNotFound && no.code == "NoSuchKey" {
			return nil, 0, errAbsent
		}
		return nil, 0, err
	}
	return answer.Body, answer.ContentLength, nil
}

func (s *s3) delete(ctx context.Context, key string) error {
	answer, err := s.do(ctx, http.MethodDelete, key, nil, nil, nil)
	if no, ok := errors.AsType[*refusal](err); ok && no.status == http.StatusNotFound && no.code == "NoSuchKey" {
		return nil
	}
	if err != nil {
		return err
	}
	return drain(answer)
}

func (s *s3) close() error {
	s.client.CloseIdleConnections()
	return nil
}

// do sends a request until it succeeds, fails permanently, or was tried three times. The caller must close the
// answer's body.
func (s *s3) do(
	ctx context.Context,
	method, key string,
	query url.Values,
	headers http.Header,
	body []byte,
) (*http.Response, error) {
	pause := s.pause
	for try := 1; ; try++ {
		answer, err := s.once(ctx, method, key, query, headers, body)
		if err == nil {
			return answer, nil
		}
		no, answered := errors.AsType[*refusal](err)
		if answered && (no.code == "ExpiredToken" || no.code == "ExpiredTokenException") {
			s.identity.forget(ctx)
		} else if answered && !no.passes() {
			return nil, err
		}
		if try == tries || ctx.Err() != nil {
			return nil, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
		pause *= 2
	}
}

func (s *s3) once(
	ctx context.Context,
	method, key string,
	query url.Values,
	headers http.Header,
	body []byte,
) (*http.Response, error) {
	k, err := s.identity.keys(ctx)
	if err != nil {
		return nil, err
	}
	u := *s.base
	u.Path += "/"
	if key != "" {
		u.Path += s.prefix + key
	}
	u.RawPath = canonicalPath(&u) // the sent path must be the signed one
	u.RawQuery = canonicalQuery(query)
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if headers != nil {
		r.Header = headers.Clone()
	}
	k.sign(r, sha256.Sum256(body), s.region, s.now())
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	return nil, refused(answer)
}

// refused reads the error in an answer of S3.
func refused(answer *http.Response) error {
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	var said struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}
	no := &refusal{status: answer.StatusCode}
	if xml.Unmarshal(text, &said) == nil {
		no.code, no.message = said.Code, said.Message
	}
	if answer.StatusCode/100 == 3 || no.code == "AuthorizationHeaderMalformed" ||
		no.code == "IllegalLocationConstraintException" {
		no.region = answer.Header.Get("X-Amz-Bucket-Region")
	}
	return no
}

// drain reads the rest of an unneeded answer, so that its connection can be used again.
func drain(answer *http.Response) error {
	defer answer.Body.Close()
	_, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	return err
}

var hostLabel = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// bucketURL returns the URL of a bucket. The bucket is a host of its own, or the first part of the path: if
// pathStyle asks for that, or if the bucket's name or the endpoint does not allow such a host.
func bucketURL(endpoint, region, bucket string, pathStyle bool) (*url.URL, error) {
	if endpoint == "" {
		endpoint = "https://s3." + region + "." + domainOf(region)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("open artifact store: endpoint is a URL like https://host:9000, without credentials")
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), ""
	_, isIP := netip.ParseAddr(u.Hostname())
	if pathStyle || isIP == nil || !hostLabel.MatchString(bucket) {
		u.Path += "/" + bucket
	} else {
		u.Host = bucket + "." + u.Host
	}
	return u, nil
}

// domainOf returns the domain of a region's services.
func domainOf(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// newClient returns an HTTP client for one store. It follows no redirect, because a signature is valid for one
// host only.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			IdleConnTimeout:       90 * time.Second,
			MaxIdleConnsPerHost:   16,
			ForceAttemptHTTP2:     true,
			DisableCompression:    true, // the answer's size must be the file's
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
