package graph

// card is the appearance of a node or of the head of a frame: its size, and its text, relative to its top left corner.
type card struct {
	w, h  float64
	shape cardShape
	texts []cardText
	icon  Icon
	iconX float64 // center
	iconY float64
	// iconSize is the side length of the icon.
	iconSize float64
}

type cardShape int

const (
	shapeStep cardShape = iota
	shapeHexagon
	shapeCall
	shapePill
	shapeFile
)

type cardText struct {
	x, y  float64 // of the left end of the baseline
	text  string
	cut   fontStyle
	size  float64
	paint paint
}

// The dimensions of a card.
const (
	labelSize = 11.0
	titleSize = 15.0
	textSize  = 12.0
	noteSize  = 11.5

	cardPad      = 14.0
	cardMinWidth = 232.0
	cardMaxText  = 250.0 // maximum line width
	smallMinimum = 150.0 // minimum width of a step inside a bundle
)

// stacker places lines of text below each other.
type stacker struct {
	ruler *ruler
	x, y  float64 // left edge and top of the next line
	w     float64 // widest line so far
	texts []cardText
}

// line places one line of text, with a gap above it.
func (s *stacker) line(text string, c fontStyle, size float64, p paint, gap float64) {
	s.y += gap
	s.texts = append(s.texts, cardText{s.x, s.y + size*0.92, text, c, size, p})
	s.y += size * 1.22
	s.w = max(s.w, s.ruler.width(c, size, text))
}

// head writes the line above the title: the label and the detail.
func (s *stacker) head(label, detail string, tone Tone, room float64) {
	label = s.ruler.fit(bold, labelSize, label, room)
	w := s.ruler.width(bold, labelSize, label)
	y := s.y + labelSize*0.92
	s.texts = append(s.texts, cardText{s.x, y, label, bold, labelSize, tone.ink()})
	if detail != "" && w+40 < room {
		dot := "  ·  "
		if label == "" {
			dot = ""
		}
		detail = s.ruler.fit(regular, labelSize, dot+detail, room-w)
		s.texts = append(s.texts, cardText{s.x + w, y, detail, regular, labelSize, tone.ink()})
		w += s.ruler.width(regular, labelSize, detail)
	}
	s.w = max(s.w, w)
	s.y += labelSize * 1.22
}

// title writes a name, over several lines if it is long.
func (s *stacker) title(name string, size float64, p paint, room, gap float64) {
	const most = 4
	for _, l := range s.ruler.wrap(bold, size, name, room, most) {
		s.line(l, bold, size, p, gap)
		gap = 0
	}
}

// text writes a description, over a few lines.
func (s *stacker) text(text string, p paint, room float64, most int) {
	gap := 3.0
	for _, l := range s.ruler.wrap(regular, textSize, text, room, most) {
		s.line(l, regular, textSize, p, gap)
		gap = 0
	}
}

func (s *stacker) notes(notes []Note, p paint, room float64) {
	for i, n := range notes {
		gap := 1.0
		if i == 0 {
			gap = 4
		}
		for j, l := range s.ruler.wrap(italic, noteSize, n.String(), room, 2) {
			if j > 0 {
				gap = 0
			}
			s.line(l, italic, noteSize, p, gap)
		}
	}
}

func (r *ruler) card(n *Node, textLines int) *card {
	switch n.Kind {
	case NodeTrigger, NodeStart, NodeWait:
		return r.pill(n, 13, 20, 9)
	case NodeEnd:
		return r.pill(n, 13, 18, 8)
	case NodeFail, NodeExit:
		return r.pill(n, 11, 14, 5)
	case NodeArtifact:
		return r.file(n)
	default:
		return r.step(n, textLines)
	}
}

// step returns the card of a step, with a few lines of its description.
func (r *ruler) step(n *Node, textLines int) *card {
	c := &card{}
	pad, width := cardPad, cardMinWidth
	if n.Group != "" {
		width = smallMinimum
	}
	switch {
	case n.Tone == ToneDecision:
		c.shape = shapeHexagon
		pad = 24
	case n.Icon == IconNested:
		c.shape = shapeCall
		pad = 18
	}
	s := r.headed(n, c, pad, cardMaxText, n.Tone.title())
	inner := max(s.w, width-2*pad)
	s.text(n.Text, n.Tone.body(), inner, textLines)
	s.notes(n.Notes, n.Tone.body(), inner)
	c.texts = s.texts
	c.w = max(width, s.w+2*pad)
	c.h = s.y + 11
	return c
}

// headed writes an icon, the line beside it and the title.
func (r *ruler) headed(n *Node, c *card, pad, room float64, title paint) *stacker {
	const iconRoom = 18.0
	c.icon, c.iconSize, c.iconX, c.iconY = n.Icon, 13, pad+6.5, 11+labelSize*0.55
	s := &stacker{ruler: r, x: pad + iconRoom, y: 11}
	s.head(n.Label, n.Detail, n.Tone, room-iconRoom)
	s.w += iconRoom
	s.x -= iconRoom
	s.title(n.Title, titleSize, title, room, 4)
	return s
}

// pill returns the card of a small node: an icon, a title, and one or two more lines.
func (r *ruler) pill(n *Node, size, icon, pad float64) *card {
	c := &card{shape: shapePill, icon: n.Icon, iconSize: icon}
	s := &stacker{ruler: r, x: pad + icon + 8, y: pad}
	s.title(n.Title, size, n.Tone.title(), cardMaxText, 0)
	second := ""
	switch {
	case n.Kind == NodeTrigger:
		second = n.Label
		if n.Text != "" {
			second += "  ·  " + n.Text
		}
		if n.Off {
			second += "  ·  disabled"
		}
	case n.Kind != NodeWait, len(n.Notes) == 0:
		second = n.Text
	}
	for _, l := range r.wrap(regular, labelSize, second, 190, 2) {
		s.line(l, regular, labelSize, n.Tone.body(), 1)
	}
	s.notes(n.Notes, n.Tone.body(), 200)
	c.texts = s.texts
	c.h = max(s.y+pad, icon+2*pad)
	if len(s.texts) == 1 { // center a single line
		c.texts[0].y = c.h/2 + size*0.35
	}
	c.w = s.x + s.w + pad + 8
	c.iconX, c.iconY = pad+icon/2+2, c.h/2
	return c
}

func (r *ruler) file(n *Node) *card {
	c := &card{shape: shapeFile, icon: n.Icon, iconSize: 13, h: 30}
	title := r.fit(regular, textSize, n.Title, 190)
	c.texts = []cardText{{30, 19.5, title, regular, textSize, paintText}}
	c.w = 30 + r.width(regular, textSize, title) + 18
	c.iconX, c.iconY = 18, 15
	return c
}

// frameHead returns the head of a frame. Its width is the minimum width of the frame, and it may be wider than room.
func (r *ruler) frameHead(g *Group, room float64) *card {
	c := &card{}
	room = max(room-2*cardPad, cardMaxText)
	s := r.headed(&g.Node, c, cardPad, room, paintText)
	s.text(g.Text, paintMuted, room, 2)
	s.notes(g.Notes, paintMuted, room)
	c.texts = s.texts
	c.w = s.w + 2*cardPad
	c.h = s.y
	return c
}
