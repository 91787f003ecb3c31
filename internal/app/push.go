package app

import (
	"slices"

	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/push"
)

// wirePush makes the part that posts the jobs of queues that push.
func (v *server) wirePush() {
	v.push = push.New(push.Config{
		Leases: v.leasing, Queues: v.queueBook.All, Open: v.keyring.Open,
		Post:   handlers.NewPusher(sender{v.outgoing.calls}, v.config.ResultLimit).Push,
		Worker: v.nonce, DrainTimeout: v.config.DrainTimeout, Log: v.log, Around: v.around(),
	})
}

// serves returns the queues whose jobs this process runs: those of TIERQ_QUEUES, and those that push.
func (v *server) serves() []string {
	names := slices.Clone(v.config.Serves())
	for _, q := range v.queueBook.All() {
		if q.Push.On() && !slices.Contains(names, q.Name) {
			names = append(names, q.Name)
		}
	}
	return names
}
