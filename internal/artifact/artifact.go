// Package artifact keeps the files that jobs make, one per job: in a folder, or in an S3 bucket.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/tierq/tierq/internal/job"
)

// MaxBytes is the largest file that is stored.
const MaxBytes = 32 << 20

// patience is how long one call waits for the store; a reader has it until its file begins, and then for each piece.
const patience = time.Minute

// Store keeps files by job id. Its methods may be called at once by many. Errors are job.ErrUnavailable with what the store said,
// or the cause for which the caller's context ended.
type Store struct {
	bucket   *blob.Bucket
	where    string
	patience time.Duration
}

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
	there, err := s.bucket.IsAccessible(call)
	if err != nil {
		return failed(ctx, "look at the artifact store", err)
	}
	if !there {
		return failed(ctx, "look at the artifact store", errors.New("the folder or bucket is not there"))
	}
	return nil
}

// Put stores a job's file, in place of an earlier one, and returns its size in bytes. When it returns an error the earlier file, if
// there was one, is still whole. The name loses what could mislead, see cleanName.
func (s *Store) Put(ctx context.Context, id job.ID, name, contentType string, body []byte) (int64, error) {
	key, err := keyOf(id)
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
	if err := s.write(call, cancel, key, head, body); err != nil {
		return 0, failed(ctx, "store artifact", err)
	}
	return size, nil
}

// write ends call before it closes a writer that failed: only so does the store drop what it has.
func (s *Store) write(call context.Context, cancel context.CancelFunc, key string, head, body []byte) error {
	var file *os.File
	w, err := s.bucket.NewWriter(call, key, &blob.WriterOptions{
		ContentType:    "application/octet-stream",
		MaxConcurrency: 1,
		BeforeWrite: func(as func(any) bool) error {
			if as(&file) {
				return file.Chmod(0o600)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	for _, part := range [][]byte{head, body} {
		if _, err := w.Write(part); err != nil {
			cancel()
			return errors.Join(err, w.Close())
		}
	}
	if file != nil { // the rename that follows must not become durable before the text
		if err := file.Sync(); err != nil {
			cancel()
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

// Read opens a job's file. It returns job.ErrNoArtifact if there is none.
func (s *Store) Read(ctx context.Context, id job.ID) (*Reader, error) {
	key, err := keyOf(id)
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", job.ErrNoArtifact)
	}
	call, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(s.patience, func() { cancel(context.DeadlineExceeded) })
	r, err := s.bucket.NewReader(call, key, nil)
	if err != nil {
		defer cancel(nil)
		late.Stop()
		if absent(err) {
			return nil, fmt.Errorf("read artifact: %w", job.ErrNoArtifact)
		}
		return nil, failed(ctx, "read artifact", why(call, err))
	}
	h, n, err := readHead(r)
	late.Stop()
	if err == nil && r.Size() != n+h.Size {
		err = fmt.Errorf("it has %d bytes where %d were written", r.Size(), n+h.Size)
	}
	if err != nil {
		defer cancel(nil)
		return nil, failed(ctx, "read artifact", errors.Join(why(call, err), r.Close()))
	}
	return &Reader{
		ReadCloser: &body{Reader: io.LimitReader(r, h.Size), blob: r, call: call, cancel: cancel, late: late, patience: s.patience},
		Name:       h.Name, ContentType: h.ContentType, Size: h.Size,
	}, nil
}

// why is an error with the cause for which its call was ended, where it was.
func why(call context.Context, err error) error {
	if cause := context.Cause(call); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// Delete removes a job's file. One that is not there is no error.
func (s *Store) Delete(ctx context.Context, id job.ID) error {
	key, err := keyOf(id)
	if err != nil {
		return fmt.Errorf("delete artifact: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.bucket.Delete(call, key); err != nil && !absent(err) {
		return failed(ctx, "delete artifact", err)
	}
	return nil
}

// Close lets go of the store; calls under way fail.
func (s *Store) Close() error { return s.bucket.Close() }

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

// keyOf is the file's place: by the id's end, which is random, so that no folder grows too large.
func keyOf(id job.ID) (string, error) {
	id, err := job.ParseID(string(id))
	if err != nil {
		return "", err
	}
	return string(id[34:]) + "/" + string(id), nil
}

// absent says that the store is there and the file is not: a bucket that is missing is an outage, not an empty store.
func absent(err error) bool {
	var api interface{ ErrorCode() string }
	if errors.As(err, &api) && api.ErrorCode() == "NoSuchBucket" {
		return false
	}
	return gcerrors.Code(err) == gcerrors.NotFound
}

func failed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", verb, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w: %w", verb, job.ErrUnavailable, err)
}
