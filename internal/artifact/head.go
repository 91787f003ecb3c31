package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"
)

// head is the first line of a stored file; the job's file follows. Name and type are in the same blob as the text,
// so that one write stores all of it in every kind of store. Size shows whether a crash of the machine cut the
// file off.
type head struct {
	Name        string `json:"name"`
	ContentType string `json:"contentType"`
	Size        int64  `json:"size"`
}

const (
	maxName = 100  // bytes
	maxType = 100  // bytes
	maxHead = 2048 // bytes; JSON may need six for one byte of a name
)

func encodeHead(h head) ([]byte, error) {
	line, err := json.Marshal(h)
	return append(line, '\n'), err
}

// readHead reads the first line of r, byte by byte, so that the next read of r begins at the job's file. It
// returns the head and its length in bytes.
func readHead(r io.Reader) (head, int64, error) {
	var h head
	line := make([]byte, 0, 256)
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, one); err != nil {
			return h, 0, fmt.Errorf("its first line: %w", err)
		}
		if one[0] == '\n' {
			break
		}
		if line = append(line, one[0]); len(line) > maxHead {
			return h, 0, errors.New("its first line is too long")
		}
	}
	if err := json.Unmarshal(line, &h); err != nil || h.Size < 0 {
		return h, 0, errors.New("its first line is not ours")
	}
	return h, int64(len(line)) + 1, nil
}

// cleanName returns the name offered for download: without a path and without control or invisible characters
// (they could turn "fdp.exe" round), at most 100 bytes with its extension kept.
func cleanName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	name = strings.Trim(name, ". ")
	if len(name) > maxName {
		ext := ""
		if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= 10 {
			name, ext = name[:dot], name[dot:]
		}
		cut := maxName - len(ext)
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = strings.TrimRight(name[:cut], ". ") + ext
	}
	if name == "" {
		return "artifact"
	}
	return name
}

// cleanType returns the content type in its canonical form. For a text that is invalid, too long or contains a control
// character (a parameter may hold a tab) it returns application/octet-stream.
func cleanType(contentType string) string {
	kind, params, err := mime.ParseMediaType(contentType)
	if err == nil && strings.Contains(kind, "/") {
		if clean := mime.FormatMediaType(kind, params); clean != "" && len(clean) <= maxType &&
			!strings.ContainsFunc(clean, unicode.IsControl) {
			return clean
		}
	}
	return "application/octet-stream"
}
