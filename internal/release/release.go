package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Targets are the platforms of a release.
var Targets = []Target{
	{
		"linux",
		"amd64",
	}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// Target is an operating system and a processor, in Go's names.
type Target struct{ OS, Arch string }

// String returns the target's part of a file name.
func (t Target) String() string { return t.OS + "_" + t.Arch }

// file returns the name of the binary.
func (t Target) file(version string) string {
	name := "tierq_" + version + "_" + t.String()
	if t.OS == "windows" {
		name += ".exe"
	}
	return name
}

// Build makes one static binary of the checkout, with the list of its parts beside it (CycloneDX), and returns
// both files' paths. The same clone, version and Go give the same bytes, wherever the checkout is. (Go records the
// tags that it sees in the binary.)
func Build(ctx context.Context, root, out, version string, t Target) (files []string, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("build %s: %w", t, err)
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", t, err)
	}
	binary := filepath.Join(out, t.file(version))
	cmd := exec.CommandContext(
		ctx,
		"go",
		"build",
		"-trimpath",
		"-tags=nomsgpack",
		"-ldflags",
		"-s -w -X main.version="+version,
		"-o",
		binary,
		"./cmd/tierq",
	)
	cmd.Dir = root
	cmd.Env = append(
		os.Environ(),
		"CGO_ENABLED=0",
		"GOOS="+t.OS,
		"GOARCH="+t.Arch,
		"GOFLAGS=",
		"GOAMD64=v1",
		"GOARM64=v8.0",
	)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", t, err, said)
	}
	parts, err := Parts(binary, version)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", t, err)
	}
	list := binary + ".cdx.json"
	if err := os.WriteFile(list, parts, 0o644); err != nil {
		return nil, fmt.Errorf("build %s: %w", t, err)
	}
	return []string{binary, list}, nil
}

// Sums writes SHA256SUMS into the folder out, in the form that sha256sum -c reads.
func Sums(out string, files []string) error {
	var text bytes.Buffer
	for _, name := range slices.Sorted(slices.Values(files)) {
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("checksums: %w", err)
		}
		sum := sha256.Sum256(content)
		text.WriteString(hex.EncodeToString(sum[:]) + "  " + filepath.Base(name) + "\n")
	}
	if err := os.WriteFile(filepath.Join(out, "SHA256SUMS"), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	return nil
}

// CheckVersion refuses a version that is not suitable as a part of a file name.
func CheckVersion(version string) error {
	if version == "" || strings.ContainsFunc(version, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-", r)
	}) {
		return fmt.Errorf("%q is no version: letters, digits, dots, plus and minus", version)
	}
	return nil
}
