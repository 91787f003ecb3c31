package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"time"
)

// mailTimeout limits the wait for the mail's submit, so that a transfer is answered soon.
const mailTimeout = 3 * time.Second

var idRule = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func (b *bank) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /transfers", b.postTransfer)
	mux.HandleFunc("GET /accounts/{name}", b.getAccount)
	return mux
}

// postTransfer serves POST /transfers. It answers 201 to a new transfer and 200 to a repeat of the same transfer. An
// empty jobId in the answer means that the server submits the mail later.
func (b *bank) postTransfer(w http.ResponseWriter, r *http.Request) {
	o, err := readOrder(http.MaxBytesReader(w, r.Body, 4096))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	// The money moves even if the customer does not wait for the answer, so the mail is sent too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), mailTimeout)
	defer cancel()
	t, again, err := b.transfer(ctx, o)
	switch {
	case errors.Is(err, errNoAccount):
		refuse(w, http.StatusNotFound, err)
		return
	case errors.Is(err, errNoMoney):
		refuse(w, http.StatusUnprocessableEntity, err)
		return
	case errors.Is(err, errOther):
		refuse(w, http.StatusConflict, err)
		return
	case err != nil: // errMail
		slog.Warn("transfer without a mail yet", "transfer", o.ID, "err", err)
	}
	status := http.StatusCreated
	if again {
		status = http.StatusOK
	}
	answer(w, status, t)
}

func (b *bank) getAccount(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[r.PathValue("name")]
	if a == nil {
		refuse(w, http.StatusNotFound, errNoAccount)
		return
	}
	answer(w, http.StatusOK, map[string]int64{"cents": a.cents})
}

func readOrder(body io.Reader) (o order, err error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, errors.New("the body is not an order in JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return o, errors.New("there is something after the order")
	}
	switch {
	case !idRule.MatchString(o.ID):
		return o, errors.New("transferId: 1 to 64 letters, digits and -")
	case o.Cents <= 0:
		return o, errors.New("cents: more than 0")
	case o.From == o.To:
		return o, errors.New("to: the money is there already")
	}
	return o, nil
}

func refuse(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]string{"error": err.Error()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a customer who left asks again
}
