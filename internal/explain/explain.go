package explain

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/xslices"
)

//go:embed pages/*.txtar
var pages embed.FS

// Page explains one code.
type Page struct {
	Code  string `json:"code"`
	Title string `json:"title"`
	// Text is Markdown, without the title.
	Text string `json:"text"`
	Bad  []File `json:"bad"`
	Good []File `json:"good"`
}

// File is an example, or a file that an example refers to.
type File struct {
	Path string `json:"path"` // without bad/ or good/
	Text string `json:"text"`
}

// Codes returns all codes with a page, sorted.
func Codes() []string {
	entries, err := pages.ReadDir("pages")
	if err != nil {
		panic(err) // unreachable: the folder is embedded
	}
	codes := xslices.Map(entries, func(e fs.DirEntry) string { return strings.TrimSuffix(e.Name(), ".txtar") })
	slices.Sort(codes)
	return codes
}

// Lookup returns the page of a code, ignoring case. It returns false if there is none.
func Lookup(code string) (Page, bool) {
	code = strings.ToUpper(code)
	raw, err := pages.ReadFile("pages/" + code + ".txtar")
	if err != nil {
		return Page{}, false
	}
	page, err := parse(code, raw)
	if err != nil {
		panic(err) // unreachable: a test parses every page
	}
	return page, true
}

func parse(code string, raw []byte) (Page, error) {
	archive := txtar.Parse(raw)
	first, text, _ := strings.Cut(string(archive.Comment), "\n")
	title, ok := strings.CutPrefix(first, "# "+code+": ")
	if !ok || title == "" {
		return Page{}, fmt.Errorf("%s: the first line is %q, not \"# %s: title\"", code, first, code)
	}
	page := Page{Code: code, Title: title, Text: strings.TrimSpace(text)}
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "bad/"); ok {
			page.Bad = append(page.Bad, File{Path: name, Text: string(f.Data)})
		} else if name, ok := strings.CutPrefix(f.Name, "good/"); ok {
			page.Good = append(page.Good, File{Path: name, Text: string(f.Data)})
		} else {
			return Page{}, fmt.Errorf("%s: %s is neither below bad/ nor below good/", code, f.Name)
		}
	}
	if page.Text == "" || len(page.Bad) == 0 || len(page.Good) == 0 {
		return Page{}, fmt.Errorf("%s: the page lacks a text, a bad example or a good one", code)
	}
	return page, nil
}
