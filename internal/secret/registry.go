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

// Source provides the value of a secret.
type Source struct {
	Name  string
	Place string // describes the source in messages
	// Find returns the value.
	Find func(context.Context) (string, error)
	// Asks reports that Find runs a command, which may prompt a person. It is called once, when the value is needed.
	Asks bool
}

// Registry holds secrets and their values. A nil Registry has none. It is safe for concurrent use.
//
// Values are replaced by marks before anything is stored or shown (Hide), and marks by values before anything is used
// (Reveal). A mark says how the value was encoded, so Reveal restores the same bytes; only an encoding that cannot be
// reproduced comes back as one of the common forms. Text that looks like a mark is escaped.
type Registry struct {
	sources []Source
	asking  sync.Mutex // held while a source asks a person, so that one question is asked at a time; locked before mu

	mu     sync.RWMutex        // guards the fields below
	read   bool                // all sources that do not ask have been read
	values map[string][]string // by name; the newest is the last
	table  *matcher
}

// New returns a registry. If two sources have the same name, the first one is used.
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

// Error reports why a secret cannot be used.
type Error struct {
	Name string
	Why  string // continues "the secret NAME"
	Help string
}

func (e *Error) Error() string { return fmt.Sprintf("the secret %q %s", e.Name, e.Why) }

type withoutAsking struct{}

// WithoutAsking returns a context in which no command runs for a secret. A secret that needs a command has the value
// StandIn, unless the command has run before.
func WithoutAsking(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutAsking{}, true)
}

// StandIn returns the placeholder value of a secret whose command does not run.
func StandIn(name string) string { return "simulated-secret-" + name }

// Value returns the value of a secret, and hides it from then on.
func (r *Registry) Value(ctx context.Context, name string) (string, error) {
	s := r.source(name)
	if s == nil {
		return "", &Error{Name: name, Why: "is not declared", Help: "Declare it in the configuration."}
	}
	if s.Asks {
		r.asking.Lock()
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
			Name: name, Why: "is not available: " + err.Error(), Help: "Put the secret into " + s.Place + ".",
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

// Learn adds a value of a secret, and hides it from then on. Earlier values stay hidden.
func (r *Registry) Learn(name, value string) {
	if known, ok := r.newest(name); ok && known == value {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[name] = append(r.values[name], value)
	r.table = nil
}

// matcher returns a matcher for all known values. It is built again after a value was learned. All sources that do not
// ask are read once, before the first use, because a run can print a secret that it has not been given.
func (r *Registry) matcher() *matcher {
	if r == nil {
		return plain()
	}
	r.mu.RLock()
	table, read := r.table, r.read
	r.mu.RUnlock()
	if table != nil && read {
		return table
	}
	if !read {
		for _, s := range r.sources {
			if s.Asks {
				continue
			}
			if value, err := s.Find(context.Background()); err == nil { // a missing value cannot leak
				r.Learn(s.Name, value)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = true
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
	// These represent text that starts like a mark, and a number that contains a secret. No name starts like them.
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

// addSecret adds a value in every encoding that cannot be found by decoding. The mark of an occurrence names the form
// and, unless it is a common one, how its characters are encoded.
func (m *matcher) addSecret(name, value string) {
	all := forms(value)
	labels := map[string]string{}
	for _, f := range all {
		labels[f.text] = f.label
	}
	for _, f := range all {
		// A form that starts with another one is not needed: finding the shorter one is enough, and the rest may
		// belong to the next secret.
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
			return mark(name, encodingMark+f.label+":"+encodingOf(f.text, found, units))
		}})
	}
}

// encodingMark starts the label of a text that is not one of the common forms: "~FORM:ENCODING". Without an encoding,
// Reveal returns the form.
const encodingMark = "~"

// plain returns a matcher without secrets, which only escapes text that starts like a mark.
var plain = sync.OnceValue(newMatcher)

// HideText replaces secrets in a text with marks.
func (r *Registry) HideText(text string) string {
	out, _ := r.matcher().replace(text, true)
	return out
}

// Show is HideText for text that is only displayed. It is never revealed, so text that looks like a mark is not
// escaped.
func (r *Registry) Show(text string) string {
	return strings.ReplaceAll(r.HideText(text), escaped, opening)
}

// Stream hides secrets in a text that arrives in pieces, as if it arrived at once. It is used by one goroutine.
type Stream struct {
	Registry *Registry
	rest     string
}

// Next adds a piece and returns the text that is complete so far. It holds back an end that may start a secret.
func (s *Stream) Next(piece string) string {
	out, rest := s.Registry.matcher().replace(s.rest+piece, false)
	s.rest = rest
	return out
}

// End returns the remaining text.
func (s *Stream) End() string {
	out := s.Registry.HideText(s.rest)
	s.rest = ""
	return out
}

// Hides reports whether hidden text contains marks.
func Hides(hidden []byte) bool { return bytes.Contains(hidden, []byte(opening)) }

// RevealText replaces the marks in hidden text with values.
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
		case !closed: // a truncated mark represents no value
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
	label, isEncoded := strings.CutPrefix(label, encodingMark)
	label, how, _ := strings.Cut(label, ":")
	for _, f := range forms(value) {
		if f.label != label {
			continue
		}
		if isEncoded {
			if text, ok := encode(f.text, how); ok {
				return text, nil
			}
		}
		return f.text, nil
	}
	return value, nil // the value has changed and has no such form
}

// Refer replaces strings in a JSON value that refer to secrets with the values of the secrets.
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
				Why:  fmt.Sprintf("has fewer than %d characters, so it cannot be hidden in records", Least),
				Help: "Use a longer secret.",
			}
		}
		return value, false, err
	}, nil)
}

// Hide replaces secrets in the strings, names and numbers of a JSON value with marks.
func (r *Registry) Hide(raw json.RawMessage) json.RawMessage {
	m := r.matcher()
	if m == plain() && !Hides(raw) && !spells(raw) {
		return raw // the common case
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

// spells reports whether JSON may contain a mark written with \u escapes. Escapes of <, > and & are not part of marks.
func spells(raw []byte) bool {
	escapes := bytes.Count(raw, []byte(`\u`))
	if escapes == 0 {
		return false // the common case
	}
	for _, harmless := range []string{`\u003c`, `\u003e`, `\u0026`} {
		escapes -= bytes.Count(raw, []byte(harmless))
	}
	return escapes > 0
}

// Reveal replaces the marks in a hidden JSON value with values.
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
		return is, json.Valid([]byte(is)), err // a changed value may not be a number
	}, nil)
}
