package secret

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/xslices"
)

// Scheme begins a reference to a secret.
const Scheme = "secret://"

// Source is where a secret comes from.
type Source struct {
	Name  string
	Place string // for people
	// Find finds the value out.
	Find func(context.Context) (string, error)
	// Asks says that finding it out takes a command, which may ask a person:
	// it is called once, when the value is needed.
	Asks bool
}

// Registry knows secrets and their values. A nil Registry knows none. Its
// methods may be called by many goroutines at once.
type Registry struct {
	sources []Source
	asking  sync.Mutex

	mu     sync.RWMutex
	looked bool
	values map[string][]string // by name; the newest is the last
	table  *matcher
}

// New makes a registry. Of two sources with one name the first counts.
func New(sources ...Source) *Registry {
	r := &Registry{values: map[string][]string{}}
	for _, s := range sources {
		if r.source(s.Name) == nil {
			r.sources = append(r.sources, s)
		}
	}
	return r
}

func (r *Registry) source(name string) *Source {
	if r == nil {
		return nil
	}
	return xslices.FindPointer(r.sources, func(one *Source) bool { return one.Name == name })
}

// Error is why a secret cannot be used.
type Error struct {
	Name string
	Why  string // continues "the secret NAME"
	Help string
}

func (e *Error) Error() string { return fmt.Sprintf("the secret %q %s", e.Name, e.Why) }

type withoutAsking struct{}

// WithoutAsking returns a context in which no command is run for a secret. One that only a command knows has a
// stand-in as its value, unless the command has been run before.
func WithoutAsking(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutAsking{}, true)
}

// StandIn returns the value of a secret for which no command is run.
func StandIn(name string) string { return "simulated-secret-" + name }

// Value returns the value of a secret, and hides it from now on.
func (r *Registry) Value(ctx context.Context, name string) (string, error) {
	s := r.source(name)
	if s == nil {
		return "", &Error{Name: name, Why: "is not declared", Help: "Declare it in the configuration."}
	}
	if s.Asks {
		r.asking.Lock() // a person is asked once
		defer r.asking.Unlock()
		if value, ok := r.newest(name); ok {
			return value, nil
		}
		if ctx.Value(withoutAsking{}) != nil {
			return StandIn(name), nil
		}
	}
	value, err := s.Find(ctx)
	if err != nil {
		return "", &Error{
			Name: name, Why: "cannot be found out: " + err.Error(), Help: "Put the secret into " + s.Place + ".",
		}
	}
	r.Learn(name, value)
	return value, nil
}

func (r *Registry) newest(name string) (string, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := r.values[name]
	if len(all) == 0 {
		return "", false
	}
	return all[len(all)-1], true
}

// Learn remembers the value of a source, which is hidden from now on. Earlier ones stay hidden.
func (r *Registry) Learn(name, value string) {
	if known, ok := r.newest(name); ok && known == value {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[name] = append(r.values[name], value)
	r.table = nil
}

// matcher is up to date with all values that are known.
func (r *Registry) matcher() *matcher {
	if r == nil {
		return plain()
	}
	r.mu.RLock()
	table, looked := r.table, r.looked
	r.mu.RUnlock()
	if table != nil && looked {
		return table
	}
	if !looked {
		for _, s := range r.sources {
			if s.Asks {
				continue
			}
			if value, err := s.Find(context.Background()); err == nil { // one that is not there cannot leak
				r.Learn(s.Name, value)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked = true
	r.table = newMatcher()
	empty := true
	for _, s := range r.sources {
		for _, value := range r.values[s.Name] {
			if !Hideable(value) {
				continue
			}
			empty = false
			r.table.addSecret(s.Name, value)
		}
	}
	if empty {
		r.table = plain()
	}
	return r.table
}

// Hideable reports whether a value is long enough to be distinguished from other text.
func Hideable(value string) bool { return len(value) >= Least }

// A mark is "[secret NAME]", or "[secret NAME FORM]".
const (
	opening = "[secret "
	closing = "]"
	// No name begins like these: they stand for text that begins like a mark,
	// and for a number that holds one.
	escaped = opening + "-" + closing
	numeric = opening + "#" + closing
)

func mark(name, label string) string {
	if label == "" {
		return opening + name + closing
	}
	return opening + name + " " + label + closing
}

func newMatcher() *matcher {
	m := &matcher{}
	m.add(exact, &needle{text: opening, mark: func(string, []string) string { return escaped }})
	return m
}

// addSecret looks for a value from now on, in every encoding.
func (m *matcher) addSecret(name, value string) {
	all := forms(value)
	labels := map[string]string{}
	for _, f := range all {
		labels[f.text] = f.label
	}
	for _, f := range all {
		// The end of a longer text may be that of the next secret: it is enough
		// to find the shorter one.
		longer := func(o form) bool {
			return o.sought && o.kind == f.kind && len(o.text) < len(f.text) && strings.HasPrefix(f.text, o.text)
		}
		if !f.sought || slices.ContainsFunc(all, longer) {
			continue
		}
		m.add(f.kind, &needle{f.text, func(found string, units []string) string {
			if label, ok := labels[found]; ok {
				return mark(name, label)
			}
			return mark(name, cooked+f.label+":"+recipe(f.text, found, units))
		}})
	}
}

// cooked begins the label of a text that is no common form, but one by a recipe:
// "~FORM:RECIPE". Without a recipe, Reveal returns the form.
const cooked = "~"

// plain hides nothing, but escapes.
var plain = sync.OnceValue(newMatcher)

// HideText hides what is secret in a text.
func (r *Registry) HideText(text string) string {
	out, _ := r.matcher().replace(text, true)
	return out
}

// Show is HideText for text that is for people only: it is never revealed, so
// what merely looks like a mark stays as it is.
func (r *Registry) Show(text string) string {
	return strings.ReplaceAll(r.HideText(text), escaped, opening)
}

// Stream hides what is secret in a text that comes in pieces.
type Stream struct {
	Registry *Registry
	rest     string
}

// Next takes a piece, and gives what of the text is safe by now.
func (s *Stream) Next(piece string) string {
	out, rest := s.Registry.matcher().replace(s.rest+piece, false)
	s.rest = rest
	return out
}

// End returns the rest of the text.
func (s *Stream) End() string {
	out := s.Registry.HideText(s.rest)
	s.rest = ""
	return out
}

// Hides reports whether hidden text has anything to reveal.
func Hides(hidden []byte) bool { return bytes.Contains(hidden, []byte(opening)) }

// RevealText puts values back into hidden text.
func (r *Registry) RevealText(ctx context.Context, text string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, opening)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inner, rest, closed := strings.Cut(after, closing)
		switch {
		case !closed: // it was truncated, and does not stand for a value
			b.WriteString(opening + after)
			return b.String(), nil
		case inner == "-":
			b.WriteString(opening)
		default:
			value, err := r.form(ctx, inner)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
		}
		text = rest
	}
}

// form returns the text that a mark replaces.
func (r *Registry) form(ctx context.Context, inner string) (string, error) {
	name, label, _ := strings.Cut(inner, " ")
	value, err := r.Value(ctx, name)
	if err != nil {
		return "", err
	}
	label, isCooked := strings.CutPrefix(label, cooked)
	label, how, _ := strings.Cut(label, ":")
	for _, f := range forms(value) {
		if f.label != label {
			continue
		}
		if isCooked {
			if text, ok := cook(f.text, how); ok {
				return text, nil
			}
		}
		return f.text, nil
	}
	return value, nil // the value has changed since, and has no such form
}

// Refer puts the values of secrets in the place of texts in a JSON value that
// are references to them.
func (r *Registry) Refer(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	if !strings.Contains(string(raw), Scheme) {
		return raw, nil
	}
	return walk(raw, func(text string) (string, bool, error) {
		name, ok := strings.CutPrefix(text, Scheme)
		if !ok {
			return text, false, nil
		}
		value, err := r.Value(ctx, name)
		if err == nil && !Hideable(value) {
			err = &Error{
				Name: name,
				Why:  fmt.Sprintf("has fewer than %d characters, so it cannot be kept out of records", Least),
				Help: "Use a longer one.",
			}
		}
		return value, false, err
	}, nil)
}

// Hide hides what is secret in a JSON value: in texts, names and numbers.
func (r *Registry) Hide(raw json.RawMessage) json.RawMessage {
	m := r.matcher()
	if m == plain() && !Hides(raw) && !spells(raw) {
		return raw // as nearly always
	}
	out, err := walk(raw, func(text string) (string, bool, error) {
		out, _ := m.replace(text, true)
		return out, false, nil
	}, func(number string) string {
		if out, _ := m.replace(number, true); out != number {
			return numeric + out
		}
		return number
	})
	if err != nil {
		return json.RawMessage(r.HideText(string(raw))) // not JSON: errors about it may quote it
	}
	return out
}

// spells reports whether JSON may spell a mark with escapes: those of numbers. The
// ones by which HTML is kept out are not part of any.
func spells(raw []byte) bool {
	escapes := bytes.Count(raw, []byte(`\u`))
	if escapes == 0 {
		return false // as nearly always
	}
	for _, harmless := range []string{`\u003c`, `\u003e`, `\u0026`} {
		escapes -= bytes.Count(raw, []byte(harmless))
	}
	return escapes > 0
}

// Reveal puts values back into a hidden JSON value.
func (r *Registry) Reveal(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	if !Hides(raw) {
		return raw, nil
	}
	return walk(raw, func(text string) (string, bool, error) {
		number, isNumber := strings.CutPrefix(text, numeric)
		if !isNumber {
			is, err := r.RevealText(ctx, text)
			return is, false, err
		}
		is, err := r.RevealText(ctx, number)
		return is, json.Valid([]byte(is)), err // a value that has changed since may be no number
	}, nil)
}
