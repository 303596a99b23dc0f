package report

// Colour is a color of the terminal's palette, which follows the user's theme.
type Colour string

// Colors.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Amber  Colour = "33"
	Blue   Colour = "34"
	Purple Colour = "35"
	Cyan   Colour = "36" // used for teal
)

// Paint returns text in the color.
func (c Colour) Paint(text string) string {
	if c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Palette paints text if it is true.
type Palette bool

// Paint returns text, in the color if colors are enabled.
func (p Palette) Paint(c Colour, text string) string {
	if !p {
		return text
	}
	return c.Paint(text)
}

// KindColour returns the color of a kind of step, as in pictures of workflows.
func KindColour(kind string) Colour {
	switch kind {
	case "transform", "script":
		return Blue
	case KindParallel:
		return Cyan
	case "gate", "waitpoint":
		return Red
	case KindAgent, KindCall:
		return Purple
	case "decision", "route":
		return Amber
	case KindTerminal, KindForEach, KindWhile, KindWorkflow:
		return Plain
	}
	return Green // other kinds act on the world, like a tool
}
