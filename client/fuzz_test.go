package client

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// For every stream, whatever a server or a proxy sends, next returns the complete frames and then the end.
func FuzzFrames(f *testing.F) {
	for _, stream := range []string{
		"retry: 2000\n\nevent: status\nid: PENDING-0-0-1\ndata: {\"a\":1}\n\n", ": ping\n\nevent: bye\ndata: {}\n\n",
		"data: a\ndata: b\n\n",
		"event: x\r\ndata: y\r\n\r\n", "id: \x00\ndata:\n\n", "data: cut off",
	} {
		for n := range len(stream) + 1 { // plain go test cuts each stream at every byte, and removes each byte
			f.Add(stream[:n])
			f.Add(stream[:n] + stream[min(n+1, len(stream)):])
		}
	}
	f.Fuzz(func(t *testing.T, stream string) {
		frames := newFrames(strings.NewReader(stream))
		for n := 0; ; n++ {
			fr, err := frames.next()
			if err != nil {
				if !errors.Is(err, io.ErrUnexpectedEOF) && len(stream) < 1<<10 {
					t.Errorf("it ends with %v", err)
				}
				return
			}
			if n > strings.Count(stream, "\n") ||
				strings.ContainsAny(fr.name+fr.id, "\n\x00") && !strings.Contains(fr.name, "\x00") ||
				len(fr.data) > len(stream) {
				t.Fatalf("frame %d is %+v", n, fr)
			}
		}
	})
}
