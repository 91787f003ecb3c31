package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeberg.org/go-pdf/fpdf"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Sizes of an A4 page, in points.
const (
	margin   = 48.0
	spread   = 1.35 // from line to line, in font sizes
	textSize = 10.0
	headSize = 18.0
	small    = 8.0 // font size of cells and page numbers
)

type face string

const (
	regular face = ""
	bold    face = "B"
)

// sheet is the state of a document during its layout, from top to bottom.
type sheet struct {
	ctx    context.Context
	pdf    *fpdf.Fpdf
	width  float64 // between the margins
	bottom float64 // the lowest line must end above this
	y      float64 // the next line begins here
	pages  int
	onNew  func()                    // draws the top of every page; nil = nothing
	glyphs map[face]map[rune]float64 // widths, in font sizes
	face   face                      // in use, with its size
	size   float64
}

// render makes a PDF. The same document and date give the same bytes. It returns the cause for which ctx ended, or
// a permanent error for a document of more than maxPages pages.
func render(ctx context.Context, d Document, date time.Time) ([]byte, error) {
	s := newSheet(ctx, d, date)
	if err := s.write(d); err != nil {
		return nil, fmt.Errorf("lay out the PDF: %w", err)
	}
	var out bytes.Buffer
	if err := s.pdf.Output(&out); err != nil {
		return nil, fmt.Errorf("write the PDF: %w", err)
	}
	return out.Bytes(), nil
}

func newSheet(ctx context.Context, d Document, date time.Time) *sheet {
	orientation := "P"
	if d.Table != nil && len(d.Table.Header) > 6 {
		orientation = "L"
	}
	pdf := fpdf.New(orientation, "pt", "A4", "")
	pdf.SetCatalogSort(true)
	pdf.SetCreationDate(date)
	pdf.SetModificationDate(date)
	pdf.SetProducer("tierq", true)
	pdf.SetTitle(printable(d.Title), true)
	pdf.SetAutoPageBreak(false, 0)
	// The library gets copies, because the whole process shares the fonts.
	pdf.AddUTF8FontFromBytes("go", string(regular), slices.Clone(regularFont))
	pdf.AddUTF8FontFromBytes("go", string(bold), slices.Clone(boldFont))
	wide, high := pdf.GetPageSize()
	return &sheet{
		ctx: ctx, pdf: pdf, width: wide - 2*margin, bottom: high - margin,
		glyphs: map[face]map[rune]float64{regular: {}, bold: {}},
	}
}

func (s *sheet) write(d Document) error {
	if err := s.turn(); err != nil {
		return err
	}
	if err := s.text(d.Title, bold, headSize); err != nil {
		return err
	}
	s.y += headSize / 2
	for _, p := range d.Paragraphs {
		if err := s.text(p, regular, textSize); err != nil {
			return err
		}
		s.y += textSize / 2
	}
	if d.Table != nil {
		return s.table(d.Table)
	}
	return nil
}

// text writes a paragraph over the whole width, on as many pages as it needs.
func (s *sheet) text(text string, f face, size float64) error {
	for _, line := range wrap(printable(text), s.width, s.advance(f, size)) {
		if err := s.room(size * spread); err != nil {
			return err
		}
		s.put(line, margin, f, size)
		s.y += size * spread
	}
	return nil
}

// room begins a new page if a line of this height does not fit.
func (s *sheet) room(high float64) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.y+high > s.bottom {
		return s.turn()
	}
	return nil
}

// turn begins a page and writes its number.
func (s *sheet) turn() error {
	if s.pages++; s.pages > maxPages {
		return handler.Permanent(errors.New("the document has more than " + strconv.Itoa(maxPages) + " pages"))
	}
	s.pdf.AddPage()
	s.y = s.bottom + small
	number := strconv.Itoa(s.pages)
	s.put(number, margin+s.width-s.wide(number, regular), regular, small)
	s.y = margin
	if s.onNew != nil {
		s.onNew()
	}
	return nil
}

// put writes one line at x, below s.y. The text must be printable.
func (s *sheet) put(line string, x float64, f face, size float64) {
	if line == "" {
		return
	}
	s.use(f, size)
	s.pdf.Text(x, s.y+size, line)
}

// use selects a font; each selection becomes part of the page.
func (s *sheet) use(f face, size float64) {
	if s.size != size || s.face != f {
		s.pdf.SetFont("go", string(f), size)
		s.face, s.size = f, size
	}
}

// advance returns a function that gives a character's width in points.
func (s *sheet) advance(f face, size float64) func(rune) float64 {
	known := s.glyphs[f]
	return func(r rune) float64 {
		w, ok := known[r]
		if !ok {
			s.use(f, size)
			w = float64(s.pdf.GetStringSymbolWidth(string(r))) / 1000
			known[r] = w
		}
		return w * size
	}
}

// wide returns the width of a line in the small font size, in points.
func (s *sheet) wide(line string, f face) float64 {
	advance, w := s.advance(f, small), 0.0
	for _, r := range line {
		w += advance(r)
	}
	return w
}

// born returns the time in a job's id, which is the same for all attempts; 1970 for a text that is not an id.
func born(id job.ID) time.Time {
	if len(id) != 36 {
		return time.Unix(0, 0).UTC()
	}
	ms, err := strconv.ParseInt(string(id[:8]+id[9:13]), 16, 64)
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return time.UnixMilli(ms).UTC()
}
