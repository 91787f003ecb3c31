package main

import (
	"context"
	"fmt"
)

// limits are Redis' own default and what docker-compose.yml ships.
var limits = []int{64, listpack}

// withListpack runs do under another limit of the compact hash.
func (l *lab) withListpack(ctx context.Context, limit int, do func() error) error {
	if err := l.client.ConfigSet(ctx, "hash-max-listpack-value", fmt.Sprint(limit)).Err(); err != nil {
		return fmt.Errorf("set hash-max-listpack-value: %w", err)
	}
	err := do()
	if back := l.client.ConfigSet(ctx, "hash-max-listpack-value", fmt.Sprint(listpack)).Err(); err == nil && back != nil {
		return fmt.Errorf("set hash-max-listpack-value: %w", back)
	}
	return err
}

func memoryBench(ctx context.Context, l *lab) (figures []figure, err error) {
	n := l.scaled(100000, 1000)
	for _, limit := range limits {
		err := l.withListpack(ctx, limit, func() error {
			cost, err := l.live(ctx, shipped(), n)
			if err != nil {
				return err
			}
			setting := fmt.Sprintf(", hash-max-listpack-value %d", limit)
			figures = append(figures, figure{"queued" + setting, "B/job", cost.queued},
				figure{"acknowledged, kept 24 h" + setting, "B/job", cost.ended})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}
