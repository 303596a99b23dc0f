package ir

import (
	"bytes"
	"encoding/json"
	"fmt"
)

type plainStep Step // Step without its methods

// MarshalJSON writes the action under its name: {"id": …, "task": {…}}.
func (s Step) MarshalJSON() ([]byte, error) {
	box := struct {
		plainStep
		Task     *Task     `json:"task,omitempty"`
		Route    *Route    `json:"route,omitempty"`
		Gate     *Gate     `json:"gate,omitempty"`
		Parallel *Parallel `json:"parallel,omitempty"`
		Loop     *Loop     `json:"loop,omitempty"`
		Call     *Call     `json:"call,omitempty"`
		End      *End      `json:"end,omitempty"`
	}{plainStep: plainStep(s)}
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
		return nil, fmt.Errorf("step %q has no action", s.ID)
	}
	// Whether <, > and & are escaped is for the outer encoder to say.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(box)
	return b.Bytes(), err
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Step) UnmarshalJSON(raw []byte) error {
	var box struct {
		plainStep
		Task     *Task     `json:"task"`
		Route    *Route    `json:"route"`
		Gate     *Gate     `json:"gate"`
		Parallel *Parallel `json:"parallel"`
		Loop     *Loop     `json:"loop"`
		Call     *Call     `json:"call"`
		End      *End      `json:"end"`
	}
	if err := json.Unmarshal(raw, &box); err != nil {
		return err
	}
	var found []Action
	if box.Task != nil {
		found = append(found, *box.Task)
	}
	if box.Route != nil {
		found = append(found, *box.Route)
	}
	if box.Gate != nil {
		found = append(found, *box.Gate)
	}
	if box.Parallel != nil {
		found = append(found, *box.Parallel)
	}
	if box.Loop != nil {
		found = append(found, *box.Loop)
	}
	if box.Call != nil {
		found = append(found, *box.Call)
	}
	if box.End != nil {
		found = append(found, *box.End)
	}
	if len(found) != 1 {
		return fmt.Errorf("step %q has %d actions, not one", box.ID, len(found))
	}
	*s = Step(box.plainStep)
	s.Action = found[0]
	return nil
}

func decodeStrict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
