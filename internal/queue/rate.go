package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// RatePartition returns the partition that has a bucket. The buckets are spread over all partitions.
func (q *Queue) RatePartition(bucket string) int {
	sum := sha256.Sum256([]byte(bucket))
	return int(sum[0]) % q.opts.Partitions
}

// Rates takes requests from rate buckets of one partition (see RatePartition), one ask after the other, at most
// job.MaxBatch. It uses connections of its own. A request of a client waits for it, so ctx should allow it little
// time. Rates must not be repeated: after job.ErrAmbiguous the requests may have been counted.
func (q *Queue) Rates(ctx context.Context, partition int, asks []job.RateAsk) ([]job.RateAnswer, error) {
	args := make([]any, 0, 4*len(asks))
	for i := range asks {
		a := &asks[i]
		period, err := ratePeriod(a)
		if err != nil {
			return nil, err
		}
		args = append(args, rateName(a.Bucket), period, a.Burst, a.N)
	}
	texts, err := q.texts(ctx, q.redis.Rate, q.rate, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts) != len(asks) {
		return nil, fmt.Errorf("rate: %d words for %d asks", len(texts), len(asks))
	}
	answers := make([]job.RateAnswer, len(texts))
	for i, text := range texts {
		if answers[i], err = q.rateAnswer(text); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// rateName returns the hash that names a bucket in a key, because no text of a user may be part of a key.
func rateName(bucket string) string {
	sum := sha256.Sum256([]byte(bucket))
	return hex.EncodeToString(sum[:16])
}

// maxRoom is the most that a full bucket's time may lie ahead of now, in us: 126 years, which keeps that time
// below 2^53.
const maxRoom = 4e15

// ratePeriod returns the period of one request, in us. Up to 1000 requests a second it is a whole number, so that
// the script rounds nothing.
func ratePeriod(a *job.RateAsk) (string, error) {
	if !(a.Rate > 0) || a.Burst < 1 || a.N < 0 {
		return "", fmt.Errorf("rate: %d of %g a second, %d at once", a.N, a.Rate, a.Burst)
	}
	period := max(min(1e6/a.Rate, maxRoom/float64(a.Burst)), 1)
	if period >= 1000 {
		return strconv.FormatFloat(math.Floor(period), 'f', 0, 64), nil
	}
	return strconv.FormatFloat(period, 'f', 3, 64), nil
}

func (q *Queue) rateAnswer(text string) (answer job.RateAnswer, err error) {
	parts := strings.Split(text, " ")
	word, err := q.rate.word(parts[0])
	if err != nil {
		return answer, err
	}
	numbers := make([]int64, len(parts)-1)
	for i, part := range parts[1:] {
		if numbers[i], err = strconv.ParseInt(part, 10, 64); err != nil {
			return answer, fmt.Errorf("rate: reply %q: %w", text, err)
		}
	}
	switch {
	case word == job.OK && len(numbers) == 2:
		answer.OK = true
	case word == job.Full && len(numbers) == 3 && numbers[2] < 0:
		answer.RetryIn = job.Never
	case word == job.Full && len(numbers) == 3:
		answer.RetryIn = max(time.Duration(numbers[2])*time.Microsecond, time.Microsecond)
	default:
		return answer, fmt.Errorf("rate: reply %q", text)
	}
	answer.Remaining, answer.Reset = int(numbers[0]), time.Duration(numbers[1])*time.Microsecond
	return answer, nil
}
