package handlers

import (
	_ "embed" // the fonts
	"encoding/binary"
	"errors"
	"sync"
)

// The Go fonts by Bigelow & Holmes (BSD licence: fonts/LICENSE), of golang.org/x/image v0.47.0, byte for byte.
var (
	//go:embed fonts/Go-Regular.ttf
	regularFont []byte
	//go:embed fonts/Go-Bold.ttf
	boldFont []byte
)

// goLetters are the characters that the Go fonts can draw: Latin, Greek and Cyrillic letters, the usual
// punctuation and some symbols. Not among them are combining marks, letters that run from right to left, Chinese,
// Japanese, Korean and emoji.
var goLetters = sync.OnceValue(func() letters {
	l, err := readLetters(regularFont)
	if err != nil {
		panic("handlers: the built-in font: " + err.Error())
	}
	return l
})

// letters are the characters that a font has a glyph for.
type letters map[rune]bool

var errFont = errors.New("not a TrueType font with a Unicode character map of format 4")

// readLetters reads the character map of a TrueType font. It reads only format 4, which the built-in fonts have.
func readLetters(font []byte) (letters, error) {
	table, err := fontTable(font, "cmap")
	if err != nil || len(table) < 4 {
		return nil, errFont
	}
	for n, record := int(u16(table[2:])), table[4:]; n > 0 && len(record) >= 8; n, record = n-1, record[8:] {
		platform, encoding, at := u16(record), u16(record[2:]), int(u32(record[4:]))
		if unicode := platform == 0 || platform == 3 && encoding == 1; unicode && at+14 <= len(table) &&
			u16(table[at:]) == 4 {
			return readFormat4(table[at:])
		}
	}
	return nil, errFont
}

// readFormat4 reads segments of characters. A segment has its first and last character, and either a number that
// turns a character into its glyph, or the distance to a list of glyphs.
func readFormat4(t []byte) (letters, error) {
	segments := int(u16(t[6:])) / 2
	ends, starts, deltas, offsets := 14, 16+2*segments, 16+4*segments, 16+6*segments
	if offsets+2*segments > len(t) {
		return nil, errFont
	}
	all := letters{}
	for i := range segments {
		start, end := int(u16(t[starts+2*i:])), int(u16(t[ends+2*i:]))
		delta, offset := int(u16(t[deltas+2*i:])), int(u16(t[offsets+2*i:]))
		for c := start; c <= end && c != 0xffff; c++ {
			glyph := c
			if offset != 0 {
				at := offsets + 2*i + offset + 2*(c-start)
				if at+2 > len(t) {
					return nil, errFont
				}
				if glyph = int(u16(t[at:])); glyph == 0 {
					continue
				}
			}
			if (glyph+delta)&0xffff != 0 {
				all[rune(c)] = true
			}
		}
	}
	return all, nil
}

// fontTable returns one table of a TrueType font.
func fontTable(font []byte, name string) ([]byte, error) {
	if len(font) < 12 {
		return nil, errFont
	}
	for n, entry := int(u16(font[4:])), font[12:]; n > 0 && len(entry) >= 16; n, entry = n-1, entry[16:] {
		if at, size := int(u32(entry[8:])), int(u32(entry[12:])); string(entry[:4]) == name && at+size <= len(font) {
			return font[at : at+size], nil
		}
	}
	return nil, errFont
}

func u16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
