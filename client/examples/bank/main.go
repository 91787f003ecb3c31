// Command bank is an example of a service that uses tierq: a small bank that sends a mail after every transfer.
//
//	tierq serve &
//	go run ./client/examples/bank
//	curl -d '{"transferId":"T-1","from":"ada","to":"bob","cents":1250}' http://127.0.0.1:8090/transfers
//
// The answer has the id of the SEND_EMAIL job. Three things in it are worth copying. The money is moved first, and
// an outage of the queue does not undo that. The job's idempotency key is derived from the transfer, so that a
// repeat, also after a crash, sends no second mail. A mail that could not be submitted is submitted later.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tierq/tierq/client"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "address to listen on")
	server := flag.String("tierq", "http://127.0.0.1:8080",
		"address of the tierq server; its API key comes from TIERQ_TOKEN")
	tier := flag.String("tier", "PAID", "tier of the mails")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *server, client.Tier(*tier)); err != nil {
		fmt.Fprintln(os.Stderr, "bank:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr, server string, tier client.Tier) error {
	jobs := client.New(server, client.WithToken(os.Getenv("TIERQ_TOKEN")), client.WithUserAgent("bank-example"))
	defer jobs.Close()
	b := newBank(jobs, tier, map[string]*account{
		"ada": {email: "ada@example.com", cents: 100_000},
		"bob": {email: "bob@example.com", cents: 50_000},
	})
	s := &http.Server{Addr: addr, Handler: b.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- s.ListenAndServe() }()
	slog.Info("the bank is open", "addr", addr, "tierq", server)

	again := time.NewTicker(5 * time.Second)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err := b.notifyAll(ctx); err != nil {
				slog.Warn("mails are waiting", "err", err)
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			return errors.Join(s.Shutdown(rest), b.notifyAll(rest))
		}
	}
}
