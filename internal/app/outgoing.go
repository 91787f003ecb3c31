package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/artifact"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/mail"
	"github.com/tierq/tierq/internal/outbound"
	"github.com/tierq/tierq/internal/telemetry"
)

// outgoing is what the process sends out: mail, HTTP calls and files.
type outgoing struct {
	mail   mail.Sender
	calls  *outbound.Client
	signer outbound.Signer
	files  *artifact.Store
	notes  []string // for the banner
}

func openOutgoing(ctx context.Context, c config.Config, embedded bool, version string, log *slog.Logger) (*outgoing,
	error) {
	o := &outgoing{}
	roots, err := authorities(c.CAFile)
	if err != nil {
		return nil, err
	}
	if o.mail, err = mail.Open(c.SMTPURL, c.DataDir, roots); err != nil {
		return nil, fmt.Errorf("TIERQ_SMTP_URL: %w", err)
	}
	where := c.BlobURL
	if where == "" {
		if where, err = artifact.FolderURL(filepath.Join(c.DataDir, "artifacts")); err != nil {
			return nil, fmt.Errorf("TIERQ_DATA_DIR: %w", err)
		}
	}
	if !embedded && c.BlobURL == "" {
		log.Warn("files that jobs make stay on this machine: set TIERQ_BLOB_URL if processes on other machines serve them")
	}
	if o.files, err = artifact.Open(ctx, where); err != nil {
		return nil, fmt.Errorf("TIERQ_BLOB_URL: %w", err)
	}
	o.signer, err = signer(c, embedded, log)
	if err != nil {
		return nil, errors.Join(err, o.files.Close())
	}
	o.calls = outbound.New(outbound.Options{
		Allow: c.Egress(), UserAgent: "tierq/" + version, Signer: o.signer, Span: telemetry.SpanContext,
	})
	o.notes = []string{"mail          " + o.mail.Describe(), "files of jobs " + o.files.Describe()}
	check, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	if err := o.files.Check(check); err != nil {
		log.Warn("the store for files that jobs make does not answer; jobs that make files fail until it does", "err", err)
	}
	return o, nil
}

// checkBound is how long a starting process waits for the store of files.
const checkBound = 3 * time.Second

func (o *outgoing) close() error {
	o.calls.Close()
	return o.files.Close()
}

// signer returns what messages are signed with. Embedded mode makes a master of its own, once. Several processes
// need a common master, which only an operator can give them. The secret that all receivers share is from earlier
// versions: a new one is never made.
func signer(c config.Config, embedded bool, log *slog.Logger) (s outbound.Signer, err error) {
	master, shared := c.WebhookMaster, c.WebhookSecret
	if master == "" && embedded {
		if master, err = secretFile(filepath.Join(c.DataDir, "webhook-master"), "whmaster_"); err != nil {
			return s, fmt.Errorf("TIERQ_DATA_DIR: %w", err)
		}
	}
	if shared == "" && embedded {
		text, err := os.ReadFile(filepath.Join(c.DataDir, "webhook-secret"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("TIERQ_DATA_DIR: %w", err)
		}
		shared = strings.TrimSpace(string(text))
	}
	if s.Masters, err = outbound.ParseMasters(master); err != nil {
		return s, fmt.Errorf("TIERQ_WEBHOOK_MASTER: %w", err)
	}
	if s.Shared, err = outbound.ParseSecrets(shared); err != nil {
		return s, fmt.Errorf("TIERQ_WEBHOOK_SECRET: %w", err)
	}
	s.Strangers = c.AnonymousRate > 0
	switch {
	case master == "" && shared == "":
		log.Warn("webhooks and callbacks are sent unsigned: set TIERQ_WEBHOOK_MASTER")
	case master == "":
		log.Warn("all API keys sign with one secret, so each receiver can forge every webhook: set TIERQ_WEBHOOK_MASTER")
	}
	return s, nil
}

// secretFile reads a secret, or makes one with this prefix if the file does not exist.
func secretFile(file, prefix string) (string, error) {
	text, err := os.ReadFile(file)
	switch secret := strings.TrimSpace(string(text)); {
	case err == nil && secret != "": // an empty file is left by a start that was killed
		return secret, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, says crypto/rand
	secret := prefix + base64.StdEncoding.EncodeToString(key)
	return secret, os.WriteFile(file, []byte(secret+"\n"), 0o600)
}

// register adds the job types that send something out of the process.
func (o *outgoing) register(r *handler.Registry, tallies handlers.Tallies) {
	handlers.RegisterMail(r, mailer{o.mail})
	handlers.RegisterOutgoing(r, sender{o.calls})
	handlers.RegisterDocuments(r, o.files, tallies)
}

type mailer struct{ mail.Sender }

func (m mailer) Send(ctx context.Context, msg handlers.Message) (handlers.Delivery, error) {
	d, err := m.Sender.Send(ctx, mail.Message(msg))
	return handlers.Delivery(d), err
}

type sender struct{ *outbound.Client }

func (s sender) Do(ctx context.Context, r handlers.Request) (handlers.Response, error) {
	answer, err := s.Client.Do(ctx, outbound.Request(r))
	return handlers.Response(answer), err
}

// files gives the API the artifacts of jobs: the file of a job is the file of its last attempt.
type files struct {
	*artifact.Store
	jobs interface {
		Find(ctx context.Context, id job.ID) (job.Job, error)
	}
}

func (f files) Artifact(ctx context.Context, id job.ID) (body io.ReadCloser, name, contentType string, size int64,
	err error) {
	j, err := f.jobs.Find(ctx, id)
	if err != nil && !errors.Is(err, job.ErrNotFound) { // the file may outlive both stores' knowledge of the job
		return nil, "", "", 0, err
	}
	r, err := f.Read(ctx, id, j.Attempt)
	if err != nil {
		return nil, "", "", 0, err
	}
	return r, r.Name, r.ContentType, r.Size, nil
}

// owes returns the function that makes the journal row of the callback owed for an outcome. If this process does
// not know the job's tier (its plan is from a newer build), the callback gets the last tier.
func owes(plans *job.PlanBook) func(o *job.Outcome) (job.JournalRow, bool) {
	return func(o *job.Outcome) (job.JournalRow, bool) {
		if o.CallbackURL == "" || o.Status == job.Cancelled {
			return job.JournalRow{}, false
		}
		return rowOf(plans, handlers.CallbackJob(*o)), true
	}
}
