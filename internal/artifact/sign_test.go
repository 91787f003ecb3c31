package artifact

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The signatures equal those of another implementation: the examples in Amazon's "Signature Calculations for the
// Authorization Header" (S3's API reference).
func TestSignaturesAreAmazons(t *testing.T) {
	k := keys{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		method, url, body string
		headers           map[string]string
		signed, want      string
	}{
		"get object": {
			"GET", "https://examplebucket.s3.amazonaws.com/test.txt", "", map[string]string{"Range": "bytes=0-9"},
			"host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
		},
		"put object": {
			"PUT", "https://examplebucket.s3.amazonaws.com/test$file.text", "Welcome to Amazon S3.",
			map[string]string{"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
			"date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
		},
		"get bucket lifecycle": {
			"GET", "https://examplebucket.s3.amazonaws.com?lifecycle", "", nil,
			"host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
		},
		"list objects": {
			"GET", "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J", "", nil,
			"host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(c.method, c.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
			k.sign(r, sha256.Sum256([]byte(c.body)), "us-east-1", at)
			want := "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=" +
				c.signed + ", Signature=" + c.want
			if got := r.Header.Get("Authorization"); got != want {
				t.Errorf("%s, want\n%s", got, want)
			}
		})
	}
}

// The signed request is the one that arrives: net/http changes neither the path nor the host nor a signed header.
func TestSignedIsWhatArrives(t *testing.T) {
	k := keys{id: "key", secret: "secret", token: "a token/of+a=role"}
	var authorized []string
	_, address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		covered, _, _ := strings.Cut(strings.SplitN(r.Header.Get("Authorization"), "SignedHeaders=", 2)[1], ",")
		for name := range r.Header {
			if name != "Authorization" && !strings.Contains(";"+covered+";", ";"+strings.ToLower(name)+";") {
				r.Header.Del(name) // headers that are not signed
			}
		}
		_, signature := k.signature(r, "eu-central-1")
		if !strings.HasSuffix(r.Header.Get("Authorization"), "Signature="+signature) ||
			r.Header.Get("X-Amz-Security-Token") != k.token {
			t.Errorf("%s %s is not signed as it arrives: %s", r.Method, r.URL, r.Header)
		}
		if sent, _, _ := strings.Cut(r.RequestURI, "?"); sent != canonicalPath(r.URL) {
			t.Errorf("%s is sent, %s is signed", sent, canonicalPath(r.URL))
		}
		authorized = append(authorized, r.Method)
		w.WriteHeader(http.StatusNoContent)
	}))
	credentials(t, k)
	s := open(
		t,
		strings.Replace(
			address,
			"prefix=made%2F",
			"prefix=m%C3%A4rz+%2B+%24%28x%29%2F&ssetype=aws:kms&kmskeyid=arn:aws:kms:x",
			1,
		),
	)
	put(t.Context(), t, s, one, "n", "a/b", []byte("text"))
	if err := s.bucket.delete(t.Context(), "d4/"+string(one)); err != nil {
		t.Error(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if got := strings.Join(authorized, " "); got != "PUT DELETE GET" {
		t.Error(got)
	}
}

func TestEscapes(t *testing.T) {
	if got := canonicalPath(&url.URL{Path: "/märz + $(x)*~/'a=b&c'"}); got != "/m%C3%A4rz%20%2B%20%24%28x%29%2A~/%27a%3Db%26c%27" {
		t.Error(got)
	}
	if got := canonicalQuery(url.Values{"prefix": {"a b/+"},
		"list-type": {"2"}}); got != "list-type=2&prefix=a%20b%2F%2B" {
		t.Error(got)
	}
}
