package main

import "context"

func memoryBench(ctx context.Context, l *lab) ([]figure, error) {
	cost, err := l.live(ctx, shipped(), l.scaled(100000, 1000))
	return []figure{{"queued", "B/job", cost.queued}, {"acknowledged, kept 24 h", "B/job", cost.ended}}, err
}
