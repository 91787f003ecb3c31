package artifact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Names of AWS Signature Version 4.
const (
	algorithm  = "AWS4-HMAC-SHA256"
	signDate   = "20060102T150405Z"
	bodyHeader = "X-Amz-Content-Sha256"
	dateHeader = "X-Amz-Date"
	tokenName  = "X-Amz-Security-Token"
)

// keys sign a request. With a zero expires they do not expire.
type keys struct {
	id, secret, token string
	expires           time.Time
}

// sign adds a Signature Version 4 for S3 to a request. The signature covers the host and all headers present. body
// is the SHA-256 of the request's body.
func (k keys) sign(r *http.Request, body [sha256.Size]byte, region string, now time.Time) {
	r.Header.Set(bodyHeader, hex.EncodeToString(body[:]))
	r.Header.Set(dateHeader, now.UTC().Format(signDate))
	if k.token != "" {
		r.Header.Set(tokenName, k.token)
	}
	signed, signature := k.signature(r, region)
	r.Header.Set(
		"Authorization",
		algorithm+" Credential="+k.id+"/"+scope(r, region)+", SignedHeaders="+signed+", Signature="+signature,
	)
}

// signature returns the signature of a request, and the list of headers that it covers. The request must already
// have its date and its body's hash.
func (k keys) signature(r *http.Request, region string) (signed, signature string) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	values := map[string]string{"host": host}
	for name, v := range r.Header {
		if name != "Authorization" {
			values[strings.ToLower(name)] = strings.Join(strings.Fields(strings.Join(v, ",")), " ")
		}
	}
	names := slices.Sorted(maps.Keys(values))
	signed = strings.Join(names, ";")
	var lines strings.Builder
	for _, name := range names {
		lines.WriteString(name + ":" + values[name] + "\n")
	}
	canonical := strings.Join([]string{
		r.Method, canonicalPath(r.URL), canonicalQuery(r.URL.Query()), lines.String(), signed, r.Header.Get(bodyHeader),
	}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	text := strings.Join(
		[]string{algorithm, r.Header.Get(dateHeader), scope(r, region), hex.EncodeToString(sum[:])},
		"\n",
	)
	key := []byte("AWS4" + k.secret)
	for part := range strings.SplitSeq(scope(r, region), "/") {
		key = mac(key, part)
	}
	return signed, hex.EncodeToString(mac(key, text))
}

// scope returns the scope of a signing key: a day, a region, S3.
func scope(r *http.Request, region string) string {
	day, _, _ := strings.Cut(r.Header.Get(dateHeader), "T")
	return day + "/" + region + "/s3/aws4_request"
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonicalPath returns the path in the form that S3 signs: each byte escaped once, slashes unescaped.
func canonicalPath(u *url.URL) string {
	if u.Path == "" {
		return "/"
	}
	return strings.ReplaceAll(escape(u.Path), "%2F", "/")
}

func canonicalQuery(q url.Values) string {
	var pairs []string
	for name, values := range q {
		for _, v := range values {
			pairs = append(pairs, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// escape escapes according to RFC 3986: everything but letters, digits and -._~ becomes %XX.
func escape(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}
