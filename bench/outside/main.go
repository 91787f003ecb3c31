// Outside is the bench's worker in Go: it takes the jobs of one queue over HTTP and does nothing with them.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/tierq/tierq/worker"
)

type nothing struct{}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	url, queue := os.Args[1], os.Args[2]
	slots, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(url, []string{queue}, worker.WithConcurrency(slots))
	worker.Handle(w, "NOOP", func(context.Context, nothing) (nothing, error) { return nothing{}, nil })
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
