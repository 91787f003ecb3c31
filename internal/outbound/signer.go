package outbound

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Signer signs messages for the owner of the job that sends them. Each owner has a secret and a key pair, derived
// from a master secret that no receiver has. So a receiver that can verify one owner's messages cannot forge
// another owner's.
type Signer struct {
	// Masters are the secrets from which owners' keys are derived. There are several while one is being replaced, the
	// new one first. Without any, owners have no keys.
	Masters [][]byte
	// Shared signs every owner's messages, for receivers that got it before owners had keys.
	Shared [][]byte
	// Strangers means that jobs without an owner may come from strangers: Shared does not sign their messages.
	Strangers bool
}

// The prefixes of the names under which keys are derived from a master. The owner follows: the id of an API key,
// or "".
const (
	secretInfo = "tierq webhook v1 "
	pairInfo   = "tierq webhook v1a "
)

// ParseMasters reads TIERQ_WEBHOOK_MASTER: one master, or several separated by spaces. The error does not contain
// them.
func ParseMasters(text string) ([][]byte, error) {
	var all [][]byte
	for s := range strings.FieldsSeq(text) {
		encoded, prefixed := strings.CutPrefix(s, "whmaster_")
		master, err := base64.StdEncoding.DecodeString(encoded)
		if !prefixed || err != nil || len(master) < 32 || len(master) > 64 {
			return nil, errors.New("a webhook master is whmaster_ and the base64 of 32 to 64 bytes")
		}
		all = append(all, master)
	}
	return all, nil
}

// derive makes 32 bytes from a master and a name. No receiver can compute the master, or the bytes of another name,
// from them.
func derive(master []byte, name string) []byte {
	key, err := hkdf.Key(sha256.New, master, nil, name, 32)
	if err != nil {
		panic("outbound: " + err.Error()) // cannot happen: 32 bytes are within the limits of HKDF
	}
	return key
}

func secretOf(master []byte, owner string) []byte { return derive(master, secretInfo+owner) }

func pairOf(master []byte, owner string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(derive(master, pairInfo+owner))
}

// Keys returns the keys with which an owner's receivers verify messages, in the form of Standard Webhooks: a
// secret, whsec_, that can also sign, and a public key, whpk_, that cannot. They are derived from the first
// master; without a master both are "".
func (s *Signer) Keys(owner string) (secret, public string) {
	if len(s.Masters) == 0 {
		return "", ""
	}
	pair, _ := pairOf(s.Masters[0], owner).Public().(ed25519.PublicKey) // always of this type
	return "whsec_" + base64.StdEncoding.EncodeToString(secretOf(s.Masters[0], owner)),
		"whpk_" + base64.StdEncoding.EncodeToString(pair)
}

// sign sets the three headers of a message. Without a key it sets no signature.
func (s *Signer) sign(h http.Header, owner, id string, at time.Time, body []byte) {
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp(at))
	h.Del("Webhook-Signature")
	var signatures []string
	for _, master := range s.Masters {
		signatures = append(signatures, Sign(secretOf(master, owner), id, at, body))
	}
	if owner != "" || !s.Strangers {
		for _, secret := range s.Shared {
			signatures = append(signatures, Sign(secret, id, at, body))
		}
	}
	for _, master := range s.Masters {
		signature := ed25519.Sign(pairOf(master, owner), signed(id, at, body))
		signatures = append(signatures, "v1a,"+base64.StdEncoding.EncodeToString(signature))
	}
	if len(signatures) > 0 {
		h.Set("Webhook-Signature", strings.Join(signatures, " "))
	}
}
