package text_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// drawn formats a flowchart as text.
func drawn(c *text.Flowchart) string {
	var out []string
	for _, n := range c.Nodes {
		line := n.ID + n.Shape
		if n.Shape != "" {
			line = n.ID + n.Shape[:len(n.Shape)/2] + n.Label.Value + n.Shape[len(n.Shape)/2:]
		}
		for _, class := range n.Class {
			line += ":" + class.Value
		}
		if n.Subgraph >= 0 {
			line += " in " + c.Subgraphs[n.Subgraph].ID
		}
		out = append(out, line)
	}
	for _, e := range c.Edges {
		line := fmt.Sprintf("%s %s %s", e.From, e.Style, e.To)
		if !e.Arrow {
			line += " (no head)"
		}
		if e.Both {
			line += " (both)"
		}
		if e.Label.Value != "" {
			line += " " + fmt.Sprintf("%q", e.Label.Value)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestFlowchartsAreReadDespiteMistakes(t *testing.T) {
	for _, c := range []struct{ name, chart, want, codes string }{
		{"chain", "graph TD\n A --> B-->C", "A\nB\nC\nA solid B\nB solid C", ""},
		{
			"shapes",
			"flowchart LR\n" +
				"A[a] --> B(b) --> C([c]) --> D[[d]] --> E[(e)] --> F((f)) --> G{g} --> H{{h}} --> I>i] --> J[/j/] " +
				"--> K(((k)))",
			"A[a]\nB(b)\nC([c])\nD[[d]]\nE[(e)]\nF((f))\nG{g}\nH{{h}}\nI>i]\nJ[/j/]\nK(((k)))\nA solid B\nB solid C\n" +
				"C solid D\nD solid E\nE solid F\nF solid G\nG solid H\nH solid I\nI solid J\nJ solid K",
			"",
		},
		{
			"arrows", "graph TD\nA -.-> B\nA ==> B\nA --- B\nA -.- B\nA === B\nA ~~~ B\nA ---> B\nA <--> B\nA --o B\n" +
				"A --x B",
			"A\nB\nA dotted B\nA thick B\nA solid B (no head)\nA dotted B (no head)\nA thick B (no head)\nA " +
				"invisible B (no head)\nA solid B\nA solid B (both)\nA solid B (no head)\nA solid B (no head)", "",
		},
		{
			"labels",
			"graph TD\nA -->|x < 0.5| B\nA -- some text --> B\nA --text--> B\nA -. dots .-> B\nA == thick ==> B\n" +
				"A -.->|\"quoted\"| B\nA --open--> B\nA -->|a-b -> c| B",
			"A\nB\nA solid B \"x < 0.5\"\nA solid B \"some text\"\nA solid B \"text\"\nA dotted B \"dots\"\n" +
				"A thick B \"thick\"\nA dotted B \"quoted\"\nA solid B \"open\"\nA solid B \"a-b -> c\"",
			"",
		},
		{"several", "graph TD\nA & B --> C & D", "A\nB\nC\nD\nA solid C\nA solid D\nB solid C\nB solid D", ""},
		{
			"subgraphs",
			"graph TD\nsubgraph crew[The Crew]\n  A[a]\n  B[b]\nend\nsubgraph Other Title\n  C\nend\nX --> crew --> C",
			"A[a] in crew\nB[b] in crew\nC in Other Title\nX\nX solid crew\ncrew solid C",
			"",
		},
		{
			"classes",
			"graph TD\n%% a comment\nA[x]:::big --> B; B --> C %% another\nclassDef haiku " +
				"fill:#059669,stroke:#047857\n" +
				"class A,B haiku\nstyle A fill:#fff\nlinkStyle 0 stroke:red",
			"A[x]:big:haiku\nB:haiku\nC\nA solid B\nB solid C",
			"",
		},
		{
			"quotes", "graph TD\nA[\"with [brackets] (here)\"] --> end1[done]",
			"A[with [brackets] (here)]\nend1[done]\nA solid end1", "",
		},
		{"hyphens", "graph TD\nkg-health --> my.node-2", "kg-health\nmy.node-2\nkg-health solid my.node-2", ""},

		{"no header", "A --> B", "A\nB\nA solid B", "MMD001"},
		{"another diagram", "sequenceDiagram\nA->>B: hi", "", "MMD001"},
		{"an arrow to nowhere", "graph TD\nA -->\nB --> C", "A\nB\nC\nB solid C", "MMD002"},
		{"what it cannot read", "graph TD\nA => B\nB --> C", "A\nB\nC\nB solid C", "MMD002"},
		{"half a label", "graph TD\nA -->|x B", "A", "MMD002"},
		{"no end", "graph TD\nsubgraph s\nA", "A in s", "MMD003"},
		{"end too many", "graph TD\nA\nend", "A", "MMD003"},
		{"two labels", "graph TD\nA[a] --> B\nA[b] --> C", "A[a]\nB\nC\nA solid B\nA solid C", "MMD004"},
		{"class of an undeclared node", "graph TD\nA\nclass Z x", "A", "MMD002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := source.NewFile("x.md", c.chart)
			chart, list := text.ParseFlowchart(f, 0, len(c.chart))
			if got := drawn(chart); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			var codes []string
			for _, d := range list {
				codes = append(codes, string(d.Code))
			}
			if got := strings.Join(slices.Compact(codes), " "); got != c.codes {
				t.Errorf("codes %q, want %q: %v", got, c.codes, list)
			}
		})
	}
}

func FuzzFlowchart(f *testing.F) {
	f.Add("graph TD\nA[x] -->|l| B & C\nsubgraph s[t]\nD\nend\nclass A,B c")
	f.Add("flowchart LR;A-.->B;C==>D")
	f.Fuzz(func(t *testing.T, chart string) {
		file := source.NewFile("x.md", chart)
		c, list := text.ParseFlowchart(file, 0, len(chart))
		for _, d := range list {
			if d.Span.Start < 0 || d.Span.End > len(chart) || d.Span.Start > d.Span.End {
				t.Errorf("span %+v", d.Span)
			}
		}
		for _, e := range c.Edges {
			for _, id := range []string{e.From, e.To} {
				if c.Node(id) == nil && c.Subgraph(id) == nil {
					t.Errorf("an edge to %q, which is not there", id)
				}
			}
		}
	})
}
