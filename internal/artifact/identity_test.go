package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// agents starts a server that hands out keys in all three ways: as a container's agent, as a machine's metadata
// service and as STS. Each answer's key has a different number.
func agents(t *testing.T, expires time.Time) (url string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		n := len(*asked)
		end := expires.UTC().Format(time.RFC3339)
		switch {
		case r.URL.Path == "/task" && r.Header.Get("Authorization") == "sesame":
			fmt.Fprintf(w, `{"AccessKeyId":"task%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`, n, end)
		case r.URL.Path == "/latest/api/token" && r.Method == "PUT" &&
			r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
			_, _ = io.WriteString(w, "meta")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") == "meta" && r.URL.Path == machineKeys:
			_, _ = io.WriteString(w, "my-role\n")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") == "meta" && r.URL.Path == machineKeys+"my-role":
			fmt.Fprintf(
				w,
				`{"Code":"Success","AccessKeyId":"machine%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`,
				n,
				end,
			)
		case r.URL.Query().Get("Action") == "AssumeRoleWithWebIdentity" && r.URL.Query().Get("WebIdentityToken") == "a.b.c" &&
			r.URL.Query().Get("RoleArn") == "arn:x":
			fmt.Fprintf(
				w,
				`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
				<AccessKeyId>web%d</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration>
				</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
				n,
				end,
			)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const sharedKeys = `
; a comment
[default]
aws_access_key_id = of-default # a remark
aws_secret_access_key=s=1
s3 =
  aws_access_key_id = nested
[ work ]
AWS_ACCESS_KEY_ID=of-work
aws_secret_access_key = s
aws_session_token = t
[half]
aws_access_key_id = x
`

func TestKeysAreFound(t *testing.T) {
	url, _ := agents(t, time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		profile string
		environ map[string]string
		want    string // the beginning of the key or, after !, a part of the error
	}{
		"nothing":             {"", nil, "!no credentials for S3"},
		"the environment":     {"", map[string]string{"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "s"}, "env"},
		"half an environment": {"", map[string]string{"AWS_ACCESS_KEY_ID": "env"}, "!no credentials"},
		"before the shared files": {"",
			map[string]string{"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "s",
				"AWS_SHARED_CREDENTIALS_FILE": file(t, sharedKeys)}, "env"},
		"a profile of the URL wins": {
			"work", map[string]string{"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "s",
				"AWS_SHARED_CREDENTIALS_FILE": file(t, sharedKeys)}, "of-work",
		},
		"the default profile": {"", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file(t, sharedKeys)}, "of-default"},
		"AWS_PROFILE": {"", map[string]string{"AWS_PROFILE": "work",
			"AWS_SHARED_CREDENTIALS_FILE": file(t, sharedKeys)}, "of-work"},
		"a profile of a config": {"", map[string]string{"AWS_PROFILE": "work",
			"AWS_CONFIG_FILE": file(t, strings.ReplaceAll(sharedKeys, "[ work ]", "[profile work]"))}, "of-work"},
		"half a profile": {"half", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file(t, sharedKeys)},
			`!profile "half"`},
		"a container": {
			"", map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/task",
				"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file(t, "sesame\n")}, "task",
		},
		"a container's agent refuses": {"",
			map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/task", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "x"},
			"!answers 403"},
		"a container's agent on the way": {"",
			map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/task"}, "!neither https://"},
		"a machine": {"",
			map[string]string{"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url}, "machine"},
		"a machine without a role": {"",
			map[string]string{"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url + "/x"},
			"!no credentials for S3"},
		"a web identity": {"",
			map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": file(t, "a.b.c\n"), "AWS_ROLE_ARN": "arn:x",
				"AWS_ENDPOINT_URL_STS": url}, "web"},
		"a web identity that is not taken": {"",
			map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": file(t, "d.e.f\n"), "AWS_ROLE_ARN": "arn:x",
				"AWS_ENDPOINT_URL_STS": url}, "!answers 403"},
	} {
		t.Run(name, func(t *testing.T) {
			credentials(t, keys{})
			for variable, value := range c.environ {
				t.Setenv(variable, value)
			}
			i := newIdentity(c.profile, "eu-central-1", newClient())
			defer i.client.CloseIdleConnections()
			k, err := i.keys(t.Context())
			if want, fails := strings.CutPrefix(c.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "d.e.f") {
					t.Errorf("%v, %v", k, err)
				}
			} else if err != nil || !strings.HasPrefix(k.id, want) || !strings.HasPrefix(k.secret, "s") {
				t.Errorf("%+v, %v", k, err)
			}
		})
	}
}

// Keys are requested once, and again before they expire. If that fails, the last keys serve while they are good.
func TestKeysAreRenewed(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	url, asked := agents(t, now.Add(time.Hour))
	credentials(t, keys{})
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url+"/task")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "sesame")
	i := newIdentity("", "", newClient())
	i.now = func() time.Time { return now }
	id := func() string {
		k, err := i.keys(t.Context())
		if err != nil {
			return err.Error()
		}
		return k.id
	}
	if a, b := id(), id(); a != "task1" || b != "task1" || len(*asked) != 1 {
		t.Errorf("%s, %s after %d", a, b, len(*asked))
	}
	now = now.Add(56 * time.Minute)
	if got := id(); got != "task2" {
		t.Errorf("five minutes before their end: %s", got)
	}
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "wrong")
	if got := id(); got != "task2" {
		t.Errorf("while they are good: %s", got)
	}
	now = now.Add(4 * time.Minute)
	if got := id(); !strings.Contains(got, "403") {
		t.Errorf("after their end: %s", got)
	}
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "sesame")
	now = now.Add(-time.Hour)
	was := id()
	i.forget(t.Context())
	if got := id(); got == was || !strings.HasPrefix(got, "task") {
		t.Errorf("%s after %s was forgotten", got, was)
	}
}

// proxied returns an identity whose HTTP client records the requested URLs instead of answering. Direct requests
// bypass this client.
func proxied(region string) (*identity, *[]string) {
	asked := &[]string{}
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		*asked = append(*asked, r.URL.Scheme+"://"+r.URL.Host)
		return nil, errors.New("no answer")
	})}
	return newIdentity("", region, client), asked
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Requests for keys without TLS, and for a machine's keys, never use a proxy.
func TestKeysPassNoProxy(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end() // so that no real request is made
	for address, want := range map[string]int{
		"http://169.254.170.2/task": 0, "http://169.254.170.23/task": 0, "http://[fd00:ec2::23]/task": 0,
		"http://localhost:1/task": 0, "https://agent.test/task": 1,
	} {
		credentials(t, keys{})
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", address)
		i, asked := proxied("x")
		if _, err := i.find(ended); err == nil || len(*asked) != want {
			t.Errorf("%s: %v, %v", address, *asked, err)
		}
	}
	for _, address := range []string{"", "http://[fd00:ec2::254]", "http://metadata.test"} {
		credentials(t, keys{})
		t.Setenv("AWS_EC2_METADATA_DISABLED", "")
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", address)
		i, asked := proxied("x")
		if _, err := i.find(ended); err == nil || len(*asked) != 0 {
			t.Errorf("%s: %v, %v", address, *asked, err)
		}
	}
}

// A region in China has its STS, like its S3, in another domain.
func TestWebIdentityAsksItsRegion(t *testing.T) {
	credentials(t, keys{})
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "a.b.c"))
	t.Setenv("AWS_ROLE_ARN", "arn:x")
	for region, want := range map[string]string{
		"eu-west-1": "https://sts.eu-west-1.amazonaws.com", "cn-north-1": "https://sts.cn-north-1.amazonaws.com.cn",
	} {
		i, asked := proxied(region)
		if _, err := i.find(t.Context()); err == nil || len(*asked) != 1 || (*asked)[0] != want {
			t.Errorf("%v, %v, want %s", *asked, err, want)
		}
	}
}
