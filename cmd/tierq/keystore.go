package main

import (
	"context"
	"log/slog"

	"github.com/tierq/tierq/internal/app"
	"github.com/tierq/tierq/internal/config"
)

// createInStore creates a key in the store that the environment and .env name, without a server.
func (p program) createInStore(ctx context.Context, k app.NewKey) (id, text string, err error) {
	c, err := config.Load(p.environ, p.dotenv, nil)
	if err != nil {
		return "", "", err
	}
	id, text, err = app.CreateKey(ctx, c, k,
		slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return "", "", failure{err}
	}
	return id, text, nil
}
