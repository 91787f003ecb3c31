package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/tierq/tierq/worker"
)

type Size struct {
	Width int `json:"width"`
}

func double(ctx context.Context, in Size) (Size, error) {
	if in.Width < 0 {
		return Size{}, worker.Permanent(errors.New("no picture has a negative width"))
	}
	return Size{Width: 2 * in.Width}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := worker.New(cmp.Or(os.Getenv("TIERQ_URL"), "http://127.0.0.1:8080"), []string{"pictures"},
		worker.WithToken(os.Getenv("TIERQ_KEY")), worker.WithConcurrency(16))
	worker.Handle(w, "RESIZE", double)
	if err := w.Run(ctx); err != nil { // it returns when ctx has ended and the running jobs are done
		log.Fatal(err)
	}
}
