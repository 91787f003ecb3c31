package artifact

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// The addresses where containers and machines of AWS get their role's keys.
const (
	containerHost = "http://169.254.170.2"
	machineHost   = "http://169.254.169.254"
	machineKeys   = "/latest/meta-data/iam/security-credentials/"
	machineWait   = 2 * time.Second // outside AWS no server answers
)

// handedOut is the answer with keys that containers and machines get.
type handedOut struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	Token           string
	Expiration      time.Time
	Code            string
}

func (h handedOut) keys() (keys, error) {
	if h.AccessKeyID == "" || h.SecretAccessKey == "" || h.Code != "" && h.Code != "Success" {
		return keys{}, errors.New("the role's answer has no keys")
	}
	return keys{id: h.AccessKeyID, secret: h.SecretAccessKey, token: h.Token, expires: h.Expiration}, nil
}

// ofContainer gets keys from the container's agent (ECS, EKS pod identity).
func (i *identity) ofContainer(ctx context.Context) (keys, error) {
	address := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if relative := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); relative != "" {
		address = containerHost + relative
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && !localAgent(u.Hostname()) {
		return keys{}, errors.New(
			"AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor an address of this machine",
		)
	}
	client := i.client
	if u.Scheme != "https" {
		client = direct // a proxy could read the keys
	}
	headers := http.Header{}
	if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return keys{}, fmt.Errorf("the container's token: %w", err)
		}
		headers.Set("Authorization", strings.TrimSpace(string(text)))
	} else if token := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"); token != "" {
		headers.Set("Authorization", token)
	}
	text, err := ask(ctx, client, http.MethodGet, address, headers)
	if err != nil {
		return keys{}, fmt.Errorf("the container's role: %w", err)
	}
	var h handedOut
	if err := json.Unmarshal(text, &h); err != nil {
		return keys{}, errors.New("the container's role: its answer is not JSON")
	}
	return h.keys()
}

// localAgent reports whether keys may be fetched from a host without TLS.
func localAgent(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil &&
		(ip.IsLoopback() || ip == netip.MustParseAddr("169.254.170.2") || ip == netip.MustParseAddr("169.254.170.23") ||
			ip == netip.MustParseAddr("fd00:ec2::23"))
}

// ofMachine gets keys from the machine's metadata service, version 2, which first hands out a token.
func ofMachine(ctx context.Context) (keys, error) {
	ctx, cancel := context.WithTimeout(ctx, machineWait)
	defer cancel()
	host := machineHost
	if end := os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"); end != "" {
		host = strings.TrimSuffix(end, "/")
	}
	token, err := ask(ctx, direct, http.MethodPut, host+"/latest/api/token",
		http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"300"}})
	if err != nil {
		return keys{}, fmt.Errorf("the machine's role: %w", err)
	}
	headers := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
	role, err := ask(ctx, direct, http.MethodGet, host+machineKeys, headers)
	if err != nil {
		return keys{}, fmt.Errorf("the machine's role: %w", err)
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(role)), "\n")
	text, err := ask(ctx, direct, http.MethodGet, host+machineKeys+url.PathEscape(name), headers)
	if err != nil {
		return keys{}, fmt.Errorf("the machine's role: %w", err)
	}
	var h handedOut
	if err := json.Unmarshal(text, &h); err != nil {
		return keys{}, errors.New("the machine's role: its answer is not JSON")
	}
	return h.keys()
}

// ofWebIdentity exchanges a token of another issuer (EKS) for a role's keys.
func (i *identity) ofWebIdentity(ctx context.Context) (keys, error) {
	token, err := os.ReadFile(os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"))
	if err != nil {
		return keys{}, fmt.Errorf("the web identity: %w", err)
	}
	end := os.Getenv("AWS_ENDPOINT_URL_STS")
	if end == "" {
		end = "https://sts." + i.region + "." + domainOf(i.region)
	}
	session := os.Getenv("AWS_ROLE_SESSION_NAME")
	if session == "" {
		session = "tierq"
	}
	query := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {os.Getenv("AWS_ROLE_ARN")},
		"RoleSessionName": {session}, "WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	text, err := ask(ctx, i.client, http.MethodPost, strings.TrimSuffix(end, "/")+"/?"+query.Encode(), nil)
	if err != nil {
		return keys{}, fmt.Errorf("the web identity: %w", err)
	}
	var said struct {
		Credentials struct {
			AccessKeyID     string `xml:"AccessKeyId"`
			SecretAccessKey string
			SessionToken    string
			Expiration      time.Time
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(text, &said); err != nil {
		return keys{}, errors.New("the web identity: the answer is not XML")
	}
	c := said.Credentials
	return handedOut{
		AccessKeyID:     c.AccessKeyID,
		SecretAccessKey: c.SecretAccessKey,
		Token:           c.SessionToken,
		Expiration:      c.Expiration,
	}.keys()
}

// ask makes one request and returns the answer's text. Its error contains neither the query nor the text, because
// both may be secret.
func ask(ctx context.Context, client *http.Client, method, address string, headers http.Header) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, errors.New("its address is no URL")
	}
	if headers != nil {
		r.Header = headers
	}
	answer, err := client.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", r.URL.Host, answer.StatusCode)
	}
	return text, nil
}

// direct is the client for services beside this process; it uses no proxy.
var direct = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{Timeout: machineWait}).DialContext,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
