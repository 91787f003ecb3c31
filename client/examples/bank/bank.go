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

// What a transfer can be refused for.
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

// order is what a customer asks for. The id is the customer's: sent again, it is the same transfer.
type order struct {
	ID    string `json:"transferId"`
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// transfer is an order that was carried out. An empty JobID means that its mail is still to be submitted.
type transfer struct {
	order
	JobID string `json:"jobId"`
}

// bank keeps accounts in memory. The money of all of them together never changes.
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

// transfer moves the money, once per id, and then submits the mail about it. A mail that cannot be submitted now undoes
// nothing: notifyAll does it later. again says that the transfer was there before.
func (b *bank) transfer(ctx context.Context, o order) (t transfer, again bool, err error) {
	if again, err = b.move(o); err != nil {
		return transfer{}, false, err
	}
	err = b.notify(ctx, o.ID)
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.transfers[o.ID], again, err
}

// move carries an order out, or finds that it has been.
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

// errMail: the transfer stands, its mail is still to be submitted.
var errMail = errors.New("the mail will be sent later")

// notify submits the mail about a transfer, unless that is done. The key makes it one mail, however often this is
// tried, and by whom.
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

// notifyAll submits the mails that could not be submitted when their transfers were made.
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
			break // the others would wait in vain
		}
	}
	return errors.Join(failed...)
}
