package graph

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/text/unicode/bidi"
)

// fallbackFonts finds the glyphs that the Go fonts lack in the fonts of the system. A font that
// contained every script would be several times as large as the program.
type fallbackFonts struct {
	files  []string // not opened yet, most suitable first
	opened []*os.File
	fonts  []*sfnt.Font
	glyphs map[rune]fallbackGlyph
	buffer sfnt.Buffer
}

// fallbackGlyph is a glyph of a fallback font. Without a font, no font has one.
type fallbackGlyph struct {
	font    *sfnt.Font
	index   sfnt.GlyphIndex
	advance float64 // in em
}

// mostFonts is the number of font files that are searched.
const mostFonts = 2000

// newFallbackFonts returns the fonts below some folders.
func newFallbackFonts(dirs []string) *fallbackFonts {
	f := &fallbackFonts{glyphs: map[rune]fallbackGlyph{}}
	for _, dir := range dirs {
		// A folder that cannot be read has no fonts.
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || len(f.files) >= mostFonts {
				return nil
			}
			switch strings.ToLower(filepath.Ext(path)) {
			case ".ttf", ".otf", ".ttc", ".otc":
				if !d.IsDir() {
					f.files = append(f.files, path)
				}
			}
			return nil
		})
	}
	slices.SortStableFunc(f.files, func(a, b string) int {
		return cmp.Or(cmp.Compare(fontRank(a), fontRank(b)), cmp.Compare(a, b))
	})
	return f
}

// fontRank orders font files by name: upright sans serif fonts of normal weight first.
func fontRank(path string) int {
	name, rank := strings.ToLower(filepath.Base(path)), 0
	for _, word := range []string{"bold", "italic", "oblique", "condensed", "light", "thin", "black", "medium", "mono"} {
		if strings.Contains(name, word) {
			rank += 2
		}
	}
	if strings.Contains(name, "serif") && !strings.Contains(name, "sans") {
		rank++
	}
	return rank
}

// systemFontDirs returns the folders where systems keep fonts.
func systemFontDirs() []string {
	home, err := os.UserHomeDir()
	at := func(parts ...string) []string {
		if err != nil {
			return nil
		}
		return []string{filepath.Join(append([]string{home}, parts...)...)}
	}
	switch runtime.GOOS {
	case "darwin":
		return append([]string{"/System/Library/Fonts", "/Library/Fonts"}, at("Library", "Fonts")...)
	case "windows":
		return []string{
			filepath.Join(os.Getenv("WINDIR"), "Fonts"),
			filepath.Join(os.Getenv("LOCALAPPDATA"), "Microsoft", "Windows", "Fonts"),
		}
	default:
		return slices.Concat([]string{"/usr/share/fonts", "/usr/local/share/fonts"}, at(".local", "share", "fonts"),
			at(".fonts"))
	}
}

// close closes the font files.
func (f *fallbackFonts) close() {
	for _, file := range f.opened {
		file.Close()
	}
}

// glyph returns the glyph of a character, which has no font if none of the fonts has one.
func (f *fallbackFonts) glyph(ch rune) fallbackGlyph {
	if g, known := f.glyphs[ch]; known {
		return g
	}
	g := fallbackGlyph{}
	for i := 0; g.font == nil && (i < len(f.fonts) || f.openNext()); i++ {
		if i < len(f.fonts) {
			g = f.glyphIn(f.fonts[i], ch)
		}
	}
	f.glyphs[ch] = g
	return g
}

func (f *fallbackFonts) glyphIn(in *sfnt.Font, ch rune) fallbackGlyph {
	index, err := in.GlyphIndex(&f.buffer, ch)
	if err != nil || index == 0 {
		return fallbackGlyph{}
	}
	const em = 1000
	width, err := in.GlyphAdvance(&f.buffer, index, fixed.I(em), font.HintingNone)
	if err != nil {
		return fallbackGlyph{}
	}
	if _, err := in.LoadGlyph(&f.buffer, index, fixed.I(em), nil); err != nil {
		return fallbackGlyph{} // a bitmap, as in fonts of emoji
	}
	return fallbackGlyph{font: in, index: index, advance: float64(width) / 64 / em}
}

// openNext opens the next file that is a font, and reports whether there is one.
func (f *fallbackFonts) openNext() bool {
	for len(f.files) > 0 {
		path := f.files[0]
		f.files = f.files[1:]
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		collection, err := sfnt.ParseCollectionReaderAt(file)
		if err != nil || collection.NumFonts() == 0 {
			file.Close()
			continue
		}
		first, err := collection.Font(0)
		if err != nil {
			file.Close()
			continue
		}
		f.opened = append(f.opened, file)
		f.fonts = append(f.fonts, first)
		return true
	}
	return false
}

// visualOrder returns the characters of a text from left to right.
func visualOrder(text string) string {
	if !strings.ContainsFunc(text, isRightToLeft) {
		return text
	}
	var p bidi.Paragraph
	if _, err := p.SetString(text); err != nil {
		return text
	}
	order, err := p.Order()
	if err != nil {
		return text
	}
	var out strings.Builder
	for i := range order.NumRuns() {
		run := order.Run(i)
		if run.Direction() == bidi.RightToLeft {
			out.WriteString(bidi.ReverseString(run.String()))
		} else {
			out.WriteString(run.String())
		}
	}
	return out.String()
}

func isRightToLeft(r rune) bool {
	return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko)
}

// needsShaping reports whether the form of a character depends on its neighbors. A PNG shows
// such characters one by one.
func needsShaping(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Devanagari, unicode.Bengali,
		unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
		unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Mongolian)
}
