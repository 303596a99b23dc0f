package ir

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

type plainStep Step // Step without its methods

// stepBox is the JSON form of a step, with the action under its name: {"id": …, "task": {…}}.
type stepBox struct {
	plainStep
	Task     *Task     `json:"task,omitempty"`
	Route    *Route    `json:"route,omitempty"`
	Gate     *Gate     `json:"gate,omitempty"`
	Parallel *Parallel `json:"parallel,omitempty"`
	Loop     *Loop     `json:"loop,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	End      *End      `json:"end,omitempty"`
}

var _ jsonfast.Surrogate = (*Step)(nil)

// NewSurrogate implements jsonfast.Surrogate.
func (*Step) NewSurrogate() any { return new(stepBox) }

// ToSurrogate implements jsonfast.Surrogate.
func (s *Step) ToSurrogate(into any) error {
	box := into.(*stepBox)
	box.plainStep = plainStep(*s)
	switch a := s.Action.(type) {
	case Task:
		box.Task = &a
	case Route:
		box.Route = &a
	case Gate:
		box.Gate = &a
	case Parallel:
		box.Parallel = &a
	case Loop:
		box.Loop = &a
	case Call:
		box.Call = &a
	case End:
		box.End = &a
	default:
		return fmt.Errorf("step %q has no action", s.ID)
	}
	return nil
}

// FromSurrogate implements jsonfast.Surrogate.
func (s *Step) FromSurrogate(from any) error {
	box := from.(*stepBox)
	found := 0
	set := func(present bool, action func() Action) {
		if present {
			box.Action = action()
			found++
		}
	}
	set(box.Task != nil, func() Action { return *box.Task })
	set(box.Route != nil, func() Action { return *box.Route })
	set(box.Gate != nil, func() Action { return *box.Gate })
	set(box.Parallel != nil, func() Action { return *box.Parallel })
	set(box.Loop != nil, func() Action { return *box.Loop })
	set(box.Call != nil, func() Action { return *box.Call })
	set(box.End != nil, func() Action { return *box.End })
	if found != 1 {
		return fmt.Errorf("step %q has %d actions, not one", box.ID, found)
	}
	*s = Step(box.plainStep)
	return nil
}

// MarshalJSON encodes the step with its action under the action's name.
func (s Step) MarshalJSON() ([]byte, error) {
	var box stepBox
	if err := s.ToSurrogate(&box); err != nil {
		return nil, err
	}
	// The outer encoder decides whether <, > and & are escaped.
	return jsonfast.Marshal(box)
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (s *Step) UnmarshalJSON(raw []byte) error {
	var box stepBox
	if err := json.Unmarshal(raw, &box); err != nil {
		return err
	}
	return s.FromSurrogate(&box)
}

func decodeStrict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
