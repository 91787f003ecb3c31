package artifact

import (
	"bytes"
	"io"
	"mime"
	"strings"
	"testing"
	"unicode"

	"github.com/tierq/tierq/internal/fuzz"
)

// readHead returns a valid head or an error for every stored text, and never reads more than maxHead+1 bytes.
func FuzzReadHead(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, stored string) {
		r := strings.NewReader(stored)
		h, n, err := readHead(r)
		read := int64(len(stored) - r.Len())
		if err != nil {
			if n != 0 || read > maxHead+1 {
				t.Errorf("%d, %d bytes read for %v", n, read, err)
			}
			return
		}
		if n != read || h.Size < 0 || n > maxHead+1 {
			t.Errorf("%+v after %d of %d bytes", h, n, read)
		}
		rest, _ := io.ReadAll(r)
		if string(rest) != stored[n:] {
			t.Errorf("the file is %q", rest)
		}
		line, err := encodeHead(h)
		if err != nil {
			t.Fatal(err)
		}
		if again, _, err := readHead(bytes.NewReader(line)); len(line) <= maxHead && (err != nil || again != h) {
			t.Errorf("%+v is written %q and read as %+v, %v", h, line, again, err)
		}
	}, `{"name":"a.pdf","contentType":"application/pdf","size":3}`+"\nabc", `{"size":-1}`+"\n", "{}\n", "\n",
		`{"name":"`+strings.Repeat("x", 2100)+`"}`+"\n",
		`{"name":"a","size":1e3}`+"\n", "no end")
}

// A56: cleanName and cleanType return texts that fit into a header, for every input, and do not change such a text
// again.
func FuzzNames(f *testing.F) {
	f.Attr("proves", "A56")
	fuzz.Text(f, func(t *testing.T, text string) {
		name := cleanName(text)
		unfit := func(r rune) bool { return !unicode.IsPrint(r) || r == '/' || r == '\\' }
		if name == "" || len(name) > maxName || strings.ContainsFunc(name, unfit) || strings.HasPrefix(name, ".") ||
			strings.HasSuffix(name, ".") {
			t.Errorf("the name is %q", name)
		}
		if again := cleanName(name); again != name {
			t.Errorf("%q becomes %q", name, again)
		}
		kind := cleanType(text)
		if _, _, err := mime.ParseMediaType(kind); err != nil || len(kind) > maxType ||
			strings.ContainsFunc(kind, unicode.IsControl) {
			t.Errorf("the type is %q, %v", kind, err)
		}
		if again := cleanType(kind); again != kind {
			t.Errorf("%q becomes %q", kind, again)
		}
	}, "report.pdf", "../../etc/passwd", "a\r\nSet-Cookie: x=y", `a"; filename="b.exe`, "gpj\u202eexe.pdf",
		"application/pdf",
		"text/csv; charset=utf-8", "text/html; a=\"\r\nb\"", "text/html; a=\"b\t\"", "..", "",
		strings.Repeat("é", 99)+".pdf", "a. .", `C:\x\y.pdf`)
}
