// Package artifact keeps the files that jobs make, in a folder or in an S3 bucket. Each attempt of a job has a
// file of its own, because an attempt whose lease was lost may still be writing after its successor has written.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// MaxBytes is the largest file that is stored.
const MaxBytes = 32 << 20

// patience limits how long one call waits for the store. A reader has that time until its file begins, and again
// for each piece.
const patience = time.Minute

// Store keeps files by job id. It is safe for concurrent use. Its errors are job.ErrUnavailable with the store's
// message, or the cause for which the caller's context ended.
type Store struct {
	bucket   bucket
	where    string
	patience time.Duration
}

// bucket is the part of a store that differs between a folder and S3. Its methods are safe for concurrent use.
type bucket interface {
	// check returns an error if the folder or bucket does not exist or refuses access.
	check(ctx context.Context) error
	// put stores head and body as one file and replaces an earlier one. On an error nothing has changed.
	put(ctx context.Context, key string, head, body []byte) error
	// get opens a file and returns its size in bytes. It returns errAbsent only if the folder or bucket exists and
	// the file does not.
	get(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// delete removes a file; a missing file is not an error.
	delete(ctx context.Context, key string) error
	// list returns keys with this prefix; more means that there may be others.
	list(ctx context.Context, prefix string) (keys []string, more bool, err error)
	close() error
}

// errAbsent means that the store exists and the file does not. A missing bucket is an outage, not an empty store.
var errAbsent = errors.New("no such file")

// Reader is an open file of Size bytes. The caller must close it.
type Reader struct {
	io.ReadCloser
	Name        string
	ContentType string
	Size        int64
}

// Describe says where the files are, without secrets.
func (s *Store) Describe() string { return s.where }

// Check asks the store whether it exists and allows access.
func (s *Store) Check(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.bucket.check(call); err != nil {
		return failed(ctx, "look at the artifact store", err)
	}
	return nil
}

// Put stores the file of one attempt of a job, replaces an earlier file of that attempt, and returns the size in
// bytes. After an error the earlier file, if any, is unchanged. cleanName removes the misleading parts of the
// name.
func (s *Store) Put(
	ctx context.Context, id job.ID, attempt int, name, contentType string, body []byte,
) (int64, error) {
	key, err := keyOf(id, attempt)
	if err != nil {
		return 0, fmt.Errorf("store artifact: %w", err)
	}
	size := int64(len(body))
	if size > MaxBytes {
		return 0, fmt.Errorf("store artifact: %d bytes, the most is %d", size, MaxBytes)
	}
	head, err := encodeHead(head{Name: cleanName(name), ContentType: cleanType(contentType), Size: size})
	if err != nil {
		return 0, fmt.Errorf("store artifact: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.bucket.put(call, key, head, body); err != nil {
		return 0, failed(ctx, "store artifact", err)
	}
	return size, nil
}

// Read opens the file of one attempt of a job. If that attempt has none, it opens the job's file of an earlier
// version, which stored one file per job. It returns job.ErrNoArtifact if neither exists.
func (s *Store) Read(ctx context.Context, id job.ID, attempt int) (*Reader, error) {
	r, err := s.read(ctx, id, attempt)
	if attempt > 0 && errors.Is(err, job.ErrNoArtifact) {
		return s.read(ctx, id, 0)
	}
	return r, err
}

func (s *Store) read(ctx context.Context, id job.ID, attempt int) (*Reader, error) {
	key, err := keyOf(id, attempt)
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", job.ErrNoArtifact)
	}
	call, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(s.patience, func() { cancel(context.DeadlineExceeded) })
	r, size, err := s.bucket.get(call, key)
	if err != nil {
		defer cancel(nil)
		late.Stop()
		if errors.Is(err, errAbsent) {
			return nil, fmt.Errorf("read artifact: %w", job.ErrNoArtifact)
		}
		return nil, failed(ctx, "read artifact", why(call, err))
	}
	h, n, err := readHead(r)
	late.Stop()
	if err == nil && size != n+h.Size {
		err = fmt.Errorf("it has %d bytes where %d were written", size, n+h.Size)
	}
	if err != nil {
		defer cancel(nil)
		return nil, failed(ctx, "read artifact", errors.Join(why(call, err), r.Close()))
	}
	return &Reader{
		ReadCloser: &body{Reader: io.LimitReader(r, h.Size), blob: r, call: call, cancel: cancel, late: late,
			patience: s.patience},
		Name: h.Name, ContentType: h.ContentType, Size: h.Size,
	}, nil
}

// why adds the cause that ended a call to the call's error, if there is one.
func why(call context.Context, err error) error {
	if cause := context.Cause(call); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// Delete removes the files of all attempts of a job. A job without files is not an error.
func (s *Store) Delete(ctx context.Context, id job.ID) error {
	prefix, err := keyOf(id, 0)
	if err != nil {
		return fmt.Errorf("delete artifact: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := deleteAll(call, s.bucket, prefix); err != nil {
		return failed(ctx, "delete artifact", err)
	}
	return nil
}

// deleteAll removes the files whose keys have this prefix.
func deleteAll(ctx context.Context, b bucket, prefix string) error {
	for more := true; more; {
		var keys []string
		var err error
		if keys, more, err = b.list(ctx, prefix); err != nil {
			return err
		}
		for _, key := range keys {
			if err := b.delete(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close releases the store's resources; running calls fail.
func (s *Store) Close() error { return s.bucket.close() }

type body struct {
	io.Reader
	blob     io.Closer
	call     context.Context
	cancel   context.CancelCauseFunc
	late     *time.Timer // cancels the call when it fires
	patience time.Duration
}

// Read reads one piece, and waits for it no longer than patience.
func (b *body) Read(p []byte) (int, error) {
	b.late.Reset(b.patience)
	n, err := b.Reader.Read(p)
	b.late.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = why(b.call, err)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel(nil)
	return b.blob.Close()
}

// keyOf returns the key of an attempt's file. It begins with the last two characters of the job's id, which are
// random, so that no folder grows too large. The key of attempt 0 is the prefix of all keys of the job; an earlier
// version, with one file per job, used it as the file's key.
func keyOf(id job.ID, attempt int) (string, error) {
	id, err := job.ParseID(string(id))
	if err != nil {
		return "", err
	}
	key := string(id[34:]) + "/" + string(id)
	if attempt > 0 {
		key += "." + strconv.Itoa(attempt)
	}
	return key, nil
}

// jobOf returns the job whose file has this name; false if the name is not that of a job's file.
func jobOf(name string) (id job.ID, ok bool) {
	name, attempt, numbered := strings.Cut(name, ".")
	id, err := job.ParseID(name)
	if err != nil {
		return "", false
	}
	n, err := strconv.Atoi(attempt)
	return id, !numbered || err == nil && n > 0 && strconv.Itoa(n) == attempt
}

func failed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", verb, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w: %w", verb, job.ErrUnavailable, err)
}
