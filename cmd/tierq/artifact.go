package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// saved describes a file that was written.
type saved struct {
	File        string `json:"file"`
	ContentType string `json:"contentType"`
	Bytes       int64  `json:"bytes"`
}

func (p program) artifactCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "artifact JOB_ID", Short: "Fetch the file a job made", Args: wants(1, 1, "one JOB_ID"),
		Long: "Fetch the file a job made. It is written under the name that the job gave it into the working folder, or " +
			"to --file; its name is printed.\n" +
			"A file that exists is not overwritten without --force. A file that does not arrive whole is deleted.",
		Example: "  tierq jobs artifact 019de340-01fe-7a58-be69-567cd7d6b7d4 --file report.pdf",
	}
	file := cmd.Flags().String("file", "", "write to this `path`; - for standard output")
	force := cmd.Flags().Bool("force", false, "overwrite a file that exists")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error {
		if *file == "-" && s.isTTY(s.stdout) {
			return misused("--file - to a terminal: send it somewhere")
		}
		a, err := s.client.Artifact(ctx, args[0])
		if err != nil {
			return err
		}
		defer a.Close()
		name := *file
		if name == "" {
			name = cmp.Or(strings.TrimLeft(clean(a.Name), ".-"), args[0]) // neither hidden nor an option of a later command
		}
		shown := s.countBytes(a.Size, func() string { return clean(a.Name) + " " })
		defer shown.end()
		from := io.TeeReader(a, counter{shown})
		if *file == "-" {
			if _, err := io.Copy(s.w, from); err != nil {
				return fmt.Errorf("artifact: %w", err)
			}
			return nil
		}
		size, err := save(name, from, *force)
		shown.end()
		switch {
		case err != nil:
			return fmt.Errorf("artifact: %w", err)
		case s.readable(), s.format == asName:
			return s.line(name)
		}
		return s.document(saved{name, a.ContentType, size})
	})
	return cmd
}

// counter advances a bar by the bytes written to it.
type counter struct{ bar *progress }

func (c counter) Write(p []byte) (int, error) {
	c.bar.add(len(p))
	return len(p), nil
}

// save writes a whole file or none. A new file has the permissions that the umask leaves. A file that replaces
// another one keeps that one's permissions, which its owner may have narrowed.
func save(name string, from io.Reader, force bool) (size int64, err error) {
	was, err := os.Lstat(name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	case err == nil && !force:
		return 0, fmt.Errorf("%s exists: --force overwrites it", name)
	}
	mode := os.FileMode(0o666)
	replaces := err == nil && was.Mode().IsRegular()
	if replaces {
		mode = 0o600 // until it gets the replaced file's permissions
	}
	beside := filepath.Join(filepath.Dir(name), ".tierq-"+rand.Text())
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // it may be closed already
			_ = os.Remove(f.Name())
		}
	}()
	if replaces {
		if err = f.Chmod(was.Mode().Perm()); err != nil {
			return 0, err
		}
	}
	if size, err = io.Copy(f, from); err != nil {
		return size, err
	}
	if err = f.Close(); err != nil {
		return size, err
	}
	return size, os.Rename(f.Name(), name)
}
