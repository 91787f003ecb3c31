// A server whose pool has handlers that misbehave as internal/conformance asks.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	lib "github.com/tierq/tierq/server"
)

type host = lib.Server

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s := lib.New()
	register(s)
	if err := s.Run(ctx); err != nil {
		fmt.Println("RUN FAILED:", err)
		os.Exit(3)
	}
	fmt.Println("RUN ENDED")
}
