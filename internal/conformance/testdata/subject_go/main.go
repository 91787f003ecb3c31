// A worker whose handlers misbehave as internal/conformance asks.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	lib "github.com/tierq/tierq/worker"
)

type host = lib.Worker

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w := lib.New(os.Getenv("TIERQ_URL"), []string{"conformance"}, lib.WithConcurrency(4), lib.WithDrain(time.Second))
	register(w)
	registerWorkers(w)
	if err := w.Run(ctx); err != nil {
		fmt.Println("RUN FAILED:", err)
		os.Exit(3)
	}
	fmt.Println("RUN ENDED")
}

// registerWorkers adds the behaviours that only an external worker has.
func registerWorkers(w *host) {
	handle(w, "PROGRESS", func(ctx context.Context, in input) (any, error) {
		switch in.Kind {
		case "NEGATIVE":
			lib.Progress(ctx, -5, -1, "")
		case "HUGE":
			lib.Progress(ctx, 1<<62, 1<<62, "")
		case "NOTE_HUGE":
			lib.Progress(ctx, 1, 2, repeat("é", 5000))
		case "NOTE_SURROGATES":
			lib.Progress(ctx, 1, 2, "a\xed\xa0\x80b\xff")
		}
		return map[string]any{"kind": in.Kind}, nil
	})
	handle(w, "TELL", func(ctx context.Context, in input) (any, error) {
		for end := time.Now().Add(in.duration()); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			lib.Progress(ctx, int64(time.Until(end)/time.Millisecond)+1, 0, "steps")
		}
		return nil, nil
	})
	handle(w, "FLOW", func(ctx context.Context, in input) (any, error) {
		var err error
		switch in.Kind {
		case "INPUTS":
			_, err = lib.Inputs(ctx)
		case "INPUT_ODD":
			_, err = lib.InputOf(ctx, "a\xff\xed\xa0\x80")
		case "ADD_CYCLE":
			_, err = lib.AddToFlow(ctx, map[string]lib.FlowJob{"a/b": {Type: "X", Payload: cycle()}})
		case "ADD_NAN":
			_, err = lib.AddToFlow(ctx, map[string]lib.FlowJob{"a/b": {Type: "X", Payload: nan()}})
		case "ADD_PANICS":
			_, err = lib.AddToFlow(ctx, map[string]lib.FlowJob{"a/b": {Type: "X", Payload: marshalPanics{}}})
		}
		return map[string]any{"raised": err != nil}, nil
	})
}
