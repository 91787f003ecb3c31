package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// keyBody is an API key on the wire. Key is the text that callers send: only the answer to the request that made or
// rotated the key has it. The same holds for Webhook, which the key's holder can also read at /api/me.
type keyBody struct {
	Key        string     `json:"key,omitzero"`
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Role       job.Role   `json:"role"`
	Tiers      []job.Tier `json:"tiers"`  // empty = all
	Types      []string   `json:"types"`  // empty = all
	Queues     []string   `json:"queues"` // of a worker's key; empty = all
	Submits    bool       `json:"submits,omitzero"`
	Leases     int        `json:"leases,omitzero"`
	Rate       float64    `json:"rate"` // 0 = unlimited, as for the next two
	Burst      int        `json:"burst"`
	InFlight   int        `json:"inFlight"`
	CreatedAt  *string    `json:"createdAt"`
	CreatedBy  *string    `json:"createdBy"`
	RotatedAt  *string    `json:"rotatedAt"`
	ExpiresAt  *string    `json:"expiresAt"`
	RevokedAt  *string    `json:"revokedAt"`
	LastUsedAt *string    `json:"lastUsedAt"`

	Webhook *webhookBody `json:"webhook,omitempty"`
}

func keyOf(k *job.Key) keyBody {
	return keyBody{
		ID: k.ID, Name: k.Name, Role: k.Role,
		Tiers: append([]job.Tier{}, k.Tiers...), Types: append([]string{}, k.Types...),
		Queues: append([]string{}, k.Queues...), Submits: k.Submits, Leases: k.Leases, Rate: k.Rate,
		Burst: k.Burst, InFlight: k.InFlight,
		CreatedAt: when(k.CreatedAt), CreatedBy: orNull(k.CreatedBy), RotatedAt: when(k.RotatedAt),
		ExpiresAt: when(k.ExpiresAt), RevokedAt: when(k.RevokedAt), LastUsedAt: when(k.LastUsedAt),
	}
}

// keys serves GET /admin/keys: all keys, also revoked ones, in the order in which they were made.
func (a *api) keys(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	var keys []job.Key
	if a.Keys != nil {
		var err error
		if keys, err = a.Keys.Keys(c.Request.Context()); err != nil {
			return err
		}
	}
	body := struct {
		Items []keyBody `json:"items"`
	}{make([]keyBody, len(keys))}
	for i := range keys {
		body.Items[i] = keyOf(&keys[i])
	}
	return write(c, http.StatusOK, &body)
}

// createKey serves POST /admin/keys. The first key closes an open server, so it must be an admin's, who can make
// others.
func (a *api) createKey(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	if a.Keys == nil {
		return &problem{kind: forbidden, detail: "this server has no store for API keys"}
	}
	body, err := a.readBody(c)
	if err != nil {
		return err
	}
	k, err := a.keyFor(body)
	if err != nil {
		return err
	}
	if k.Role != job.RoleAdmin && a.open() {
		return &problem{kind: needsAdmin,
			detail: "the first key must have the role admin: it closes the server, and only an admin key makes further keys"}
	}
	k.CreatedBy = callerOf(c).Owner()
	made, text, err := a.Keys.CreateKey(c.Request.Context(), k)
	if err != nil {
		made = k
	}
	shown := keyOf(&made)
	a.changed(c, "key.create", made.ID, nil, &shown, err)
	if err != nil {
		return keyError(inDoubt(err, "The key may or may not have been made, and its text is lost: list the keys, revoke "+
			"this one if it is listed, and make another."))
	}
	shown.Key, shown.Webhook = text, a.webhookOf(&job.Caller{Key: made})
	return write(c, http.StatusCreated, &shown)
}

// rotateKey serves POST /admin/keys/{id}/rotate: it gives the key another secret. The key keeps its id and its jobs.
func (a *api) rotateKey(c *gin.Context) error {
	id, err := a.keyNamed(c)
	if err != nil {
		return err
	}
	asked := graceAsked{dayOfGrace}
	if err := readOptional(a, c, &rotateShape, &asked); err != nil {
		return err
	}
	k, text, err := a.Keys.RotateKey(c.Request.Context(), id, asked.grace)
	a.changed(c, "key.rotate", id, nil, &struct {
		GraceSeconds int64 `json:"graceSeconds"`
	}{int64(asked.grace / time.Second)}, err)
	if err != nil {
		return keyError(inDoubt(err, "The key may or may not have a new secret, and the text of that is lost: rotatedAt of "+
			"the key tells. Your present secret stays valid for the grace period, unless you rotate the key again before "+
			"that ends."))
	}
	shown := keyOf(&k)
	shown.Key, shown.Webhook = text, a.webhookOf(&job.Caller{Key: k})
	return write(c, http.StatusOK, &shown)
}

// revokeKey serves DELETE /admin/keys/{id}: it revokes the key for good. A repeat gets the same answer.
func (a *api) revokeKey(c *gin.Context) error {
	id, err := a.keyNamed(c)
	if err != nil {
		return err
	}
	if err := a.noBody(c); err != nil {
		return err
	}
	k, err := a.Keys.RevokeKey(c.Request.Context(), id)
	shown := keyOf(&k)
	if err != nil {
		shown = keyBody{ID: id}
	}
	a.changed(c, "key.revoke", id, nil, &shown, err)
	if err != nil {
		return keyError(inDoubt(err, "The key may or may not have been revoked: send this again, the answer is the same."))
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return nil
}

// keyError turns job.ErrBadPayload into an INVALID_REQUEST that names the wrong fields. Other errors are returned
// as they are.
func keyError(err error) error {
	if !errors.Is(err, job.ErrBadPayload) {
		return err
	}
	return refuseFields(payloadFields(err))
}
