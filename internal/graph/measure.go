package graph

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goitalic"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// fontStyle is a style of the font family of pictures.
type fontStyle int

const (
	regular fontStyle = iota
	bold
	italic
)

// ruler measures text in the Go fonts. They are slightly wider than Helvetica and similar fonts, so text that fits here
// also fits in the fallback fonts of an SVG.
type ruler struct {
	fonts    [3]*sfnt.Font
	advances [3]map[rune]float64 // in em
	buffer   sfnt.Buffer
}

// newRuler returns a ruler that has read the Go fonts.
func newRuler() (*ruler, error) {
	r := &ruler{}
	for i, ttf := range [][]byte{regular: goregular.TTF, bold: gobold.TTF, italic: goitalic.TTF} {
		f, err := sfnt.Parse(ttf)
		if err != nil {
			return nil, err
		}
		r.fonts[i] = f
		r.advances[i] = map[rune]float64{}
	}
	return r, nil
}

// advance returns the width of a character in em. Characters that the Go fonts lack count as wide, so that they fit in
// any font.
func (r *ruler) advance(c fontStyle, ch rune) float64 {
	if a, known := r.advances[c][ch]; known {
		return a
	}
	const em = 1000
	a := missingAdvance(ch)
	if g, err := r.fonts[c].GlyphIndex(&r.buffer, ch); err == nil && g != 0 {
		if w, err := r.fonts[c].GlyphAdvance(&r.buffer, g, fixed.I(em), font.HintingNone); err == nil {
			a = float64(w) / 64 / em
		}
	}
	r.advances[c][ch] = a
	return a
}

// missingAdvance returns the width of a character that the Go fonts lack, in em: nothing for marks that combine with
// the character before them and for invisible ones, otherwise a generous estimate. From U+1100 on (Hangul Jamo), many
// characters are as wide as high.
func missingAdvance(ch rune) float64 {
	switch {
	case unicode.In(ch, unicode.Mn, unicode.Me, unicode.Cf, unicode.Variation_Selector):
		return 0
	case ch >= 0x1100:
		return 1.1
	default:
		return 0.7
	}
}

// width returns the width of a text in one line.
func (r *ruler) width(c fontStyle, size float64, s string) float64 {
	w := 0.0
	for _, ch := range s {
		w += r.advance(c, ch)
	}
	return w * size
}

// fit shortens a text to a width, ending with "…" if it is cut.
func (r *ruler) fit(c fontStyle, size float64, s string, width float64) string {
	w, room := 0.0, 0
	dots := r.width(c, size, "…")
	for i, ch := range s {
		if w+dots <= width {
			room = i // everything before i fits, together with the dots
		}
		w += r.advance(c, ch) * size
		if w > width {
			kept := s[:room]
			// Prefer a word boundary if little is lost.
			if space := strings.LastIndexByte(kept, ' '); space > len(kept)*2/3 && s[room] != ' ' {
				kept = kept[:space]
			}
			return strings.TrimRight(kept, " .,;:") + "…"
		}
	}
	return s
}

// wrap breaks a text into at most max lines of the given width: at spaces and, inside words that are too long for a
// line, after punctuation or anywhere.
func (r *ruler) wrap(c fontStyle, size float64, s string, width float64, max int) []string {
	if s == "" {
		return nil
	}
	var lines []string
	line, end := "", 0.0
	pieces := r.pieces(c, size, s, width)
	for i, p := range pieces {
		text := p.text
		if line != "" && !p.glued {
			text = " " + text
		}
		w := r.width(c, size, text)
		if line == "" || end+w <= width {
			line, end = line+text, end+w
			continue
		}
		lines = append(lines, line)
		if len(lines) == max-1 {
			return append(lines, r.fit(c, size, joinPieces(pieces[i:]), width))
		}
		line, end = p.text, r.width(c, size, p.text)
	}
	return append(lines, r.fit(c, size, line, width))
}

// piece is a part of a text that stays on one line. glued means that no space precedes it.
type piece struct {
	text  string
	glued bool
}

// joinPieces returns the text that the pieces come from.
func joinPieces(pieces []piece) string {
	var out strings.Builder
	for i, p := range pieces {
		if i > 0 && !p.glued {
			out.WriteByte(' ')
		}
		out.WriteString(p.text)
	}
	return out.String()
}

// pieces splits a text at spaces, and words that are too long for a line after punctuation.
func (r *ruler) pieces(c fontStyle, size float64, s string, width float64) []piece {
	var all []piece
	for word := range strings.SplitSeq(s, " ") { // cleaned text has single spaces; other white space does not break
		if r.width(c, size, word) <= width {
			all = append(all, piece{text: word})
			continue
		}
		start, at, glued := 0, 0.0, false
		for i, ch := range word {
			w := r.advance(c, ch) * size
			previous, _ := utf8.DecodeLastRuneInString(word[start:i])
			if i > start && (at+w > width || strings.ContainsRune("_-./:", previous) ||
				breaksAnywhere(previous) && breaksAnywhere(ch)) {
				all = append(all, piece{word[start:i], glued})
				start, at, glued = i, 0, true
			}
			at += w
		}
		all = append(all, piece{word[start:], glued})
	}
	return all
}

// breaksAnywhere reports whether lines may break before and after a character, as between ideographs.
func breaksAnywhere(ch rune) bool {
	return unicode.In(ch, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}
