package graph

import (
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Tone determines the color of a node. Tones are also class names.
type Tone string

// The tones.
const (
	ToneTransform Tone = "transform"
	ToneTool      Tone = "tool"
	ToneBundle    Tone = "bundle"
	ToneGate      Tone = "gate"
	ToneSkill     Tone = "skill"
	ToneDecision  Tone = "decision"
	ToneLoop      Tone = "loop"
	ToneEnd       Tone = "end"
	ToneNeutral   Tone = "neutral" // triggers, artifacts
	ToneError     Tone = "error"   // the end of an edge that fails the run
)

// Icon is a small symbol on a node.
type Icon string

// The icons.
const (
	IconClock    Icon = "clock"
	IconBolt     Icon = "bolt"
	IconCode     Icon = "code"
	IconPlay     Icon = "play"
	IconPerson   Icon = "person"
	IconCheck    Icon = "check"
	IconSplit    Icon = "split"
	IconParallel Icon = "parallel"
	IconRepeat   Icon = "repeat"
	IconNested   Icon = "nested"
	IconSpark    Icon = "spark"
	IconGear     Icon = "gear"
	IconWrench   Icon = "wrench"
	IconFile     Icon = "file"
	IconCross    Icon = "cross"
	IconLeave    Icon = "leave"
	IconStop     Icon = "stop"
)

// toneAndIcon returns the tone and icon of a step. They depend on its action, not on its format. Unlisted task kinds
// have side effects, like a tool.
func toneAndIcon(a ir.Action) (Tone, Icon) {
	switch a := a.(type) {
	case ir.Task:
		switch a.Kind {
		case "agent":
			return ToneSkill, IconSpark
		case "transform", "script":
			return ToneTransform, IconGear
		case "combine":
			return ToneBundle, IconParallel
		default:
			return ToneTool, IconWrench
		}
	case ir.Route:
		return ToneDecision, IconSplit
	case ir.Gate:
		switch a.Decider {
		case ir.Person:
			return ToneGate, IconPerson
		case ir.Event:
			return ToneGate, IconClock
		default:
			return ToneGate, IconCheck
		}
	case ir.Parallel:
		return ToneBundle, IconParallel
	case ir.Loop:
		return ToneLoop, IconRepeat
	case ir.Call:
		return ToneSkill, IconNested
	case ir.End:
		return ToneEnd, IconStop
	default:
		return ToneNeutral, ""
	}
}

// triggerIcon returns the icon of a trigger.
func triggerIcon(k ir.TriggerKind) Icon {
	switch k {
	case ir.OnSchedule:
		return IconClock
	case ir.OnEvent, ir.OnFile:
		return IconBolt
	case ir.OnAPI:
		return IconCode
	default:
		return IconPlay
	}
}

// paint names a color, which depends on the theme.
type paint string

// The paints without a tone.
const (
	paintPage  paint = "page"  // behind everything
	paintText  paint = "text"  // titles
	paintMuted paint = "muted" // descriptions and labels
	paintEdge  paint = "edge"
	paintError paint = "error-edge"
	paintData  paint = "data-edge"
)

// fill, line and ink are the three paints of a tone: its surface, its outline and the text on it.
func (t Tone) fill() paint { return paint(t) + "-fill" }
func (t Tone) line() paint { return paint(t) + "-line" }
func (t Tone) ink() paint  { return paint(t) + "-ink" }

// title returns the paint of titles on a surface of the tone.
func (t Tone) title() paint { return t.text(paintText) }

// body returns the paint of plain text on a surface of the tone.
func (t Tone) body() paint { return t.text(paintMuted) }

// text returns the paint of text on a surface of the tone, given that of text on the others.
func (t Tone) text(usual paint) paint {
	if t == ToneEnd {
		return ToneEnd.ink()
	}
	return usual
}

// themeColor is a paint in both themes, as 0xRRGGBB.
type themeColor struct {
	paint       paint
	light, dark uint32
}

// toneColors are the tones in the order in which styles are written. Tests check that text has enough contrast in both
// themes.
var toneColors = []struct {
	tone        Tone
	light, dark [3]uint32 // fill, line, ink
}{
	{ToneTransform, [3]uint32{0xEAF2FE, 0x3B82F6, 0x1D4ED8}, [3]uint32{0x15233D, 0x5B9BFF, 0x9CC5FF}},
	{ToneTool, [3]uint32{0xE8F7ED, 0x22A35A, 0x146B39}, [3]uint32{0x12291C, 0x3FBF77, 0x8CE3B0}},
	{ToneBundle, [3]uint32{0xE6F6F5, 0x14A3A0, 0x0A6866}, [3]uint32{0x10282A, 0x2FC4C0, 0x86E6E2}},
	{ToneGate, [3]uint32{0xFFEEEB, 0xF0604D, 0xB12F1F}, [3]uint32{0x371B17, 0xFF7F6E, 0xFFB5AA}},
	{ToneSkill, [3]uint32{0xF3EEFE, 0x8B5CF6, 0x6428D8}, [3]uint32{0x251C3D, 0xA78BFA, 0xCDBBFF}},
	{ToneDecision, [3]uint32{0xFFF5DC, 0xE59A0B, 0x855000}, [3]uint32{0x332709, 0xF5B63B, 0xFFD685}},
	{ToneLoop, [3]uint32{0xEEF1F8, 0x6478B4, 0x3D4F88}, [3]uint32{0x1B2134, 0x8496D0, 0xB9C5EE}},
	{ToneEnd, [3]uint32{0x3D434E, 0x3D434E, 0xFFFFFF}, [3]uint32{0x4A515E, 0x7B8494, 0xFFFFFF}},
	{ToneNeutral, [3]uint32{0xF5F6F8, 0x9AA1AD, 0x4B5260}, [3]uint32{0x20242C, 0x6B7380, 0xC0C7D2}},
	{ToneError, [3]uint32{0xFDECEA, 0xD92D20, 0xA81E13}, [3]uint32{0x3A1715, 0xFF6B5E, 0xFFB3AC}},
}

// colors returns all paints.
func colors() []themeColor {
	var all []themeColor
	for _, t := range toneColors {
		all = append(all,
			themeColor{t.tone.fill(), t.light[0], t.dark[0]},
			themeColor{t.tone.line(), t.light[1], t.dark[1]},
			themeColor{t.tone.ink(), t.light[2], t.dark[2]})
	}
	return append(all,
		themeColor{paintPage, 0xFFFFFF, 0x101318},
		themeColor{paintText, 0x1B1F27, 0xF0F2F6},
		themeColor{paintMuted, 0x525967, 0xAEB6C3},
		themeColor{paintEdge, 0x5F6775, 0x949DAB},
		themeColor{paintError, 0xD92D20, 0xFF6B5E},
		themeColor{paintData, 0x868E9C, 0x7D8695})
}

// theme maps paints to colors.
type theme map[paint]uint32

// palette returns the light theme.
func palette() theme {
	t := theme{}
	for _, c := range colors() {
		t[c.paint] = c.light
	}
	return t
}

// hex returns a color as in CSS.
func (t theme) hex(p paint) string { return fmt.Sprintf("#%06x", t[p]) }

// stateTone returns the tone of a run state. Unlisted states are neutral.
func stateTone(state journal.State) Tone {
	switch state {
	case journal.StateRunning:
		return ToneTransform
	case journal.StateOK:
		return ToneTool
	case journal.StateWaiting, journal.StateSleeping, journal.StateUnknown:
		return ToneDecision
	case journal.StateFailed, journal.State(journal.OutcomeRejected):
		return ToneError
	default:
		return ToneNeutral
	}
}
