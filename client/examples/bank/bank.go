package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tierq/tierq/client"
)

// The reasons for which the bank refuses a transfer.
var (
	errNoAccount = errors.New("there is no such account")
	errNoMoney   = errors.New("there is not enough money on the account")
	errOther     = errors.New("this transfer id belongs to another transfer")
)

// submitter is the part of the client that the bank needs.
type submitter interface {
	Submit(ctx context.Context, tier client.Tier, typ string, payload any, opts ...client.SubmitOption) (string, error)
}

type account struct {
	email string
	cents int64
}

// order is a customer's request. The customer chooses the id: an order with the same id is the same transfer.
type order struct {
	ID    string `json:"transferId"`
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// transfer is an order that was carried out. An empty JobID means that its mail has not been submitted yet.
type transfer struct {
	order
	JobID string `json:"jobId"`
}

// bank keeps accounts in memory. The sum of all accounts never changes.
type bank struct {
	jobs submitter
	tier client.Tier

	mu        sync.Mutex
	accounts  map[string]*account
	transfers map[string]*transfer
}

func newBank(jobs submitter, tier client.Tier, accounts map[string]*account) *bank {
	return &bank{jobs: jobs, tier: tier, accounts: accounts, transfers: map[string]*transfer{}}
}

// transfer moves the money, once per id, and then submits the mail about it. If the mail cannot be submitted now,
// the transfer stands, and notifyAll submits the mail later. again means that the transfer had been made before.
func (b *bank) transfer(ctx context.Context, o order) (t transfer, again bool, err error) {
	if again, err = b.move(o); err != nil {
		return transfer{}, false, err
	}
	err = b.notify(ctx, o.ID)
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.transfers[o.ID], again, err
}

// move carries an order out; again means that this had been done before.
func (b *bank) move(o order) (again bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.transfers[o.ID]; old != nil {
		if old.order != o {
			return false, errOther
		}
		return true, nil
	}
	from, to := b.accounts[o.From], b.accounts[o.To]
	switch {
	case from == nil || to == nil:
		return false, errNoAccount
	case from.cents < o.Cents:
		return false, errNoMoney
	}
	from.cents -= o.Cents
	to.cents += o.Cents
	b.transfers[o.ID] = &transfer{order: o}
	return false, nil
}

// errMail means that the transfer was made and its mail is not submitted yet.
var errMail = errors.New("the mail will be sent later")

// notify submits the mail about a transfer, unless this has been done. The idempotency key makes it one mail,
// however often notify runs.
func (b *bank) notify(ctx context.Context, id string) error {
	b.mu.Lock()
	t := *b.transfers[id]
	to := b.accounts[t.From].email
	b.mu.Unlock()
	if t.JobID != "" {
		return nil
	}
	jobID, err := b.jobs.Submit(ctx, b.tier, "SEND_EMAIL", map[string]any{
		"to":      to,
		"subject": "Your transfer " + id,
		"body":    fmt.Sprintf("You have transferred %d.%02d to the account %s.", t.Cents/100, t.Cents%100, t.To),
	}, client.IdempotencyKey("bank-transfer-"+id))
	if err != nil {
		return fmt.Errorf("%w: %w", errMail, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.transfers[id].JobID = jobID
	return nil
}

// notifyAll submits the mails that could not be submitted with their transfers.
func (b *bank) notifyAll(ctx context.Context) error {
	b.mu.Lock()
	ids := slices.SortedFunc(maps.Keys(b.transfers), cmp.Compare)
	ids = slices.DeleteFunc(ids, func(id string) bool { return b.transfers[id].JobID != "" })
	b.mu.Unlock()
	var failed []error
	for _, id := range ids {
		err := b.notify(ctx, id)
		if err != nil {
			failed = append(failed, err)
		}
		if errors.Is(err, client.ErrUnavailable) || ctx.Err() != nil {
			break // the others would fail too
		}
	}
	return errors.Join(failed...)
}
