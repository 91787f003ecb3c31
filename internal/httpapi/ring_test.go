package httpapi

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	knownKey = "k234567k234567ab"
	keyText  = "tq_" + knownKey + "_Zm9yIHRlc3RzIG9ubHkgYW5kIG5vdGhpbmcgZWxzZSE"
)

// ring makes keys, and records the requests for them.
type ring struct {
	keys  []job.Key
	err   error
	asked []job.Key
	grace time.Duration
	ended []string
}

func (r *ring) Keys(context.Context) ([]job.Key, error) { return r.keys, r.err }

func (r *ring) CreateKey(_ context.Context, k job.Key) (job.Key, string, error) {
	r.asked = append(r.asked, k)
	k.ID, k.CreatedAt = knownKey, aMoment
	return k, keyText, r.err
}

func (r *ring) RotateKey(_ context.Context, id string, grace time.Duration) (job.Key, string, error) {
	r.grace = grace
	return job.Key{ID: id, Name: "ci", Role: job.RoleSubmit, CreatedAt: aMoment, RotatedAt: aMoment}, keyText, r.err
}

func (r *ring) RevokeKey(_ context.Context, id string) (job.Key, error) {
	r.ended = append(r.ended, id)
	return job.Key{ID: id, Name: "ci", Role: job.RoleSubmit, CreatedAt: aMoment, RevokedAt: aMoment}, r.err
}

// gatewayRing has a password for every key, and records for which ones it was asked.
type gatewayRing struct {
	err   error
	asked []string
}

const gatewayPassword = "Zm9yIHRlc3RzIG9ubHkgYW5kIG5vdGhpbmcgZWxzZSE"

func (g *gatewayRing) GatewayPassword(_ context.Context, keyID string) (string, error) {
	g.asked = append(g.asked, keyID)
	return gatewayPassword, g.err
}

func (g *gatewayRing) OwnGatewayPassword(authorization []string) (string, error) {
	g.asked = append(g.asked, authorization...)
	return gatewayPassword, g.err
}

// changeLog records changes in memory.
type changeLog struct {
	changes []job.Change
	next    string
	err     error
	cursor  string
	limit   int
}

func (l *changeLog) Record(c job.Change) {
	c.ID = int64(len(l.changes) + 1)
	l.changes = append(l.changes, c)
}

func (l *changeLog) Changes(_ context.Context, cursor string, limit int) ([]job.Change, string, error) {
	l.cursor, l.limit = cursor, limit
	return l.changes, l.next, l.err
}
