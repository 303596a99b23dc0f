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

// fallbackFonts has the glyphs that the Go fonts lack, from the fonts of the system. A font that contained every script
// would be several times as large as the program.
type fallbackFonts struct {
	glyphs map[rune]fallbackGlyph
	opened []*os.File
	buffer sfnt.Buffer
}

// fallbackGlyph is a glyph of a fallback font. font is nil if no font has the character.
type fallbackGlyph struct {
	font    *sfnt.Font
	index   sfnt.GlyphIndex
	advance float64 // in em
}

// maxFontFiles is the number of font files that are searched.
const maxFontFiles = 2000

// findGlyphs looks for characters in the fonts below some folders. It opens each font once, and keeps only those open
// that are of use.
func findGlyphs(wanted []rune, dirs []string) *fallbackFonts {
	f := &fallbackFonts{glyphs: map[rune]fallbackGlyph{}}
	for _, path := range fontFiles(dirs) {
		if len(wanted) == 0 {
			break
		}
		file, first := openFont(path)
		if file == nil {
			continue
		}
		before := len(wanted)
		wanted = slices.DeleteFunc(wanted, func(ch rune) bool {
			g := f.glyphIn(first, ch)
			if g.font != nil {
				f.glyphs[ch] = g
			}
			return g.font != nil
		})
		if len(wanted) == before {
			file.Close()
		} else {
			f.opened = append(f.opened, file)
		}
	}
	return f
}

// fontFiles returns the font files below some folders, most suitable first. The order does not depend on the file
// system.
func fontFiles(dirs []string) []string {
	var files []string
	for _, dir := range dirs {
		// A folder that cannot be read has no fonts.
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || len(files) >= maxFontFiles {
				return nil
			}
			switch strings.ToLower(filepath.Ext(path)) {
			case ".ttf", ".otf", ".ttc", ".otc":
				files = append(files, path)
			}
			return nil
		})
	}
	slices.SortStableFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(fontRank(a), fontRank(b)), cmp.Compare(a, b))
	})
	return files
}

// openFont opens a font file, or the first font of a collection. The file is nil if it is not a font.
func openFont(path string) (*os.File, *sfnt.Font) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil
	}
	collection, err := sfnt.ParseCollectionReaderAt(file)
	if err == nil && collection.NumFonts() > 0 {
		if first, err := collection.Font(0); err == nil {
			return file, first
		}
	}
	file.Close()
	return nil, nil
}

// fontRank orders font files by name: upright sans serif fonts of normal weight first.
func fontRank(path string) int {
	name, rank := strings.ToLower(filepath.Base(path)), 0
	for _, word := range []string{
		"bold", "italic", "oblique", "condensed", "light", "thin", "black", "medium",
		"mono",
	} {
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

// glyphIn returns the glyph of a character in a font, if the font has an outline for it.
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

// visualOrder returns the characters of a text from left to right, as the Unicode bidirectional algorithm orders them.
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

// needsShaping reports whether the form of a character depends on its neighbors. A PNG shows such characters one by
// one.
func needsShaping(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Devanagari, unicode.Bengali,
		unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
		unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Mongolian)
}
