package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// checkClaim checks what a claim asks for, and binds a claim that names no tiers to those of its key. It declares the
// missing queues that the caller may declare, after it has checked that the key allows the whole claim.
func (a *api) checkClaim(c *gin.Context, asked *claimAsked) error {
	switch {
	case asked.Worker == "":
		return invalid("worker", "is missing")
	case len(asked.Queues) == 0:
		return invalid("queues", "is missing: the names of 1 to "+strconv.Itoa(maxClaimQueues)+" queues")
	}
	if asked.ID == "" {
		id := make([]byte, 12)
		_, _ = rand.Read(id) // never fails, says crypto/rand
		asked.ID = hex.EncodeToString(id)
	}
	caller := callerOf(c)
	if err := mayClaim(caller, asked); err != nil {
		return err
	}
	if len(asked.Tiers) == 0 {
		asked.Tiers = slices.Clone(caller.FetchTiers())
		asked.keyTiers = len(asked.Tiers) > 0
	}
	for _, name := range asked.Queues {
		if _, known := a.Queues.Find(name); known {
			continue
		}
		if !caller.MayDeclare(name) {
			return a.noQueue(unknownQueue, fieldError{"queues", "there is no queue " + shorten(name)})
		}
		if err := a.declareByClaim(c, name); err != nil {
			return err
		}
	}
	return nil
}

// mayClaim returns an error if the caller's key is bound to other queues or tiers than those that the claim names.
func mayClaim(caller *job.Caller, asked *claimAsked) error {
	for _, name := range asked.Queues {
		if !caller.MayFetch(name) {
			return &problem{kind: forbidden, detail: "this key may claim jobs of the queues " + list(caller.Key.Queues) +
				" only"}
		}
	}
	for _, tier := range asked.Tiers {
		if tiers := caller.FetchTiers(); len(tiers) > 0 && !slices.Contains(tiers, tier) {
			return &problem{kind: forbidden, detail: "this key may claim jobs of the tiers " + list(tiers) + " only"}
		}
	}
	return nil
}

// declareByClaim declares a queue that a claim names. The log of changes gets an entry if the queue was declared, or
// may have been. A claim that is refused is repeated each second, and gets no entry.
func (a *api) declareByClaim(c *gin.Context, name string) error {
	stored, err := a.Queues.StoreQueue(c.Request.Context(), job.Queue{Name: name}, 0)
	switch {
	case errors.Is(err, job.ErrChanged): // another claim has declared the queue
		return nil
	case err == nil, errors.Is(err, job.ErrAmbiguous):
		a.queueChanged(c, "queue.put", name, job.Queue{}, false, &stored, err)
	}
	return badQueue(err)
}

// badTiers returns the answer to a claim whose tiers cannot be claimed together. If the tiers are those of the
// caller's key, the answer says that the claim has to name some of them.
func (a *claimAsked) badTiers(err error) error {
	why := told(err, job.ErrBadTiers)
	if a.keyTiers {
		why = "must name some of this key's tiers, " + list(a.Tiers) + ": " + why
	}
	return invalid("tiers", why)
}
