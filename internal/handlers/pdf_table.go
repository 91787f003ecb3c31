package handlers

// gap is what stands free between two columns, in points.
const gap = 6.0

// grid is a table's columns on a sheet.
type grid struct {
	*sheet
	header [][]string // lines of each cell
	left   []float64
	wide   []float64
}

// table writes the table; its header stands on every page. A row that does not fit on a page goes on at the next one.
func (s *sheet) table(t *Table) error {
	g := &grid{sheet: s, wide: s.columns(t)}
	x := margin
	for i, w := range g.wide {
		g.left = append(g.left, x)
		g.header = append(g.header, wrap(printable(t.Header[i]), w, s.advance(bold, small)))
		x += w + gap
	}
	// A header of half a page leaves hardly any room for rows: it stands once, as a row.
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

// top writes the header; the caller knows that there is room.
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

// line writes the k-th line of every cell that has one.
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

// columns shares the page's width out: each column gets what its longest cell needs, if there is enough; where there is
// not, wide columns give way to narrow ones.
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

// share gives each what it needs if that is no more than an equal part of what is left, until all that remain need
// more; these get equal parts.
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
