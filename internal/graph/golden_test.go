package graph

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Spec: Agent Flow §11 visualizer
func TestWritersMatchGoldenFiles(t *testing.T) {
	for _, name := range []string{"five", "twelve", "loops"} {
		program := samples()[name]
		g := Build(program, Options{Data: name == "five"})
		for ext, write := range map[string]func(io.Writer) error{"mmd": g.Mermaid, "dot": g.DOT, "json": g.JSON} {
			t.Run(name+"."+ext, func(t *testing.T) {
				var out bytes.Buffer
				if err := write(&out); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join("testdata", name+"."+ext)
				if *update {
					if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), out.String()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			})
		}
	}
}

// mermaidLine matches every form of line that Mermaid writes. Inside quotes, nothing ends them or has a meaning in
// Mermaid, Markdown or HTML, except our own line breaks and numeric entities.
var mermaidLine = regexp.MustCompile(`^ *(` + strings.Join([]string{
	`flowchart TD`,
	`direction TB`,
	`end`,
	`subgraph n_\w*\["TEXT"\]`,
	`n_\w*(\[|\(|\(\[|\[/|\{\{|\[\[)"TEXT"(\]|\)|\]\)|/\]|\}\}|\]\]):::tone_\w+`,
	`n_\w* (-->|-\.->)(\|"TEXT"\|)? n_\w*`,
	`classDef tone_\w+ fill:#\w{6},stroke:#\w{6},color:#\w{6}`,
	`style n_\w* fill:#\w{6},stroke:#\w{6},color:#\w{6}`,
	`linkStyle [\d,]+ stroke(-width)?:#?\w+`,
}, "|") + `)$`)

func TestMermaidEscapesHostileText(t *testing.T) {
	line := regexp.MustCompile(strings.ReplaceAll(mermaidLine.String(), "TEXT",
		"(<br/>|#quot;|#\\d+;|[^\"<>`&|{}\\[\\]\\\\;#*~@$%])+"))
	var out bytes.Buffer
	if err := Build(hostile(), Options{Data: true}).Mermaid(&out); err != nil {
		t.Fatal(err)
	}
	open := 0
	for l := range strings.Lines(out.String()) {
		l = strings.TrimSuffix(l, "\n")
		if !line.MatchString(l) {
			t.Errorf("not a line of a flowchart: %s", l)
		}
		switch text := strings.TrimSpace(l); {
		case strings.HasPrefix(text, "subgraph "):
			open++
		case text == "end":
			open--
		}
	}
	if open != 0 {
		t.Errorf("%d subgraphs are not closed", open)
	}
}

func TestDOTEscapesHostileText(t *testing.T) {
	var out bytes.Buffer
	if err := Build(hostile(), Options{Data: true}).DOT(&out); err != nil {
		t.Fatal(err)
	}
	// Strings end where the writer ends them: outside of them only our own keywords are left.
	bare := regexp.MustCompile(`"(\\.|[^"\\])*"`).ReplaceAllString(out.String(), "S")
	if odd := regexp.MustCompile(`[^\w\s\[\]{}=,;.>-]`).FindString(bare); odd != "" {
		t.Errorf("%q is outside of a string", odd)
	}
	if open, shut := strings.Count(bare, "{"), strings.Count(bare, "}"); open != shut {
		t.Errorf("%d braces open, %d close", open, shut)
	}
}
