package steptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Case is a task of the kind, as a format would write it.
type Case struct {
	Name string
	// Settings each get a place of their own, in the order of their names.
	Settings Settings
	// Action is the step's action if it is not the task itself.
	Action ir.Action
	// Misfit settings do not decode, or describe no work.
	Misfit bool
	// Codes are the expected diagnostics, each at the setting that At maps it to.
	Codes []diag.Code
	At    []string
}

// Settings are the settings of a task, by name.
type Settings map[string]any

func (s Settings) names() []string { return slices.Sorted(maps.Keys(s)) }

// Program returns the program of the cases' tasks.
func Program() *ir.Program {
	return &ir.Program{
		Name: "suite",
		Agents: []ir.Agent{
			{ID: "plain", Role: "Writes", Goal: "Good text", MaxTokens: 1000, Model: "m"},
			{ID: "handy", Role: "Searches", Tools: []ir.Name{{Name: "search"}}},
		},
		Blocks: []ir.Block{
			{Steps: []ir.Step{{ID: "before", Writes: []ir.Write{{Path: "state.a"}}, Action: ir.Route{}}}},
		},
	}
}

// Task builds the task of a case, and the step around it.
func (c Case) Task(kind string) (*ir.Step, *ir.Task) {
	t := ir.Task{Kind: kind}
	for i, name := range c.Settings.names() {
		t.Settings.Put(name, c.Settings[name], place(i))
	}
	s := &ir.Step{
		ID: "work", Type: "work", Reads: []ir.Ref{{Path: "state.a"}}, Action: t,
		Span: source.Span{File: "f", Start: 1, End: 5},
	}
	if c.Action != nil {
		s.Action = c.Action
	}
	return s, &t
}

func place(i int) source.Span { return source.Span{File: "f", Start: 100 + 10*i, End: 105 + 10*i} }

// Run checks that a kind keeps the contract of stepkind.Kind.
func Run(t *testing.T, k stepkind.Kind, cases ...Case) {
	t.Run("name", func(t *testing.T) {
		if !regexp.MustCompile(`^[a-z]+$`).MatchString(k.Name()) {
			t.Errorf("%q is not one word in small letters", k.Name())
		}
	})
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p := Program()
			s, task := c.Task(k.Name())
			if err := errors.Join(k.Understands(task), irtest.Described(task)); (err != nil) != c.Misfit {
				t.Errorf("settings: %v", err)
			}
			checked(t, c, k.Check(p, s, task))
			bounded(t, stepkind.BoundOf(k, p, s, task))
			if !reflect.DeepEqual(stepkind.BoundOf(k, p, s, task), stepkind.BoundOf(k, p, s, task)) {
				t.Error("Bound gives two answers to one question")
			}
			uses := k.Uses(task)
			for _, n := range append(uses.Agents, uses.Tools...) {
				if n.Name == "" || n.Span.IsZero() {
					t.Errorf("Uses: %+v has no name or no place", n)
				}
			}
			strange := ir.Task{Kind: k.Name(), Settings: append(append(ir.Settings{}, task.Settings...),
				ir.Setting{Name: "no_such_setting", Value: json.RawMessage("1")})}
			if k.Understands(&strange) == nil {
				t.Error("a setting that does not exist is accepted")
			}
		})
	}
	t.Run("never panics", func(t *testing.T) { anything(t, k, cases) })
}

func checked(t *testing.T, c Case, list diag.List) {
	t.Helper()
	var codes []diag.Code
	for i, d := range list {
		codes = append(codes, d.Code)
		if !strings.HasPrefix(string(d.Code), "STEP") {
			t.Errorf("code %s is not one of the step kinds'", d.Code)
		}
		if !strings.HasSuffix(d.Message, ".") || d.Help == "" {
			t.Errorf("%s: not two whole sentences: %q, %q", d.Code, d.Message, d.Help)
		}
		if i < len(c.At) {
			if want := c.at(c.At[i]); d.Span != want {
				t.Errorf("%s points at %v, not at %v", d.Code, d.Span, want)
			}
		}
	}
	if fmt.Sprint(codes) != fmt.Sprint(c.Codes) {
		t.Errorf("got %v, want %v", list, c.Codes)
	}
}

func (c Case) at(setting string) source.Span {
	return place(slices.Index(c.Settings.names(), setting))
}

func bounded(t interface{ Errorf(string, ...any) }, b stepkind.Bound) {
	for _, d := range []struct {
		name        string
		base, worst stepkind.Amount
	}{
		{"model calls", b.Base.ModelCalls, b.Worst.ModelCalls},
		{"tool calls", b.Base.ToolCalls, b.Worst.ToolCalls},
		{"prompt tokens", b.Base.PromptTokens, b.Worst.PromptTokens},
		{"reply tokens", b.Base.ReplyTokens, b.Worst.ReplyTokens},
		{"seconds", b.Base.Seconds, b.Worst.Seconds},
	} {
		if d.base.Unbounded != "" || d.base.N < 0 || d.worst.Unbounded == "" && d.worst.N < d.base.N {
			t.Errorf("%s: base %v, worst %v", d.name, d.base, d.worst)
		}
	}
	if b.Reserve < 0 {
		t.Errorf("reserve %d", b.Reserve)
	}
}

// anything checks a kind with random values for its settings.
func anything(t *testing.T, k stepkind.Kind, cases []Case) {
	names := []string{"no_such_setting"}
	for _, c := range cases {
		names = append(names, c.Settings.names()...)
	}
	values := []any{
		nil, true, 0, -1, 1 << 62, 1.5, "", "plain", "handy", "send_to_critic", "vote", "model", "a b",
		[]any{},
		[]string{"x"},
		map[string]any{},
		map[string]any{"type": 1},
	}
	rapid.Check(t, func(t *rapid.T) {
		c := Case{
			Settings: rapid.MapOfN(rapid.SampledFrom(names), rapid.SampledFrom(values), 0, -1).Draw(t, "settings"),
		}
		s, task := c.Task(k.Name())
		_ = k.Understands(task)
		k.Check(Program(), s, task)
		k.Uses(task)
		bounded(t, stepkind.BoundOf(k, Program(), s, task))
	})
}
