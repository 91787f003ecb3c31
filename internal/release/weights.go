package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Weight is the cost of one module in the build of tierq.
type Weight struct {
	Module, Version string
	Packages        int
	Bytes           int64         // in the module cache: its files and their archive
	CPU             time.Duration // for compiling its packages; 0 = not measured
	Direct          bool          // required by go.mod directly
}

// Weights lists the modules whose packages are in the binary. The standard library comes first and has no Bytes.
// With measure it compiles everything into an empty build cache and returns the compilers' time.
func Weights(ctx context.Context, root string, measure bool) ([]Weight, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Standard,Module", "./cmd/tierq")
	cmd.Dir, cmd.Stderr, cmd.Env = root, os.Stderr, flags()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	cpu := map[string]time.Duration{}
	if measure {
		if cpu, err = compile(ctx, root); err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
	}
	all := []Weight{{Module: "std"}}
	at := map[string]int{"std": 0}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Standard   bool
			Module     *struct {
				Path, Version, Dir string
				Main, Indirect     bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
		name := "std"
		if p.Module != nil {
			name = p.Module.Path
			if _, ok := at[name]; !ok {
				at[name] = len(all)
				w := Weight{Module: name, Version: p.Module.Version, Direct: !p.Module.Indirect}
				if !p.Module.Main {
					w.Bytes = sizeOf(p.Module.Dir) + sizeOf(archiveOf(p.Module.Dir, name, p.Module.Version))
				}
				all = append(all, w)
			}
		}
		w := &all[at[name]]
		w.Packages++
		w.CPU += cpu[p.ImportPath]
	}
	return all, nil
}

// flags returns the environment with the Makefile's build flags, because other flags select other packages.
func flags() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -tags=nomsgpack")
}

// compile builds tierq with an empty build cache, one action at a time, and returns the time of each package.
func compile(ctx context.Context, root string) (map[string]time.Duration, error) {
	dir, err := os.MkdirTemp("", "tierq-weights-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	graph := filepath.Join(dir, "graph.json")
	cmd := exec.CommandContext(
		ctx,
		"go",
		"build",
		"-debug-actiongraph="+graph,
		"-o",
		filepath.Join(dir, "tierq"),
		"./cmd/tierq",
	)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(flags(), "GOCACHE="+filepath.Join(dir, "cache"))
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(graph)
	if err != nil {
		return nil, err
	}
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys time.Duration
	}
	if err := json.Unmarshal(text, &actions); err != nil {
		return nil, err
	}
	cpu := map[string]time.Duration{}
	for _, a := range actions {
		cpu[a.Package] += a.CmdUser + a.CmdSys
	}
	return cpu, nil
}

// archiveOf returns the archive in the module cache from which a module's folder was made; "" if the folder is not
// in the cache.
func archiveOf(dir, module, version string) string {
	escaped := escape(module)
	cache, found := strings.CutSuffix(filepath.ToSlash(dir), "/"+escaped+"@"+escape(version))
	if !found {
		return ""
	}
	return filepath.Join(
		filepath.FromSlash(cache),
		"cache",
		"download",
		filepath.FromSlash(escaped),
		"@v",
		escape(version)+".zip",
	)
}

// escape returns a path in the module cache's spelling: an exclamation mark and a small letter for each capital.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('!')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// sizeOf returns the size of a file, or of all files below a folder, in bytes rounded up to blocks of 4 KiB.
func sizeOf(name string) (sum int64) {
	_ = filepath.WalkDir(name, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what is not there weighs nothing
		}
		if info, err := d.Info(); err == nil {
			sum += (info.Size() + 4095) / 4096 * 4096
		}
		return nil
	})
	return sum
}
