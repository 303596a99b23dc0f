package graph

import (
	"math"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

func TestToneDependsOnAction(t *testing.T) {
	for _, c := range []struct {
		action ir.Action
		want   Tone
	}{
		{ir.Task{Kind: "agent"}, ToneSkill},
		{ir.Task{Kind: "transform"}, ToneTransform},
		{ir.Task{Kind: "script"}, ToneTransform},
		{ir.Task{Kind: "tool"}, ToneTool},
		{ir.Task{Kind: "combine"}, ToneBundle},
		{ir.Task{Kind: "command"}, ToneTool},
		{ir.Route{}, ToneDecision},
		{ir.Gate{Decider: ir.Person}, ToneGate},
		{ir.Gate{Decider: ir.Event}, ToneGate},
		{ir.Parallel{}, ToneBundle},
		{ir.Loop{}, ToneLoop},
		{ir.Call{}, ToneSkill},
		{ir.End{}, ToneEnd},
	} {
		if got, _ := toneAndIcon(c.action); got != c.want {
			t.Errorf("%#v is %s, want %s", c.action, got, c.want)
		}
	}
}

// luminance and contrast follow the Web Content Accessibility Guidelines.
func luminance(rgb uint32) float64 {
	part := func(v uint32) float64 {
		c := float64(v&0xFF) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(rgb>>16) + 0.7152*part(rgb>>8) + 0.0722*part(rgb)
}

func contrast(a, b uint32) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestTextHasEnoughContrast(t *testing.T) {
	paints := colors()
	for _, dark := range []bool{false, true} {
		colors := theme{}
		for _, c := range paints {
			if colors[c.paint] = c.light; dark {
				colors[c.paint] = c.dark
			}
		}
		check := func(text, surface paint) {
			if c := contrast(colors[text], colors[surface]); c < 4.5 {
				t.Errorf("dark %v: %s on %s has a contrast of %.2f", dark, text, surface, c)
			}
		}
		surfaces := []paint{paintPage, ToneBundle.fill(), ToneLoop.fill()} // the backgrounds of edge labels
		for _, s := range surfaces {
			check(paintMuted, s)
			check(ToneError.ink(), s)
		}
		for _, one := range toneColors {
			tone := one.tone
			check(tone.title(), tone.fill())
			check(tone.body(), tone.fill())
			check(tone.ink(), tone.fill())
		}
		for _, p := range []paint{paintEdge, paintError, paintData} {
			if c := contrast(colors[p], colors[paintPage]); c < 3 {
				t.Errorf("dark %v: %s on the page has a contrast of %.2f", dark, p, c)
			}
		}
	}
}
