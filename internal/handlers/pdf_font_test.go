package handlers

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// goFont parses the regular font with another implementation.
func goFont(t *testing.T) *sfnt.Font {
	t.Helper()
	f, err := sfnt.Parse(regularFont)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The font files are those of golang.org/x/image, and another implementation finds the same characters in them.
func TestFonts(t *testing.T) {
	if !bytes.Equal(regularFont, goregular.TTF) || !bytes.Equal(boldFont, gobold.TTF) {
		t.Error("the font files are not those of golang.org/x/image")
	}
	for name, file := range map[string][]byte{"regular": regularFont, "bold": boldFont} {
		ours, err := readLetters(file)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := sfnt.Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		var b sfnt.Buffer
		n := 0
		for c := rune(0); c < 0x20000; c++ {
			glyph, err := theirs.GlyphIndex(&b, c)
			if err != nil || ours[c] != (glyph != 0) {
				t.Errorf("%s: %q has glyph %d, and we say %v (%v)", name, c, glyph, ours[c], err)
			}
			if ours[c] {
				n++
			}
		}
		if n < 600 || len(ours) != n {
			t.Errorf("%s: %d characters of %d", name, n, len(ours))
		}
	}
}

// A font file that was cut off anywhere gives an error.
func TestFontsDamaged(t *testing.T) {
	table, err := fontTable(regularFont, "cmap")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 400 {
		if _, err := readLetters(regularFont[:n]); err == nil {
			t.Errorf("%d bytes are a font", n)
		}
	}
	for n := 14; n < 200; n++ { // cuts inside the first map
		at := int(u32(table[8:]))
		if l, err := readFormat4(table[at : at+n]); err == nil {
			t.Errorf("%d bytes are a map of %d characters", n, len(l))
		}
	}
}

// outline returns the drawing of a glyph.
func outline(t *testing.T, f *sfnt.Font, glyph sfnt.GlyphIndex) []sfnt.Segment {
	t.Helper()
	var b sfnt.Buffer
	lines, err := f.LoadGlyph(&b, glyph, fixed.I(1000), nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(lines)
}

// The font in the PDF draws each character as the whole font does.
func TestPDFGlyphs(t *testing.T) {
	t.Attr("proves", "S1-P4")
	const text = "AzŁźßΩжЖ№€≤�"
	var s shelf
	if _, err := s.make(t.Context(), "GENERATE_PDF",
		document(t, map[string]any{"title": "x", "paragraphs": []string{text}}), nil); err != nil {
		t.Fatal(err)
	}
	r, _ := opened(t, s.body)
	page := r.Page(1)
	checked := 0
	for _, name := range page.Fonts() {
		if page.Font(name).V.Key("BaseFont").Name() != "utf8go" {
			continue
		}
		inner := page.Font(name).V.Key("DescendantFonts").Index(0)
		glyphs, err := io.ReadAll(inner.Key("CIDToGIDMap").Reader())
		if err != nil {
			t.Fatal(err)
		}
		file, err := io.ReadAll(inner.Key("FontDescriptor").Key("FontFile2").Reader())
		if err != nil {
			t.Fatal(err)
		}
		embedded, err := sfnt.Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range text {
			var b sfnt.Buffer
			whole, err := goFont(t).GlyphIndex(&b, c)
			if err != nil {
				t.Fatal(err)
			}
			part := sfnt.GlyphIndex(glyphs[2*c])<<8 | sfnt.GlyphIndex(glyphs[2*c+1])
			if part == 0 || !slices.Equal(outline(t, embedded, part), outline(t, goFont(t), whole)) {
				t.Errorf("%c is drawn by glyph %d, which differs", c, part)
			}
			checked++
		}
	}
	if checked != len([]rune(text)) {
		t.Errorf("%d characters checked", checked)
	}
}

// The bold font has all characters of the regular one, so printable checks only the regular one.
func TestBoldCovers(t *testing.T) {
	strong, err := sfnt.Parse(gobold.TTF)
	if err != nil {
		t.Fatal(err)
	}
	var b sfnt.Buffer
	whole := goFont(t)
	for c := rune(' '); c < 0x10000; c++ {
		plain, err := whole.GlyphIndex(&b, c)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := strong.GlyphIndex(&b, c); err != nil || (got == 0) != (plain == 0) {
			t.Errorf("%q: %d in regular, %d in bold, %v", c, plain, got, err)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"a\r\nb\rc\u2028d\te":           "a\nb\nc\nd e",
		"e\u0301 \u0416":                "é Ж",
		"a\u0323\u0301":                 "��", // composed, but the font has neither
		"x\x00\x1b[31m":                 "x��[31m",
		"👍\ufe0f\u200d":                 "�",
		"\u202efdp.exe\u00ad\ufeff":     "fdp.exe",
		"漢字 no\u00a0break":              "�� no\u00a0break",
		"\u202fthin\u3000wide\u0085nel": " thin wide nel",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	one := func(rune) float64 { return 1 }
	for _, tc := range []struct {
		text  string
		width float64
		want  string
	}{
		{"", 5, ""},
		{"hello", 5, "hello"},
		{"hello world", 5, "hello/world"},
		{"hello world", 11, "hello world"},
		{"hello  world ", 6, "hello/world"},
		{"hello big world", 9, "hello big/world"},
		{"a\n\nb", 5, "a//b"},
		{"abcdefgh", 3, "abc/def/gh"},
		{"ab cdefgh", 4, "ab/cdef/gh"},
		{"  abcdef", 4, "abcd/ef"},
		{" abcd", 4, "abcd"},
		{"äöü äöü", 3, "äöü/äöü"},
		{"abc", 0.5, "a/b/c"},
		{"   ", 2, ""},
	} {
		lines := wrap(tc.text, tc.width, one)
		if got := strings.Join(lines, "/"); got != tc.want {
			t.Errorf("%q in %v: %q, want %q", tc.text, tc.width, got, tc.want)
		}
		for _, l := range lines {
			if n := len([]rune(l)); float64(n) > max(tc.width, 1) {
				t.Errorf("%q in %v: line %q", tc.text, tc.width, l)
			}
		}
	}
}

func TestShare(t *testing.T) {
	for _, tc := range []struct {
		all        float64
		need, want []float64
	}{
		{100, []float64{10, 20}, []float64{10, 20}},
		{100, []float64{10, 200}, []float64{10, 90}},
		{100, []float64{10, 200, 300}, []float64{10, 45, 45}},
		{100, []float64{40, 10, 200}, []float64{40, 10, 50}},
		{90, []float64{100, 100, 100}, []float64{30, 30, 30}},
	} {
		if got := share(tc.all, tc.need); !slices.Equal(got, tc.want) {
			t.Errorf("%v of %v: %v, want %v", tc.need, tc.all, got, tc.want)
		}
	}
}
