package source_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/source"
)

func anyText(t *rapid.T) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ab \t\r\n\n名é😀")), 0, 60, -1).Draw(t, "text")
}

// This holds for offsets at the start of a character, up to the end of the line.
func TestOffsetInvertsPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := anyText(t)
		f := source.NewFile("a", text)
		before := source.Position{Line: 1, Column: 0}
		for offset := 0; offset <= len(text); offset++ {
			p := f.Position(offset)
			if p.Line < before.Line || p.Line == before.Line && p.Column < before.Column {
				t.Fatalf("position %+v at %d comes before %+v", p, offset, before)
			}
			before = p
			if offset < len(text) && !utf8.RuneStart(text[offset]) {
				continue
			}
			if want := 1 + strings.Count(text[:offset], "\n"); p.Line != want {
				t.Fatalf("offset %d is in line %d, want %d", offset, p.Line, want)
			}
			line := f.Line(p.Line)
			if p.Column-1 > utf8.RuneCountInString(line) {
				continue // in the line ending
			}
			if back := f.Offset(p.Line, p.Column); back != offset {
				t.Fatalf("offset %d is %+v, and that is offset %d", offset, p, back)
			}
		}
	})
}

func TestOffsetsAndSpansAreClamped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := anyText(t)
		f := source.NewFile("a", text)
		line, column := rapid.IntRange(-3, 80).Draw(t, "line"), rapid.IntRange(-3, 80).Draw(t, "column")
		if got := f.Offset(line, column); got < 0 || got > len(text) {
			t.Fatalf("offset %d", got)
		}
		start, end := rapid.IntRange(-9, 99).Draw(t, "start"), rapid.IntRange(-9, 99).Draw(t, "end")
		s := f.Span(start, end)
		if s.Start < 0 || s.End < s.Start || s.End > len(text) {
			t.Fatalf("span %+v", s)
		}
		sub := s.Sub(start, end)
		if sub.Start < s.Start || sub.End < sub.Start || sub.End > s.End {
			t.Fatalf("part %+v of %+v", sub, s)
		}
		var joined []string
		for n := 1; n <= f.Lines(); n++ {
			joined = append(joined, f.Line(n))
		}
		plain := strings.NewReplacer("\r", "", "\n", "")
		if plain.Replace(strings.Join(joined, "")) != plain.Replace(text) {
			t.Fatalf("lines %q of %q", joined, text)
		}
	})
}

func TestFinalLineBreakAddsNoLine(t *testing.T) {
	for text, want := range map[string]int{"": 1, "a": 1, "a\n": 1, "a\nb": 2, "a\r\nb\r\n": 2, "\n": 1, "\n\n": 2} {
		f := source.NewFile("a", text)
		if got := f.Lines(); got != want {
			t.Errorf("%q has %d lines, want %d", text, got, want)
		}
	}
	f := source.NewFile("a", "one\r\ntwo")
	for n, want := range map[int]string{0: "", 1: "one", 2: "two", 3: ""} {
		if got := f.Line(n); got != want {
			t.Errorf("line %d is %q, want %q", n, got, want)
		}
	}
}

func TestSpanTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := source.Span{File: rapid.String().Draw(t, "file"), Start: rapid.IntRange(0, 1000).Draw(t, "start")}
		s.End = s.Start + rapid.IntRange(0, 1000).Draw(t, "length")
		text, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back source.Span
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Fatalf("%+v is %s, which is %+v (%v)", s, text, back, err)
		}
	})
	for _, bad := range []string{"a", "a#", "a#1", "a#x-2", "a#3-2", "a#-1-2"} {
		if err := new(source.Span).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted as a span", bad)
		}
	}
}
