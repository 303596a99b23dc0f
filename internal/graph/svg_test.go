package graph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// element is a start tag of an SVG.
type element struct {
	name  string
	attrs map[string]string
}

func readSVG(t *testing.T, svg []byte) []element {
	t.Helper()
	var all []element
	d := xml.NewDecoder(bytes.NewReader(svg))
	d.Strict = true
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok {
			e := element{name: start.Name.Local, attrs: map[string]string{}}
			for _, a := range start.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			all = append(all, e)
		}
	}
}

// allowed returns a text as XML can represent it.
func allowed(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, s)
}

func TestSVGIsAccessibleAndComplete(t *testing.T) {
	for name, program := range samples() {
		t.Run(name, func(t *testing.T) {
			g := Build(program, Options{Data: true})
			var out bytes.Buffer
			if err := g.SVG(&out); err != nil {
				t.Fatal(err)
			}
			elements := readSVG(t, out.Bytes())
			root := elements[0]
			if root.name != "svg" || root.attrs["viewBox"] == "" || root.attrs["role"] != "img" ||
				root.attrs["aria-labelledby"] != "graph-title" {
				t.Errorf("root element: %v", root)
			}
			ids := map[string]element{}
			for _, e := range elements {
				if id := e.attrs["id"]; id != "" {
					if _, twice := ids[id]; twice {
						t.Errorf("two elements have the id %q", id)
					}
					ids[id] = e
				}
			}
			for _, e := range elements {
				if href, ok := e.attrs["href"]; ok {
					if _, there := ids[strings.TrimPrefix(href, "#")]; !there || href[0] != '#' {
						t.Errorf("link to %q", href)
					}
				}
				for attr, value := range e.attrs {
					if attr != "xmlns" && strings.Contains(value, "://") {
						t.Errorf("%s=%q leads outside", attr, value)
					}
				}
			}
			for _, n := range g.Nodes {
				e, there := ids[n.ID]
				if !there && n.Kind != NodeArtifact {
					t.Errorf("%q is not in the picture", n.ID)
				}
				if there && (e.attrs["data-step"] != allowed(n.Step) || !strings.Contains(e.attrs["class"], "tone-"+
					string(n.Tone))) {
					t.Errorf("%q: %v", n.ID, e)
				}
			}
			for _, c := range g.Groups {
				if ids[c.ID].attrs["data-step"] != allowed(c.Step) {
					t.Errorf("%q: %v", c.ID, ids[c.ID])
				}
			}
			for _, edge := range g.Edges {
				if e := ids[edge.ID]; e.name != "" && !strings.Contains(e.attrs["class"], "edge-"+string(edge.Kind)) {
					t.Errorf("%q: %v", edge.ID, e)
				}
			}
			for _, banned := range []string{"<script", "<image", "<foreignObject", "url(", "@import", "@font-face"} {
				if strings.Contains(out.String(), banned) {
					t.Errorf("%s in the picture", banned)
				}
			}
		})
	}
}

func TestStepIDsInBundlesIncludeTheBundle(t *testing.T) {
	g := Build(twelveSteps(), Options{})
	found := false
	for _, n := range g.Nodes {
		if n.ID == "step-research.web_reader" {
			found = n.Step == "research.web_reader" && n.Group == "step-research"
		}
	}
	if !found {
		t.Error("there is no step-research.web_reader in its bundle")
	}
}

func TestSVGShowsStatesAndTakenPath(t *testing.T) {
	g := Build(fiveSteps(), Options{})
	for i := range g.Nodes {
		if g.Nodes[i].ID == "step-send" {
			g.Nodes[i].State = "running"
		}
	}
	for i := range g.Edges {
		if g.Edges[i].To == "step-send" {
			g.Edges[i].Taken = true
		}
	}
	var out bytes.Buffer
	if err := g.SVG(&out); err != nil {
		t.Fatal(err)
	}
	state, taken := false, false
	for _, e := range readSVG(t, out.Bytes()) {
		state = state || e.attrs["id"] == "step-send" && e.attrs["data-state"] == "running"
		taken = taken || strings.HasSuffix(e.attrs["class"], " taken") && e.attrs["data-to"] == "step-send"
	}
	if !state || !taken {
		t.Errorf("state shown: %v, path shown: %v", state, taken)
	}
}

func TestPNGIsOpaqueAndColored(t *testing.T) {
	var out bytes.Buffer
	if _, err := Build(fiveSteps(), Options{}).PNG(&out); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[3]uint32]bool{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, a := img.At(x, y).RGBA()
			if a != 0xFFFF {
				t.Fatalf("pixel %d, %d is not opaque", x, y)
			}
			seen[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	light := palette()
	for _, p := range []paint{
		paintPage, ToneSkill.fill(), ToneSkill.line(), ToneTool.fill(), ToneEnd.fill(),
		paintText,
	} {
		c := light[p]
		if !seen[[3]uint32{c >> 16, c >> 8 & 0xFF, c & 0xFF}] {
			t.Errorf("%s is nowhere in the picture", p)
		}
	}
}

func TestPNGSizeIsBounded(t *testing.T) {
	for _, s := range []scene{{w: 100, h: 4e6}, {w: 90_000, h: 90_000}, {w: 1, h: 1}} {
		r, err := newRuler()
		if err != nil {
			t.Fatal(err)
		}
		size := newCanvas(&s, r, palette()).img.Bounds()
		if size.Dx() < 1 || size.Dy() < 1 || size.Dx() > pngMaxSide || size.Dy() > pngMaxSide ||
			size.Dx()*size.Dy() > pngMaxArea {
			t.Errorf("%v by %v becomes %v", s.w, s.h, size)
		}
	}
}

func TestEmptyProgramCanBeDrawn(t *testing.T) {
	for _, p := range []*ir.Program{{}, {Blocks: []ir.Block{{}}}} {
		g := Build(p, Options{Data: true})
		for _, write := range []func(io.Writer) error{g.SVG, pngOf(g), g.Mermaid, g.DOT, g.JSON} {
			if err := write(io.Discard); err != nil {
				t.Error(err)
			}
		}
	}
}

// pngOf returns the PNG writer of a graph without its gaps.
func pngOf(g *Graph) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := g.PNG(w)
		return err
	}
}
