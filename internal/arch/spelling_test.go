package arch

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// british matches words that American English spells in another way.
var british = regexp.MustCompile(`(?i)\b(\w*(?:cancell(?:ed|ing)|colour|behaviour|favour|honour|labell(?:ed|ing)|` +
	`modell(?:ed|ing)|travell(?:ed|ing)|catalogue|licence)\w*|afterwards|towards|` +
	`(?:recogn|organ|normal|serial|initial|author|summar|optim|priorit|minim|maxim|canonical|custom|categor|real|special|final|general)is(?:e|ed|es|ing|er|ers|ation))\b`)

// otherwiseSpelled are parts of texts that are no prose: names of HTML, values of JSON, and words of requests.
var otherwiseSpelled = strings.NewReplacer("aria-labelledby", "", "ok, failed, rejected or cancelled", "",
	"organisation organization", "", "finally|afterwards|also", "")

// quoted matches what a page quotes: values, names and identifiers, which keep their spelling.
var quoted = regexp.MustCompile("`[^`\n]*`|\\]\\([^)\\s]*\\)|\\bid=\"[^\"]*\"")

// Messages and pages are in American English. Values of JSON, of records and of formats keep their spelling: in the
// program, only texts of several words are messages, and pages quote values.
func TestTextsAreAmericanEnglish(t *testing.T) {
	root := moduleRoot(t)
	pages := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "node_modules" || name == filepath.Join(root, "bin") || name == filepath.Join(root, "dist")) {
			return filepath.SkipDir
		}
		page := strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".html")
		ofTests := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(filepath.Dir(name), "test")
		if d.IsDir() || !page && (!strings.HasSuffix(name, ".go") || ofTests) {
			return nil
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		texts := []string{quoted.ReplaceAllString(string(raw), "")}
		if page {
			pages++
		} else {
			texts = messages(raw)
		}
		for _, text := range texts {
			for _, word := range british.FindAllString(otherwiseSpelled.Replace(text), -1) {
				t.Errorf("%s has %q, which is not the American spelling, in %.120q", name, word, text)
			}
		}
		return nil
	})
	if err != nil || pages < 20 {
		t.Errorf("%d pages, %v", pages, err)
	}
}

// messages returns the string literals of Go code that have several words.
func messages(code []byte) []string {
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile("", fset.Base(), len(code)), code, nil, 0)
	var out []string
	for {
		switch _, tok, text := s.Scan(); {
		case tok == token.EOF:
			return out
		case tok == token.STRING && strings.Contains(text, " "):
			out = append(out, text)
		}
	}
}

func TestBritishSpellingsAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"the run was cancelled": true, "Behaviour": true, "an organiser": true, "summarised": true,
		"afterwards": true, "towards": true, "afterward": false, "toward": false,
		"canceled": false, "color": false, "promise": false, "realistic": false, "an advertiser": false,
		"finally": false, "specialist": false, "otherwise": false, "generalist": false,
	} {
		if british.MatchString(text) != want {
			t.Errorf("%q: got %t", text, !want)
		}
	}
	code := "package a\n\nconst A, B = \"cancelled\", \"was cancelled\" // cancelled there\n"
	if got := messages([]byte(code)); len(got) != 1 || got[0] != `"was cancelled"` {
		t.Errorf("got %q", got)
	}
}
