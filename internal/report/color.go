package report

import "github.com/espalier-run/espalier/internal/ir"

// Color is a color of the terminal's palette, which follows the user's theme.
type Color string

// Colors.
const (
	Plain  Color = ""
	Bold   Color = "1"
	Dim    Color = "2"
	Red    Color = "31"
	Green  Color = "32"
	Amber  Color = "33"
	Blue   Color = "34"
	Purple Color = "35"
	Cyan   Color = "36" // used for teal
)

// Paint returns text in the color.
func (c Color) Paint(text string) string {
	if c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Palette paints text if it is true.
type Palette bool

// Paint returns text, in the color if colors are enabled.
func (p Palette) Paint(c Color, text string) string {
	if !p {
		return text
	}
	return c.Paint(text)
}

// Color returns the color of a step, as in pictures of workflows.
func (s *Step) Color() Color {
	if s.Info == nil {
		return KindColor(s.Kind)
	}
	switch a := s.Info.Step.Action.(type) {
	case ir.Task:
		switch a.Describe().Nature {
		case ir.Asks:
			return Purple
		case ir.Computes:
			return Blue
		case ir.Combines:
			return Cyan
		}
		return Green
	case ir.Parallel:
		return Cyan
	case ir.Gate:
		return Red
	case ir.Call:
		return Purple
	case ir.Route:
		return Amber
	}
	return Plain
}

// KindColor returns the color of the kind of step that a record names. Records do not say what the step's task does.
func KindColor(kind string) Color {
	switch kind {
	case "transform", "script":
		return Blue
	case KindParallel:
		return Cyan
	case "gate", "waitpoint":
		return Red
	case KindAgent, KindCall, "skill", "worker":
		return Purple
	case "decision", "route":
		return Amber
	case KindTerminal, KindForEach, KindWhile, KindWorkflow:
		return Plain
	}
	return Green // other kinds act on the world, like a tool
}
