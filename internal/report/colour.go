package report

// Colour is a colour of the terminal's own palette, so that it goes with the
// reader's theme.
type Colour string

// The colours.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Amber  Colour = "33"
	Blue   Colour = "34"
	Purple Colour = "35"
	Cyan   Colour = "36" // stands for teal
)

// Paint puts text in the colour.
func (c Colour) Paint(text string) string {
	if c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// KindColour is the colour of a kind of step, as pictures of workflows have it.
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
	return Green // a kind that is not listed acts on the world, like a tool
}
