package handlers

// gap is the space between two columns, in points.
const gap = 6.0

// grid holds a table's columns on a sheet.
type grid struct {
	*sheet
	header [][]string // lines of each cell
	left   []float64
	wide   []float64
}

// table writes the table, with the header on every page. A row that does not fit on a page continues on the next
// one.
func (s *sheet) table(t *Table) error {
	g := &grid{sheet: s, wide: s.columns(t)}
	x := margin
	for i, w := range g.wide {
		g.left = append(g.left, x)
		g.header = append(g.header, wrap(printable(t.Header[i]), w, s.advance(bold, small)))
		x += w + gap
	}
	// A header of half a page leaves hardly any room for rows, so it appears only once, as a row.
	if head := float64(tallest(g.header)) * small * spread; head < (s.bottom-margin)/2 {
		if err := s.room(head + 2*small*spread); err != nil {
			return err
		}
		g.top()
		s.onNew = g.top
		defer func() { s.onNew = nil }()
	} else if err := g.row(g.header, make([]Cell, len(g.header)), bold); err != nil {
		return err
	}
	for _, cells := range t.Rows {
		lines := make([][]string, len(cells))
		for i, c := range cells {
			lines[i] = wrap(printable(c.Text), g.wide[i], s.advance(regular, small))
		}
		if err := g.row(lines, cells, regular); err != nil {
			return err
		}
	}
	return nil
}

// top writes the header. The caller has checked that there is room.
func (g *grid) top() {
	for k := range tallest(g.header) {
		g.line(g.header, nil, k, bold)
	}
	g.rule()
}

func (g *grid) row(lines [][]string, cells []Cell, f face) error {
	for k := range tallest(lines) {
		if err := g.room(small * spread); err != nil {
			return err
		}
		g.line(lines, cells, k, f)
	}
	g.rule()
	return nil
}

// line writes the k-th line of every cell that has at least k+1 lines.
func (g *grid) line(lines [][]string, cells []Cell, k int, f face) {
	for i, of := range lines {
		if k >= len(of) {
			continue
		}
		x := g.left[i]
		if cells != nil && cells[i].Number {
			x += g.wide[i] - g.sheet.wide(of[k], f)
		}
		g.put(of[k], x, f, small)
	}
	g.y += small * spread
}

func (g *grid) rule() {
	g.pdf.SetLineWidth(0.3)
	g.pdf.Line(margin, g.y+1, margin+g.width, g.y+1)
	g.y += 3
}

// columns divides the page's width: each column gets the width of its longest cell. If the page is too narrow for
// that, the wide columns get less.
func (s *sheet) columns(t *Table) []float64 {
	need := make([]float64, len(t.Header))
	for i, h := range t.Header {
		need[i] = s.wide(printable(h), bold) + 1
	}
	for _, row := range t.Rows {
		for i, c := range row {
			need[i] = max(need[i], s.wide(printable(c.Text), regular)+1)
		}
	}
	return share(s.width-gap*float64(len(need)-1), need)
}

// share gives each column its need if that is at most an equal part of the remaining width. It repeats this until
// all remaining columns need more, and those get equal parts.
func share(all float64, need []float64) []float64 {
	given := make([]float64, len(need))
	left := len(need)
	for again := true; again && left > 0; {
		again = false
		part := all / float64(left)
		for i, n := range need {
			if given[i] == 0 && n > 0 && n <= part {
				given[i], all, left, again = n, all-n, left-1, true
			}
		}
	}
	for i := range given {
		if given[i] == 0 && left > 0 {
			given[i] = all / float64(left)
		}
	}
	return given
}

func tallest(lines [][]string) int {
	most := 0
	for _, l := range lines {
		most = max(most, len(l))
	}
	return most
}
