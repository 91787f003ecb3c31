package mail

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func TestFolder(t *testing.T) {
	t.Attr("proves", "S1-P4")
	dir := t.TempDir()
	s, err := Open("", dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"first", "Überweisung"} { // the second attempt replaces the first one's file
		m := greeting
		m.Subject = subject
		got, err := s.Send(t.Context(), m)
		if err != nil || got.MessageID != string(jobID)+"@localhost" || !slices.Equal(got.Accepted, m.To) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, "mail"))
	if err != nil || len(files) != 1 || files[0].Name() != string(jobID)+".eml" {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "mail")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "mail", files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	l := readMail(t, string(text))
	if l.subject != "Überweisung" || !slices.Equal(l.recipients, greeting.To) ||
		l.head.Get("From") != `"tierq" <tierq@localhost>` || !strings.Contains(l.plain, "zwei Zeilen.") {
		t.Errorf("%+v", l)
	}
	if got := s.Describe(); !strings.Contains(got, filepath.Join(dir, "mail")) ||
		!strings.Contains(got, "TIERQ_SMTP_URL") {
		t.Error(got)
	}
}

func TestFolderAlternatives(t *testing.T) {
	dir := t.TempDir()
	f := &folder{dir: dir}
	for _, m := range []Message{{Text: "only text"}, {HTML: "<p>only html</p>"}, {}} {
		m.ID, m.To, m.Subject = jobID, []string{"a@h"}, "s"
		if _, err := f.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, string(jobID)+".eml"))
		if err != nil {
			t.Fatal(err)
		}
		if l := readMail(t, string(text)); l.plain != m.Text || l.html != m.HTML {
			t.Errorf("%+v", l)
		}
	}
}

func TestFolderFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&folder{dir: filepath.Join(file, "mail")}).Send(t.Context(), greeting); err == nil ||
		handler.Judge(err).Permanent {
		t.Errorf("a file in the folder's place: %v", err)
	}
	dir := t.TempDir()
	for _, id := range []job.ID{"", "../../x", "019de340-01fe-7a58-be69-567cd7d6b7d4/../x"} {
		m := greeting
		m.ID = id
		if _, err := (&folder{dir: dir}).Send(t.Context(), m); err == nil || !handler.Judge(err).Permanent {
			t.Errorf("id %q: %v", id, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(handler.ErrCancelled)
	if _, err := (&folder{dir: dir}).Send(ctx, greeting); !errors.Is(err, handler.ErrCancelled) {
		t.Errorf("an ended context: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, string(jobID)+".eml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&folder{dir: dir}).Send(t.Context(), greeting); err == nil {
		t.Error("a folder in the file's place was overwritten")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}
