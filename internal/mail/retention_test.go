package mail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// DeleteOld deletes old messages and keeps young ones and foreign files, in a folder of any size.
func TestDeleteOldMail(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	if n, err := DeleteOld(t.Context(), dir, now); n != 0 || err != nil {
		t.Errorf("no folder: %d, %v", n, err)
	}
	sender, err := Open("", dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	mailed := func(n int) job.ID { return job.ID(fmt.Sprintf("019a0000-0000-7000-8000-%012x", n<<8)) }
	folder := filepath.Join(dir, "mail")
	for n := range 3 {
		if _, err := sender.Send(t.Context(),
			Message{ID: mailed(n), To: []string{"ada@example.com"}, Subject: "s", Text: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	young := filepath.Join(folder, string(mailed(2))+".eml")
	bystanders := []string{
		"notes.txt",
		"x.eml",
		string(mailed(7)),
		string(mailed(7)) + ".eml.bak",
		".hidden",
		"." + string(mailed(7)) + ".eml",
	}
	for _, name := range append([]string{"." + string(mailed(8)) + ".eml.123"}, bystanders...) {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, string(mailed(9))+".eml"), 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range 1200 {
		if err := os.WriteFile(filepath.Join(folder, string(mailed(100+n))+".eml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		at := now.Add(-100 * 24 * time.Hour)
		if path := filepath.Join(folder, e.Name()); path != young {
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	n, err := DeleteOld(t.Context(), dir, now.Add(-90*24*time.Hour))
	if n != 1203 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	left, err := os.ReadDir(folder)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	want := append(bystanders, filepath.Base(young), string(mailed(9))+".eml")
	slices.Sort(want)
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("left: %v, %v", names, err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DeleteOld(stopped, dir, now); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
