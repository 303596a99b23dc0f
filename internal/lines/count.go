package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strings"
)

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// isProduct reports whether a file is product code: see the documentation of the command.
func isProduct(name string) bool {
	if ext := path.Ext(name); ext != ".go" && ext != ".s" || strings.HasSuffix(name, "_test.go") {
		return false
	}
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		switch {
		case part == "testdata", strings.HasSuffix(part, "test"):
			return false
		case part == "bench", part == "soak", part == "arch", part == "lines":
			return false
		}
	}
	return true
}

// A size is an amount of code. Wrapping a line changes the lines, but hardly the tokens.
type size struct{ lines, tokens int }

func (s *size) add(t size, times int) {
	s.lines += times * t.lines
	s.tokens += times * t.tokens
}

// measure returns the size of a file without blank lines and comments.
func measure(name string, text []byte) size {
	if path.Ext(name) == ".s" {
		return measureAssembly(text)
	}
	if generated.Match(text) {
		return size{}
	}
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(text))
	var scan scanner.Scanner
	scan.Init(file, text, func(token.Position, string) {}, 0)
	code, tokens := map[int]bool{}, 0
	for {
		pos, tok, literal := scan.Scan()
		if tok == token.EOF {
			return size{len(code), tokens}
		}
		if tok == token.SEMICOLON && literal != ";" {
			continue
		}
		tokens++
		first := file.Line(pos)
		for i := 0; i <= strings.Count(literal, "\n"); i++ {
			code[first+i] = true
		}
	}
}

// measureAssembly counts the lines of assembly that are neither blank nor a line comment, and their words.
func measureAssembly(text []byte) size {
	var s size
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			s.add(size{1, len(bytes.Fields(line))}, 1)
		}
	}
	return s
}
