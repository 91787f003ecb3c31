package httpapi

import (
	"context"
	"slices"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// pushBody is where a queue's jobs are posted, on the wire.
type pushBody struct {
	URL          string  `json:"url"`
	Permanent4xx bool    `json:"permanent4xx"`
	Concurrency  int     `json:"concurrency"`
	Key          *string `json:"key"` // null: a receiver may not answer 202 on a server with keys
	// Webhook has what the receiver verifies the posts with; only admins see it.
	Webhook *webhookBody `json:"webhook,omitempty"`
}

// pushOf returns a Push on the wire; nil = the queue's jobs are not posted.
func pushOf(p job.Push) *pushBody {
	if !p.On() {
		return nil
	}
	return &pushBody{URL: p.URL, Permanent4xx: p.Permanent4xx, Concurrency: p.AtOnce(), Key: orNull(p.Key)}
}

// queueShown returns a queue for a caller: an admin also sees what receivers of its posts verify with, and a caller
// who may only read sees no more of the URL than scheme and host.
func (a *api) queueShown(c *gin.Context, q job.Queue) queueBody {
	b := a.queueOf(q)
	switch {
	case b.Push == nil:
	case !callerOf(c).Admin():
		b.Push.URL = originOf(b.Push.URL)
	case a.WebhookKeys != nil:
		if secret, public := a.WebhookKeys(job.PushOwner(q.Name)); secret != "" {
			b.Push.Webhook = &webhookBody{secret, public}
		}
	}
	return b
}

// changesShown hides the addresses in a change from a caller who may only read, as queueShown does.
func changesShown(c *gin.Context, text jsontext.Value) jsontext.Value {
	if callerOf(c).Admin() || len(text) == 0 {
		return text
	}
	return jsontext.Value(originsOnly(text))
}

var pushShape = shape[job.Push]{members: map[string]member[job.Push]{
	"url": func(p *job.Push, v jsontext.Value) error {
		if p.URL = text(v); p.URL == "" {
			return reason("must be a URL")
		}
		return nil
	},
	"permanent4xx": func(p *job.Push, v jsontext.Value) (err error) { p.Permanent4xx, err = truth(v); return err },
	"concurrency": func(p *job.Push, v jsontext.Value) (err error) {
		p.Concurrency, err = wholeNumber(v, 1, job.MaxPushConcurrency)
		return err
	},
	"key": func(p *job.Push, v jsontext.Value) error {
		if p.Key = text(v); p.Key == "" {
			return reason("must be the id of an API key")
		}
		return nil
	},
}}

// readPush reads where a queue's jobs are posted.
func readPush(v jsontext.Value, p *job.Push) error {
	if err := pushShape.readObject(v, p); err != nil {
		return err
	}
	if !p.On() {
		return refuseFields([]fieldError{{"url", "is missing"}})
	}
	return nil
}

// checkPush checks where a queue's jobs are to be posted: the server must be willing to call the URL, and the key must
// be one with which a receiver can report.
func (a *api) checkPush(ctx context.Context, p job.Push) error {
	switch {
	case !p.On():
		return nil
	case a.CheckURL == nil:
		return invalid("push", "is not offered here")
	}
	if err := a.CheckURL(p.URL); err != nil {
		return invalid("push.url", err.Error())
	}
	if p.Key == "" {
		return nil
	}
	keys, err := a.Keys.Keys(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(keys, func(k job.Key) bool { return k.ID == p.Key })
	if at < 0 || keys[at].Role != job.RoleWorker || keys[at].Dead(a.Now()) {
		return invalid("push.key", "must be the id of an API key with the role worker that is valid")
	}
	return nil
}
