package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/tierq/tierq/client"
)

// maxLine limits a line in a file of jobs.
const maxLine = 1 << 20

// numbered is a job with its number, or the number of its line.
type numbered struct {
	line int
	job  client.Submission
}

// source returns the jobs to submit: next returns one after the other until io.EOF.
func (s *session) source(a *asked, bounded bool) (next func() (numbered, error), total int64, done func(), err error) {
	if a.file == "" {
		job, err := s.submission(a, bounded)
		n := 0
		return func() (numbered, error) {
			if n++; n > a.count {
				return numbered{}, io.EOF
			}
			own := job
			own.IdempotencyKey = numberedKey(a.key, n)
			return numbered{n, own}, nil
		}, int64(a.count), func() {}, err
	}
	in, err := s.input(a.file, false)
	if err != nil {
		return nil, 0, nil, err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n, found := 0, false
	return func() (numbered, error) {
		for lines.Scan() {
			n++
			text := bytes.TrimSpace(lines.Bytes())
			if len(text) == 0 {
				continue
			}
			found = true
			job, err := readLine(text)
			if err != nil {
				return numbered{}, misused("line %d of %s: %v", n, a.file, err)
			}
			if job.IdempotencyKey == "" {
				job.IdempotencyKey = numberedKey(a.key, n)
			}
			job.BatchID = cmp.Or(job.BatchID, a.batch)
			return numbered{n, job}, nil
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return numbered{}, misused("line %d of %s has more than %d bytes", n+1, a.file, maxLine)
		case err != nil:
			return numbered{}, fmt.Errorf("read %s: %w", a.file, err)
		case !found:
			return numbered{}, misused("there is no job in %s", a.file)
		}
		return numbered{}, io.EOF
	}, 0, func() { _ = in.Close() }, nil
}

// numberedKey returns the idempotency key of one job of many. It is the same for each try, because a job may be
// sent more than once.
func numberedKey(key string, n int) string { return key + "-" + strconv.Itoa(n) }

// readLine reads one job of a file strictly: it refuses an unknown field, which would otherwise be ignored.
func readLine(text []byte) (client.Submission, error) {
	var line struct {
		Type     string          `json:"type"`
		Payload  json.RawMessage `json:"payload"`
		Retries  *int            `json:"maxRetries"`
		Delay    float64         `json:"delaySeconds"`
		RunAt    time.Time       `json:"runAt"`
		Expires  float64         `json:"expiresIn"`
		Until    time.Time       `json:"expiresAt"`
		Callback string          `json:"callbackUrl"`
		Queue    string          `json:"queue"`
		LineKey  string          `json:"key"`
		Unique   *uniqueLine     `json:"unique"`
		Batch    string          `json:"batch"`
		Key      string          `json:"idempotencyKey"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&line); err != nil {
		return client.Submission{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return client.Submission{}, errors.New("more than one JSON value")
	}
	switch {
	case line.Delay < 0 || line.Delay > math.MaxInt32:
		return client.Submission{}, errors.New("delaySeconds is out of range")
	case line.Delay > 0 && !line.RunAt.IsZero():
		return client.Submission{}, errors.New("delaySeconds and runAt exclude each other")
	case line.Expires < 0 || line.Expires > math.MaxInt32:
		return client.Submission{}, errors.New("expiresIn is out of range")
	case line.Expires > 0 && !line.Until.IsZero():
		return client.Submission{}, errors.New("expiresIn and expiresAt exclude each other")
	}
	job := client.Submission{
		Type: line.Type, MaxRetries: line.Retries, Delay: time.Duration(line.Delay * float64(time.Second)), RunAt: line.RunAt,
		CallbackURL: line.Callback, IdempotencyKey: line.Key, Queue: line.Queue, BatchID: line.Batch,
		LineKey: line.LineKey, ExpiresIn: time.Duration(line.Expires * float64(time.Second)), ExpiresAt: line.Until,
	}
	if line.Unique != nil {
		var err error
		if job.Unique, err = line.Unique.read(); err != nil {
			return job, err
		}
	}
	if line.Payload != nil {
		job.Payload = line.Payload
	}
	return job, nil
}

// uniqueLine is the member unique of a line, as the API takes it.
type uniqueLine struct {
	Key     string          `json:"key"`
	While   json.RawMessage `json:"while"`
	On      string          `json:"on"`
	MaxWait int64           `json:"maxWait"`
}

func (u *uniqueLine) read() (*client.Unique, error) {
	unique := &client.Unique{Key: u.Key, On: u.On, MaxWait: time.Duration(u.MaxWait) * time.Second}
	var seconds int64
	switch {
	case len(u.While) == 0 || string(u.While) == "null":
	case json.Unmarshal(u.While, &seconds) == nil && seconds > 0 && seconds <= math.MaxInt32:
		unique.For = time.Duration(seconds) * time.Second
	case json.Unmarshal(u.While, &unique.While) != nil:
		return nil, errors.New("unique.while is neither a text nor a number of seconds")
	}
	return unique, nil
}
