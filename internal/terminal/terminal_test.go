package terminal_test

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/terminal"
)

const evil = "a\x1b[31mb\x1b]0;t\ac\u009b2Jd\u202ee\u2066f\x7fg\rh\x00i\u061c\u200fj\xffk"

func TestTerminalGetsNothingToObey(t *testing.T) {
	var out bytes.Buffer
	w := terminal.New(&out, true)
	for i := range len(evil) { // also in pieces
		if _, err := io.WriteString(w, evil[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\a\u009b\u202e\u2066\x7f\r\x00\u061c\u200f") ||
		strings.Contains(text, "\xff") || !strings.Contains(text, "e\ufffdf") {
		t.Errorf("%q", text)
	}
	out.Reset()
	plain := "größe\t日本語\n\U0001F600 e\u0301\n"
	for i := range len(plain) {
		io.WriteString(w, plain[i:i+1])
	}
	if out.String() != plain {
		t.Errorf("%q", out.String())
	}
}

func TestElsewhereTextStaysAsItIs(t *testing.T) {
	var out bytes.Buffer
	io.WriteString(terminal.New(&out, false), evil)
	if out.String() != evil {
		t.Errorf("%q", out.String())
	}
}

func TestOnlyOurSequencesAreEscapes(t *testing.T) {
	var out bytes.Buffer
	w := terminal.New(&out, true)
	io.WriteString(w, w.Escape("[1m")+"bold\x1b[5m"+w.Escape("[0m")+w.Escape("]0;title\a")+w.Escape("[2J"))
	io.WriteString(w.Mark(w), "\r\x1b[3Aline\x1b[K\r\n\x1b[?25h\x1b]52;c;x\a")
	want := "\x1b[1mbold\ufffd[5m\x1b[0m]0;title\ufffd[2J\r\x1b[3Aline\x1b[K\r\n\x1b[?25h]52;c;x\ufffd"
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestJSONEscapesControls(t *testing.T) {
	value := map[string]string{"k": strings.ToValidUTF8(evil, "") + "\u2028 > "}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	got := terminal.EscapeJSON(raw)
	if bytes.ContainsAny(got, "\u009b\u202e\u2066\x7f\u061c") {
		t.Errorf("%q", got)
	}
	var back map[string]string
	if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, value) {
		t.Errorf("%q, %v", back, err)
	}
}

// A character that two writes share is escaped, too.
func TestJSONEscapesControlsAcrossWrites(t *testing.T) {
	const raw = "{\"a\": \"\u009b \u202e \u00e9 \U0001F600\"}\n"
	for n := range raw {
		var out strings.Builder
		w := terminal.JSON(&out)
		for _, part := range []string{raw[:n], raw[n : n+1], raw[n+1:]} {
			if got, err := w.Write([]byte(part)); got != len(part) || err != nil {
				t.Fatal(got, err)
			}
		}
		if want := "{\"a\": \"\\u009b \\u202e \u00e9 \U0001F600\"}\n"; out.String() != want {
			t.Errorf("cut at %d: %q", n, out.String())
		}
	}
}
