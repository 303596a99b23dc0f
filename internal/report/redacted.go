package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/redact"
)

// RulesOf returns the redaction rules for everything that people see of a run:
// those of its workflow and of all workflows that it calls. It returns nil if
// there are none.
func RulesOf(p *ir.Program) *redact.Rules { return redact.ForAudits(false, p.Audits()...) }

// RedactedJournal is a view of a journal for people: the content of its facts is
// redacted by the rules of their runs. Large values are part of the facts.
type RedactedJournal struct {
	journal.Reader
	program func(ctx context.Context, definition string) (*ir.Program, error)

	mu    sync.Mutex
	rules map[string]*redact.Rules // by definition
}

// NewRedactedJournal returns a view of a journal. program returns the program of a
// definition.
func NewRedactedJournal(
	r journal.Reader, program func(ctx context.Context, definition string) (*ir.Program, error),
) *RedactedJournal {
	return &RedactedJournal{Reader: r, program: program, rules: map[string]*redact.Rules{}}
}

// Rules returns the redaction rules of a run; nil if there are none.
func (j *RedactedJournal) Rules(ctx context.Context, run journal.RunID) (*redact.Rules, error) {
	entry, err := j.Entry(ctx, run)
	if err != nil {
		return nil, err
	}
	return j.rulesOf(ctx, entry.Definition)
}

// rulesOf returns the rules of a definition. It does not hold the lock while it reads the definition, so two callers
// may both read it.
func (j *RedactedJournal) rulesOf(ctx context.Context, definition string) (*redact.Rules, error) {
	j.mu.Lock()
	rules, known := j.rules[definition]
	j.mu.Unlock()
	if known {
		return rules, nil
	}
	p, err := j.program(ctx, definition)
	if err != nil {
		return nil, err
	}
	const most = 1000
	rules = RulesOf(p)
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.rules) >= most {
		clear(j.rules)
	}
	j.rules[definition] = rules
	return rules, nil
}

// Events implements journal.EventReader.
func (j *RedactedJournal) Events(
	ctx context.Context, run journal.RunID, after journal.Seq,
) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		var rules *redact.Rules
		for e, err := range j.Reader.Events(ctx, run, after) {
			if err == nil && rules == nil {
				if rules, err = j.Rules(ctx, run); err == nil && rules == nil {
					rules = noRules
				}
			}
			if err == nil && rules != noRules {
				e, err = j.event(ctx, rules, e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// noRules stands for the rules of a run that redacts nothing.
var noRules = &redact.Rules{}

// Tail implements journal.Tailer.
func (j *RedactedJournal) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) {
		known := map[journal.RunID]*redact.Rules{}
		for a, err := range j.Reader.Tail(ctx, after) {
			if err == nil && len(a.Events) > 0 {
				a, err = j.appended(ctx, a, known)
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// appended redacts an append. known has the rules of the runs of earlier appends.
func (j *RedactedJournal) appended(
	ctx context.Context, a journal.Appended, known map[journal.RunID]*redact.Rules,
) (journal.Appended, error) {
	rules, found := known[a.Run]
	var err error
	if started, ok := a.Events[0].Fact.(journal.RunStarted); ok {
		rules, err = j.rulesOf(ctx, started.Definition) // also of a run with the ID of one that was removed
	} else if !found {
		rules, err = j.Rules(ctx, a.Run)
	}
	if err == nil {
		known[a.Run] = rules
	}
	if errors.Is(err, journal.ErrUnknownRun) || errors.Is(err, journal.ErrCorrupt) {
		a.Events = nil // what cannot be redacted is not shown
		return a, nil
	}
	if err != nil || rules == nil {
		return a, err
	}
	events := make([]journal.Event, len(a.Events))
	for i := range a.Events {
		if events[i], err = j.event(ctx, rules, a.Events[i]); err != nil {
			return a, err
		}
	}
	a.Events = events
	return a, nil
}

// event returns an event with its fact redacted. The event in the journal stays as it is.
func (j *RedactedJournal) event(ctx context.Context, rules *redact.Rules, e journal.Event) (journal.Event, error) {
	r := redaction{rules: rules, blob: func(hash string) ([]byte, error) { return j.Blob(ctx, hash) }}
	fact, err := r.fact(e.Fact)
	if err != nil {
		return e, fmt.Errorf("redacting event %d: %w", e.Seq, err)
	}
	e.Fact = fact
	return e, nil
}

// redaction redacts facts.
type redaction struct {
	rules *redact.Rules
	blob  func(hash string) ([]byte, error)
}

// fact returns a redacted copy of a fact. It visits the fields by reflection, except the data of a note, whose form
// depends on the kind of the note.
func (r redaction) fact(fact journal.Fact) (journal.Fact, error) {
	if note, ok := fact.(journal.TaskNoted); ok {
		data, err := r.note(note.Kind, note.Data)
		note.Data = data
		return note, err
	}
	v := reflect.New(reflect.TypeOf(fact)).Elem()
	v.Set(reflect.ValueOf(fact))
	if err := r.walk(v, ""); err != nil {
		return nil, err
	}
	return v.Interface().(journal.Fact), nil
}

// note redacts the data of a note in its form, so that its numbers and codes stay.
// A match can be split over the chunks of a reply or of the output of a command, so they are left out.
func (r redaction) note(kind string, data json.RawMessage) (json.RawMessage, error) {
	switch kind {
	case journal.NoteStream:
		return json.Marshal(journal.Stream{})
	case journal.NoteOutput:
		return json.Marshal(journal.Output{})
	}
	t, known := noteTypes[kind]
	if !known || len(data) == 0 {
		hidden, _, err := r.rules.JSON(data)
		return hidden, err
	}
	body := t.body()
	if journal.ReadNote(data, body) != nil {
		hidden, _, err := r.rules.JSON(data)
		return hidden, err
	}
	if err := r.walk(reflect.ValueOf(body).Elem(), ""); err != nil {
		return nil, err
	}
	return json.Marshal(body)
}

var (
	rawType   = reflect.TypeFor[json.RawMessage]()
	valueType = reflect.TypeFor[journal.Value]()
)

// structural are the members of facts and notes that are names, ids and codes.
// They come from workflows and from Espalier, not from what a run works on.
var structural = map[string]bool{
	"Frame": true, "Step": true, "Part": true, "Kind": true, "Name": true, "Format": true, "Definition": true,
	"Program": true, "Child": true, "Parent": true, "Budget": true, "Mode": true, "Method": true, "Event": true,
	"Path": true, "To": true, "For": true, "Ref": true, "Code": true, "Input": true, "What": true, "Last": true,
	"Digest": true, "Call": true, "Owner": true, "User": true, "As": true, "Run": true, "Bare": true, "Under": true,
	"Of": true, "Type": true, "CallID": true, "ToolID": true, "ToolName": true, "ID": true, "Model": true,
	"Provider": true, "Offline": true, "Server": true, "Stop": true, "Fidelity": true, "By": true, "Session": true,
	"Agent": true, "Roles": true, "From": true, "MissingReads": true, "Signature": true, "Reducer": true,
}

// walk redacts a member and everything below it. The fact is a copy, but what it
// refers to is shared: slices and maps are copied before they change.
func (r redaction) walk(v reflect.Value, name string) error {
	switch {
	case v.Type() == rawType:
		if v.Len() == 0 {
			return nil
		}
		hidden, _, err := r.rules.JSON(v.Bytes())
		v.Set(reflect.ValueOf(hidden))
		return err
	case v.Type() == valueType:
		return r.value(v)
	}
	switch v.Kind() {
	case reflect.String:
		if v.Type().PkgPath() == "" && !structural[name] { // types of their own are codes
			hidden, _ := r.rules.Text(v.String())
			v.SetString(hidden)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := r.walk(v.Field(i), v.Type().Field(i).Name); err != nil {
				return err
			}
		}
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return nil
		}
		next := reflect.New(v.Type().Elem())
		next.Elem().Set(v.Elem())
		v.Set(next)
		return r.walk(next.Elem(), name)
	case reflect.Slice:
		if v.Len() == 0 || structural[name] {
			return nil
		}
		next := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(next, v)
		v.Set(next)
		for i := range v.Len() {
			if err := r.walk(v.Index(i), name); err != nil {
				return err
			}
		}
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
		next := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			one := reflect.New(v.Type().Elem()).Elem()
			one.Set(value)
			if err := r.walk(one, name); err != nil {
				return err
			}
			next.SetMapIndex(key, one)
		}
		v.Set(next)
	}
	return nil
}

// value redacts a value in place. A large value with a match is replaced by its redacted text, because its hash is that
// of the original.
func (r redaction) value(v reflect.Value) error {
	value := v.Interface().(journal.Value)
	raw := value.JSON
	if value.Hash != "" {
		var err error
		if raw, err = r.blob(value.Hash); err != nil {
			return err
		}
	}
	if len(raw) == 0 {
		return nil
	}
	hidden, found, err := r.rules.JSON(raw)
	if err != nil || !found && value.Hash != "" {
		return err // a large value without a match stays where it is
	}
	v.Set(reflect.ValueOf(journal.Value{JSON: hidden}))
	return nil
}
