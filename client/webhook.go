package client

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrBadSignature means that none of a verifier's keys signed the message in its present form within the last
// minutes.
var ErrBadSignature = errors.New("the message is not signed by a key of this receiver")

// WebhookKeys are the keys with which an API key's receivers verify its webhooks and callbacks. The secret can
// also sign: give it only to receivers that you trust not to forge messages, and the public key to all others.
type WebhookKeys struct {
	Secret    string `json:"secret"`    // whsec_...
	PublicKey string `json:"publicKey"` // whpk_...
}

// WebhookVerifier checks the signatures of messages. It is safe for concurrent use.
type WebhookVerifier struct {
	secrets [][]byte
	keys    []ed25519.PublicKey
	now     func() time.Time
}

// NewWebhookVerifier takes the keys that /api/me shows: secrets (whsec_...) or public keys (whpk_...). Several are
// for receivers of several API keys, and for the time in which a key is replaced: a signature by one of them is
// enough. The error does not contain the keys.
func NewWebhookVerifier(keys ...string) (*WebhookVerifier, error) {
	v := &WebhookVerifier{now: time.Now}
	for _, text := range keys {
		secret, isSecret := strings.CutPrefix(text, "whsec_")
		public, isPublic := strings.CutPrefix(text, "whpk_")
		var raw []byte
		var err error
		switch {
		case isSecret:
			raw, err = base64.StdEncoding.DecodeString(secret)
			v.secrets = append(v.secrets, raw)
		case isPublic:
			raw, err = base64.StdEncoding.DecodeString(public)
			v.keys = append(v.keys, raw)
		}
		short := isSecret && len(raw) < 24 || isPublic && len(raw) != ed25519.PublicKeySize
		if err != nil || short || !isSecret && !isPublic {
			return nil, errors.New("a key of webhooks is whsec_ or whpk_, and base64")
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no key to verify webhooks with")
	}
	return v, nil
}

// webhookAge is the largest difference between a message's time and this machine's clock.
const webhookAge = 5 * time.Minute

// Verify returns a message's id, or ErrBadSignature. body is the request's body, unchanged. A message may arrive
// twice: remember its id, which is the same at each try.
func (v *WebhookVerifier) Verify(h http.Header, body []byte) (id string, err error) {
	id, stamp := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" || v.now().Sub(time.Unix(seconds, 0)).Abs() > webhookAge {
		return "", ErrBadSignature
	}
	signed := append([]byte(id+"."+stamp+"."), body...)
	for one := range strings.FieldsSeq(strings.Join(h.Values("Webhook-Signature"), " ")) {
		version, text, _ := strings.Cut(one, ",")
		signature, err := base64.StdEncoding.DecodeString(text)
		if err == nil && v.signs(version, signed, signature) {
			return id, nil
		}
	}
	return "", ErrBadSignature
}

// signs reports whether a key of the verifier made this signature. version is the signature's kind: v1 or v1a.
func (v *WebhookVerifier) signs(version string, signed, signature []byte) bool {
	switch version {
	case "v1":
		return slices.ContainsFunc(v.secrets, func(secret []byte) bool {
			mac := hmac.New(sha256.New, secret)
			mac.Write(signed)
			return hmac.Equal(mac.Sum(nil), signature)
		})
	case "v1a":
		return slices.ContainsFunc(v.keys, func(key ed25519.PublicKey) bool {
			return ed25519.Verify(key, signed,
				signature)
		})
	}
	return false
}

// JobEnded is the body that a job's callback URL receives when the job has ended.
type JobEnded struct {
	Type      string    `json:"type"` // job.completed, job.failed or job.expired
	Timestamp time.Time `json:"timestamp"`
	Data      EndedJob  `json:"data"`
}

// EndedJob is the job of an event. Absent times are the zero time, absent texts empty.
type EndedJob struct {
	JobID        string          `json:"jobId"`
	Generation   int             `json:"generation"` // a requeued job that ends again is another event
	Owner        string          `json:"owner"`      // the id of the API key that submitted it; "" = none
	Status       Status          `json:"status"`
	Tier         Tier            `json:"tier"`
	Type         string          `json:"type"`
	RetryCount   int             `json:"retryCount"`
	MaxRetries   int             `json:"maxRetries"`
	ArrivedAt    time.Time       `json:"arrivedAt"`
	CompletedAt  time.Time       `json:"completedAt"`
	FailedAt     time.Time       `json:"failedAt"`
	Result       json.RawMessage `json:"result"`
	FailureCause string          `json:"failureCause"`
	LastError    string          `json:"lastError"`
	TraceID      string          `json:"traceId"`
}

// JobEnded verifies and decodes a callback. It returns ErrBadSignature if the message's id does not match the
// event: a SEND_WEBHOOK job can get any body signed, but under another id.
func (v *WebhookVerifier) JobEnded(h http.Header, body []byte) (JobEnded, error) {
	id, err := v.Verify(h, body)
	if err != nil {
		return JobEnded{}, err
	}
	var e JobEnded
	if err := json.Unmarshal(body, &e); err != nil {
		return JobEnded{}, fmt.Errorf("read event: %w", err)
	}
	if id != fmt.Sprintf("%s_%d", e.Data.JobID, e.Data.Generation) {
		return JobEnded{}, ErrBadSignature
	}
	return e, nil
}
