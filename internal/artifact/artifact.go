// Package artifact keeps the files that jobs make, one per attempt of a job, in a folder or in an S3 bucket. An attempt
// whose lease was lost may still be writing when its successor has written: so each has a file of its own.
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

// patience is how long one call waits for the store; a reader has it until its file begins, and then for each piece.
const patience = time.Minute

// Store keeps files by job id. Its methods may be called at once by many. Errors are job.ErrUnavailable with what the
// store said, or the cause for which the caller's context ended.
type Store struct {
	bucket   bucket
	where    string
	patience time.Duration
}

// bucket is what differs between a folder and S3. Its methods may be called at once by many.
type bucket interface {
	// check fails if the folder or bucket is not there, or does not let us in.
	check(ctx context.Context) error
	// put stores head and body as one file, in place of an earlier one, or changes nothing.
	put(ctx context.Context, key string, head, body []byte) error
	// get opens a file and says how many bytes it has. It returns errAbsent only if the folder or bucket is there and
	// the file is not.
	get(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// delete removes a file; one that is not there is no error.
	delete(ctx context.Context, key string) error
	// list returns the keys that begin so; more says that there may be others.
	list(ctx context.Context, prefix string) (keys []string, more bool, err error)
	close() error
}

// errAbsent says that the store is there and the file is not: a bucket that is missing is an outage, not an empty
// store.
var errAbsent = errors.New("no such file")

// Reader is a file being read: Size bytes in all. It must be closed.
type Reader struct {
	io.ReadCloser
	Name        string
	ContentType string
	Size        int64
}

// Describe says where the files are, without secrets.
func (s *Store) Describe() string { return s.where }

// Check asks the store whether it is there and lets us in.
func (s *Store) Check(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.bucket.check(call); err != nil {
		return failed(ctx, "look at the artifact store", err)
	}
	return nil
}

// Put stores the file of one attempt of a job, in place of an earlier one of that attempt, and returns its size in
// bytes. When it returns an error the earlier file, if there was one, is still whole. The name loses what could
// mislead, see cleanName.
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

// Read opens the file of one attempt of a job, or, if that attempt has none, the job's file of a version that had one
// file per job. It returns job.ErrNoArtifact if there is neither.
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

// why is an error with the cause for which its call was ended, where it was.
func why(call context.Context, err error) error {
	if cause := context.Cause(call); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// Delete removes the files of all attempts of a job. If there are none, that is no error.
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

// deleteAll removes the files whose keys begin so.
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

// Close lets go of the store; calls under way fail.
func (s *Store) Close() error { return s.bucket.close() }

type body struct {
	io.Reader
	blob     io.Closer
	call     context.Context
	cancel   context.CancelCauseFunc
	late     *time.Timer // ends the call
	patience time.Duration
}

// Read waits for one piece.
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

// keyOf is the place of an attempt's file. It begins with the end of the job's id, which is random, so that no folder
// grows too large. The key of attempt 0 is the prefix of all keys of the job; an earlier version, with one file per
// job, used it as the file's key.
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

// jobOf is the job whose file has this name.
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
