package graph

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// The limits of a PNG: two pixels per unit, unless a side or the area becomes too large. The sides are in pixels. An
// image of the largest area takes 200 MB of memory, at four bytes per pixel.
const (
	pngScale   = 2.0
	pngMaxSide = 16_000.0
	pngMaxArea = 50e6
)

// PNG writes the picture in the light theme, on an opaque page. Characters that the Go fonts lack come from the fonts
// of the system. gaps describes the ones that are missing there, too.
func (g *Graph) PNG(w io.Writer) (gaps Gaps, err error) {
	return g.png(w, systemFontDirs())
}

// png writes the picture. Characters that the Go fonts lack are looked for in the fonts of fontDirs.
func (g *Graph) png(w io.Writer, fontDirs []string) (Gaps, error) {
	p, err := arrange(g, &large)
	if err != nil {
		return Gaps{}, err
	}
	r, err := newRuler()
	if err != nil {
		return Gaps{}, err
	}
	c := newCanvas(compose(g, p), r, palette())
	c.fallback = findGlyphs(c.missing(), fontDirs)
	defer c.fallback.close()
	c.paint()
	e := png.Encoder{CompressionLevel: png.BestSpeed}
	return c.gaps, e.Encode(w, c.img)
}

// Gaps is the text that a PNG cannot show as it should be.
type Gaps struct {
	Missing  string // characters without a glyph, which are boxes in the picture
	Unshaped string // characters that are shown, but not joined with their neighbors
}

// Notes returns one sentence for people about each kind of gap.
func (g Gaps) Notes() []string {
	var notes []string
	if g.Missing != "" {
		notes = append(notes, "No installed font has these characters, which the PNG shows as boxes: "+
			shorten(g.Missing, 40)+"\nInstall a font that has them, for example Noto Sans, or draw an SVG.")
	}
	if g.Unshaped != "" {
		notes = append(notes, "The PNG shows these letters without joining them: "+shorten(g.Unshaped, 40)+
			"\nDraw an SVG to show them correctly.")
	}
	return notes
}

// newCanvas returns an empty canvas in the largest scale that the limits allow.
func newCanvas(s *scene, r *ruler, t theme) *canvas {
	scale := min(pngScale, pngMaxSide/s.w, pngMaxSide/s.h, math.Sqrt(pngMaxArea/(s.w*s.h)))
	return &canvas{
		scene: s, ruler: r, scale: scale, theme: t,
		img: image.NewRGBA(image.Rect(0, 0, max(1, int(s.w*scale)), max(1, int(s.h*scale)))),
	}
}

// paint paints the shapes in the order of the scene, each above those before it.
func (c *canvas) paint() {
	draw.Draw(c.img, c.img.Bounds(), image.NewUniform(c.color(paintPage)), image.Point{}, draw.Src)
	for i := range c.scene.parts {
		for j := range c.scene.parts[i].shapes {
			c.shape(&c.scene.parts[i].shapes[j])
		}
	}
}

// missing returns the characters of the picture that the Go fonts lack. All are collected before painting begins, so
// that each font of the system is opened only once, and none if the Go fonts suffice.
func (c *canvas) missing() []rune {
	seen := map[rune]bool{}
	for i := range c.scene.parts {
		for _, s := range c.scene.parts[i].shapes {
			if s.text == nil {
				continue
			}
			for _, ch := range s.text.text {
				if seen[ch] || unicode.IsSpace(ch) || c.ruler.advance(s.text.cut, ch) == 0 {
					continue
				}
				if g, err := c.ruler.fonts[s.text.cut].GlyphIndex(&c.ruler.buffer, ch); err != nil || g == 0 {
					seen[ch] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// canvas paints a scene. It paints everything as filled polygons: lines become the polygons that cover them.
type canvas struct {
	scene    *scene
	ruler    *ruler
	scale    float64
	theme    theme
	img      *image.RGBA
	raster   vector.Rasterizer
	fallback *fallbackFonts
	gaps     Gaps
}

// color returns the color of a paint in the theme of the picture.
func (c *canvas) color(p paint) color.RGBA {
	v := c.theme[p]
	return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xFF}
}

// shape paints a shape: text, or first its surface and then its outline. Very thin lines are widened, or they would
// fade.
func (c *canvas) shape(s *shape) {
	if s.text != nil {
		c.fill(c.glyphs(s.text), s.fill)
		return
	}
	lines := flatten(s.path, c.scale)
	if s.fill != "" {
		c.fill(lines, s.fill)
	}
	if s.stroke != "" {
		width := max(s.width*c.scale, 0.6)
		var outline [][]point
		for _, l := range lines {
			for _, piece := range dashes(l, s.dash, s.phase, c.scale) {
				outline = append(outline, strokePieces(piece, width/2)...)
			}
		}
		c.fill(outline, s.stroke)
	}
}

// fill paints closed polygons, given in pixels. It rasterizes only the area that they cover.
func (c *canvas) fill(polygons [][]point, p paint) {
	e := newExtent()
	for _, poly := range polygons {
		e.cover(poly...)
	}
	if e.left > e.right {
		return
	}
	area := image.Rect(int(math.Floor(e.left)), int(math.Floor(e.top)), int(math.Ceil(e.right))+1,
		int(math.Ceil(e.bottom))+1)
	if area.Intersect(c.img.Bounds()).Empty() {
		return
	}
	c.raster.Reset(area.Dx(), area.Dy())
	ox, oy := float64(area.Min.X), float64(area.Min.Y)
	for _, poly := range polygons {
		if len(poly) < 2 {
			continue
		}
		c.raster.MoveTo(float32(poly[0].x-ox), float32(poly[0].y-oy))
		for _, pt := range poly[1:] {
			c.raster.LineTo(float32(pt.x-ox), float32(pt.y-oy))
		}
		c.raster.ClosePath()
	}
	c.raster.Draw(c.img, area, image.NewUniform(c.color(p)), image.Point{})
}

// flatten converts a path to polylines, in pixels.
func flatten(p path, scale float64) [][]point {
	var all [][]point
	var now []point
	at := func(q point) point { return point{q.x * scale, q.y * scale} }
	for _, c := range p {
		a, b, d := at(c.points[0]), at(c.points[1]), at(c.points[2])
		switch c.op {
		case 'M':
			if len(now) > 1 {
				all = append(all, now)
			}
			now = []point{a}
		case 'L':
			now = append(now, a)
		case 'Q':
			from := now[len(now)-1]
			now = bezier(now, from, mix(from, a, 2.0/3), mix(b, a, 2.0/3), b)
		case 'C':
			now = bezier(now, now[len(now)-1], a, b, d)
		case 'Z':
			if len(now) > 0 {
				now = append(now, now[0])
			}
		}
	}
	if len(now) > 1 {
		all = append(all, now)
	}
	return all
}

// mix returns the point between a and b, at a when t is 0 and at b when t is 1.
func mix(a, b point, t float64) point { return point{a.x + (b.x-a.x)*t, a.y + (b.y-a.y)*t} }

// bezier appends the points of a cubic curve, about three pixels apart, by the algorithm of De Casteljau. p0 is already
// there.
func bezier(to []point, p0, p1, p2, p3 point) []point {
	length := math.Hypot(p1.x-p0.x, p1.y-p0.y) + math.Hypot(p2.x-p1.x, p2.y-p1.y) + math.Hypot(p3.x-p2.x, p3.y-p2.y)
	steps := int(min(max(length/3, 6), 60))
	for i := 1; i <= steps; i++ {
		t := float64(i) / float64(steps)
		a, b, c := mix(p0, p1, t), mix(p1, p2, t), mix(p2, p3, t)
		d, e := mix(a, b, t), mix(b, c, t)
		to = append(to, mix(d, e, t))
	}
	return to
}

// dashes cuts a line into its visible pieces. pattern has the lengths of dashes and gaps in turn, as in
// stroke-dasharray, and phase is like stroke-dashoffset, both before scaling.
func dashes(line []point, pattern []float64, phase, scale float64) [][]point {
	if len(pattern) == 0 {
		return [][]point{line}
	}
	var all [][]point
	now := []point{line[0]}
	on, index := true, 0
	for phase >= pattern[index] {
		phase -= pattern[index]
		on = !on
		index = (index + 1) % len(pattern)
	}
	left := (pattern[index] - phase) * scale
	for i := 1; i < len(line); i++ {
		from := line[i-1]
		for {
			l := math.Hypot(line[i].x-from.x, line[i].y-from.y)
			if l <= left {
				left -= l
				now = append(now, line[i])
				break
			}
			from = toward(from, line[i], left)
			now = append(now, from)
			if on {
				all = append(all, now)
			}
			on = !on
			index = (index + 1) % len(pattern)
			left = pattern[index] * scale
			now = []point{from}
		}
	}
	if on && len(now) > 1 {
		all = append(all, now)
	}
	return all
}

// strokePieces returns the polygons that cover a line of some width: a bar for each straight piece and a disc for each
// joint, all with the same winding so that overlaps add up. Very thin lines need no discs.
func strokePieces(line []point, half float64) [][]point {
	var all [][]point
	for i := 1; i < len(line); i++ {
		a, b := line[i-1], line[i]
		l := math.Hypot(b.x-a.x, b.y-a.y)
		if l < 1e-6 {
			continue
		}
		dx, dy := -(b.y-a.y)/l*half, (b.x-a.x)/l*half
		all = append(all, []point{
			{a.x - dx, a.y - dy},
			{b.x - dx, b.y - dy},
			{b.x + dx, b.y + dy},
			{a.x + dx, a.y + dy},
		})
	}
	if half < 0.6 {
		return all
	}
	corners := max(8, int(half*5))
	for _, p := range line {
		disc := make([]point, corners)
		for k := range disc {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(corners))
			disc[k] = point{p.x + half*cos, p.y + half*sin}
		}
		all = append(all, disc)
	}
	return all
}

// glyphs returns the outlines of a text. A character that no font has becomes an empty box of its measured width. Text
// takes the space that the layout has measured: a glyph from another font is never wider than its measured width.
func (c *canvas) glyphs(t *sceneText) [][]point {
	width := c.ruler.width(t.cut, t.size, t.text)
	x := 0.0
	if t.anchor == anchorMiddle {
		x = -width / 2
	}
	place := func(px, py float64) point {
		if t.upward {
			px, py = py, -px
		}
		return point{(t.x + px) * c.scale, (t.y + py) * c.scale}
	}
	var all [][]point
	for _, ch := range visualOrder(t.text) {
		advance := c.ruler.advance(t.cut, ch) * t.size
		f := c.ruler.fonts[t.cut]
		glyph, err := f.GlyphIndex(&c.ruler.buffer, ch)
		if err != nil || glyph == 0 {
			if advance == 0 || unicode.IsSpace(ch) {
				x += advance
				continue
			}
			found := c.findGlyph(ch)
			if found.font == nil {
				w, h := advance*0.8, t.size*0.7
				all = append(all,
					[]point{place(x+1, 0), place(x+w, 0), place(x+w, -h), place(x+1, -h), place(x+1, 0)},
					[]point{place(x+2, -1), place(x+2, 1-h), place(x+w-1, 1-h), place(x+w-1, -1), place(x+2, -1)})
				x += advance
				continue
			}
			f, glyph = found.font, found.index
			advance = min(advance, found.advance*t.size)
		}
		all = append(all, c.outline(f, glyph, t.size, func(px, py float64) point { return place(x+px, py) })...)
		x += advance
	}
	return all
}

// findGlyph returns the glyph of a character that the Go fonts lack, and notes what is missing.
func (c *canvas) findGlyph(ch rune) fallbackGlyph {
	g := c.fallback.glyphs[ch]
	switch {
	case g.font == nil && !strings.ContainsRune(c.gaps.Missing, ch):
		c.gaps.Missing += string(ch)
	case g.font != nil && needsShaping(ch) && !strings.ContainsRune(c.gaps.Unshaped, ch):
		c.gaps.Unshaped += string(ch)
	}
	return g
}

// outline returns the polygons of one glyph. place converts coordinates of the scene, relative to the start of the
// glyph's baseline, to pixels. A glyph that cannot be loaded is left out.
func (c *canvas) outline(f *sfnt.Font, glyph sfnt.GlyphIndex, size float64, place func(x, y float64) point) [][]point {
	const em = 1024
	segments, err := f.LoadGlyph(&c.ruler.buffer, glyph, fixed.I(em), nil)
	if err != nil {
		return nil
	}
	unit := size / em / 64
	at := func(p fixed.Point26_6) point { return place(float64(p.X)*unit, float64(p.Y)*unit) }
	ops := map[sfnt.SegmentOp]byte{
		sfnt.SegmentOpMoveTo: 'M', sfnt.SegmentOpLineTo: 'L', sfnt.SegmentOpQuadTo: 'Q', sfnt.SegmentOpCubeTo: 'C',
	}
	p := make(path, len(segments))
	for i, s := range segments {
		p[i] = command{op: ops[s.Op], points: [3]point{at(s.Args[0]), at(s.Args[1]), at(s.Args[2])}}
	}
	return flatten(p, 1)
}
