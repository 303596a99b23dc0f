package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// scope resolves names in expressions of a frame: the frame's own variables, then those of the enclosing frames of the
// same program.
type scope struct {
	s *State
	p *Program
	f *Frame
	// extra takes precedence over all other variables. It has the variables of a loop's next iteration.
	extra map[string]journal.Value
	err   error // of the first value that could not be read
}

// Lookup implements expr.Env. It finds the variable with the longest key that is a prefix of the path, and descends
// into its value.
func (sc *scope) Lookup(path []string) (any, bool) {
	if v, ok := sc.find(path, sc.extra); ok {
		return v, true
	}
	for f := range sc.s.scopes(sc.f) {
		if v, ok := sc.find(path, f.Scope); ok {
			return v, true
		}
	}
	// Names that every program defines, unless a variable has the same name.
	if len(path) >= 1 {
		switch path[0] {
		case "workflow":
			return sc.meta(path[1:])
		case "run":
			return expr.Descend(sc.about(), path[1:])
		case "last":
			return expr.Descend(sc.before(), path[1:])
		}
	}
	whole := sc.namespace(path)
	return whole, whole != nil
}

// scopes returns a frame and the frames around it in the same program, whose variables the frame sees.
func (s *State) scopes(f *Frame) iter.Seq[*Frame] {
	return func(yield func(*Frame) bool) {
		for yield(f) && f.Path != "" && f.Child == "" {
			f = s.Frames[f.Parent]
		}
	}
}

// text returns the JSON of a variable in the nearest scope if that is a plain string, which needs no decoding.
func (sc *scope) text(path string) (json.RawMessage, bool) {
	f := sc.f
	for len(f.Scope) == 0 && f.Path != "" && f.Child == "" {
		f = sc.s.Frames[f.Parent]
	}
	raw := f.Scope[path].JSON
	if len(raw) < 2 || raw[0] != '"' || !strings.Contains(path, ".") { // parts of a namespace may be in other variables
		return nil, false
	}
	for _, c := range raw[1 : len(raw)-1] {
		if c < ' ' || c >= utf8.RuneSelf || strings.IndexByte(`"\<>&`, c) >= 0 {
			return nil, false
		}
	}
	return raw, raw[len(raw)-1] == '"'
}

// find looks up a path in one scope.
func (sc *scope) find(path []string, vars map[string]journal.Value) (any, bool) {
	if len(vars) == 0 {
		return nil, false
	}
	// The longest key first: "state.a" may be a variable, or a part of the variable "state".
	for n := len(path); n > 0; n-- {
		v, ok := vars[strings.Join(path[:n], ".")]
		if !ok {
			continue
		}
		if n == 1 && len(path) == 1 {
			v = sc.p.gathered(v, path[0], vars)
		}
		value, err := sc.p.decode(v)
		if err != nil {
			sc.err = cmp.Or(sc.err, err)
			return nil, false
		}
		return expr.Descend(value, path[n:])
	}
	return nil, false
}

// gathered applies what was written below a namespace, such as output.report, to what was written to the namespace
// itself. A value that cannot be read stays as it is; reading it returns the error.
func (p *Program) gathered(whole journal.Value, namespace string, vars map[string]journal.Value) journal.Value {
	keys := below(namespace, vars)
	if len(keys) == 0 {
		return whole
	}
	all, err := p.raw(whole)
	if err != nil {
		return whole
	}
	for _, key := range keys {
		one, err := p.raw(vars[key])
		if err != nil {
			return vars[key]
		}
		all = put(all, strings.Split(key[len(namespace)+1:], "."), one)
	}
	return journal.Value{JSON: all}
}

// below returns the keys of variables that start with a path and a dot, sorted.
func below(path string, vars map[string]journal.Value) []string {
	var out []string
	for key := range vars {
		if len(key) > len(path) && key[len(path)] == '.' && strings.HasPrefix(key, path) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// put sets a part of an object. Values on the path that are not objects are replaced by objects.
func put(whole json.RawMessage, path []string, value json.RawMessage) json.RawMessage {
	if len(path) == 0 {
		return orNull(value)
	}
	object := objectOf(whole)
	if object == nil {
		object = map[string]json.RawMessage{}
	}
	object[path[0]] = put(object[path[0]], path[1:], value)
	return mustJSON(object)
}

// objectOf decodes an object; nil if the JSON is none.
func objectOf(raw json.RawMessage) (object map[string]json.RawMessage) {
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	return object
}

// orNull returns the JSON of a value, which is null if there is none.
func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// meta returns what the file says about the workflow, such as its version.
func (sc *scope) meta(path []string) (any, bool) {
	if len(path) == 0 {
		return nil, false
	}
	var value any
	if json.Unmarshal(sc.p.unit(sc.f.Program).meta[path[0]], &value) != nil {
		return nil, false
	}
	return expr.Descend(value, path[1:])
}

// about returns what expressions can read about the run itself. Times are those of the journal, so that the same events
// always give the same value.
func (sc *scope) about() map[string]any {
	id := cmp.Or(sc.s.RunOf(sc.f), sc.s.Run)
	return map[string]any{
		"id": string(id), "name": sc.p.unit(sc.f.Program).ir.Name, "step": sc.f.Step,
		"started": float64(sc.s.Started), "at": float64(sc.s.At), "elapsed_ms": float64(sc.s.At - sc.s.Started),
	}
}

// before returns how the previous step ended, in this block or an enclosing one.
func (sc *scope) before() map[string]any {
	f := sc.f
	for f.Last.Outcome == "" && f.Path != "" && f.Child == "" {
		f = sc.s.Frames[f.Parent]
	}
	last := f.Last
	out := map[string]any{"step": last.Step, "outcome": last.Outcome, "error": last.Error, "class": last.Class}
	if last.failing() {
		out["outcome"] = journal.OutcomeFailed
	}
	if value, err := sc.p.decode(last.Value); err == nil {
		out["value"] = value
	}
	return out
}

// namespace collects all variables below a path in one object. For example, it returns the value of "state" if only
// "state.a" and "state.b" were written. The nearest frame takes precedence.
func (sc *scope) namespace(path []string) any {
	prefix := strings.Join(path, ".")
	nearest := map[string]journal.Value{}
	for f := range sc.s.scopes(sc.f) {
		for _, key := range below(prefix, f.Scope) {
			if _, closer := nearest[key]; !closer {
				nearest[key] = f.Scope[key]
			}
		}
	}
	if len(nearest) == 0 {
		return nil
	}
	whole, err := sc.p.decode(sc.p.gathered(journal.Value{}, prefix, nearest))
	sc.err = cmp.Or(sc.err, err)
	return whole
}

// decode returns a value as expressions see it.
func (p *Program) decode(v journal.Value) (any, error) {
	raw, err := p.raw(v)
	if err != nil {
		return nil, err
	}
	return expr.Decode(raw)
}

// Raw returns the JSON of a value, wherever it is stored.
func (p *Program) Raw(v journal.Value) (json.RawMessage, error) { return p.raw(v) }

// raw returns the JSON of a value: its own, or that of the blob with its hash. No value is null.
func (p *Program) raw(v journal.Value) (json.RawMessage, error) {
	if v.Hash == "" {
		return orNull(v.JSON), nil
	}
	if p.Blobs == nil {
		return nil, fmt.Errorf("value %s is stored by hash, and no store of blobs is configured", v.Hash)
	}
	return p.Blobs(v.Hash)
}

// set applies one write to a scope. The current value matters only to reducers other than set; it is looked up in the
// enclosing frames, too.
func (s *State) set(f *Frame, w journal.Write, value journal.Value) {
	if f.Scope == nil {
		f.Scope = map[string]journal.Value{}
	}
	if w.Part != "" {
		value = part(value, w.Part)
	}
	var before journal.Value
	// A write to a namespace replaces or merges also what was written to its parts.
	namespace := !strings.Contains(w.Path, ".")
	if namespace || w.Reducer != "" {
		before = s.visible(f, w.Path)
	}
	if namespace {
		before = s.absorb(f, w.Path, before)
	}
	switch w.Reducer {
	case "append":
		value = appended(before, value)
	case "merge":
		value = merged(before, under(value, w))
	}
	f.Scope[w.Path] = value
	// A write to the whole output replaces what other steps have written to its parts.
	if w.Path == "output" && w.Reducer != "merge" {
		f.Writers = nil
	} else {
		delete(f.Writers, property(w.Path))
	}
}

// write applies one write of the current step, and notes the step as the writer of the properties of the output.
func (s *State) write(f *Frame, w journal.Write, value journal.Value) {
	s.set(f, w, value)
	keys := []string{property(w.Path)}
	if w.Path == "output" && w.Reducer == "merge" {
		if object := objectOf(under(value, w).JSON); object != nil {
			keys = keys[:0]
			for key := range object {
				keys = append(keys, "output."+key)
			}
		}
	}
	for _, key := range keys {
		if key == "output" || strings.HasPrefix(key, "output.") {
			xmaps.Set(&f.Writers, key, f.Step)
		}
	}
}

// property returns the first two segments of a path.
func property(path string) string {
	if i := strings.IndexByte(path, '.'); i >= 0 {
		if j := strings.IndexByte(path[i+1:], '.'); j >= 0 {
			return path[:i+1+j]
		}
	}
	return path
}

// setAll applies the variables of an inner scope, except some keys. Namespaces come before the variables below them.
func (s *State) setAll(f *Frame, vars map[string]journal.Value, except []string) {
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		if !slices.Contains(except, key) {
			s.set(f, journal.Write{Path: key}, vars[key])
		}
	}
}

// absorb merges a namespace and the variables below it into one value, before a write to the namespace. Values that are
// stored by hash cannot be merged here; they stay separate variables and still count.
func (s *State) absorb(f *Frame, namespace string, before journal.Value) journal.Value {
	keys := below(namespace, f.Scope)
	if len(keys) == 0 {
		return before
	}
	whole := before.JSON
	for _, key := range keys {
		if v := f.Scope[key]; v.Hash == "" {
			whole = put(whole, strings.Split(key[len(namespace)+1:], "."), v.JSON)
			delete(f.Scope, key)
		}
	}
	return journal.Value{JSON: whole}
}

// visible returns a variable of a frame or an enclosing one by its exact key.
func (s *State) visible(f *Frame, key string) journal.Value {
	for f := range s.scopes(f) {
		if v, ok := f.Scope[key]; ok {
			return v
		}
	}
	return journal.Value{}
}

// part returns a property of an object; null if there is none.
func part(v journal.Value, name string) journal.Value {
	return journal.Value{JSON: orNull(objectOf(v.JSON)[name])}
}

// appended returns a list with a value, or with the elements of a list, at its end. A value that is no list yet becomes
// one.
func appended(before, more journal.Value) journal.Value {
	var list []json.RawMessage
	if len(before.JSON) > 0 {
		if json.Unmarshal(before.JSON, &list) != nil {
			list = []json.RawMessage{before.JSON}
		}
	}
	var items []json.RawMessage
	if json.Unmarshal(more.JSON, &items) != nil {
		items = []json.RawMessage{more.JSON}
	}
	if list = append(list, items...); list == nil {
		list = []json.RawMessage{} // an empty list is not null
	}
	return journal.Value{JSON: mustJSON(list)}
}

// merged returns an object with the properties of both; those of more take precedence. Other values are replaced.
func merged(before, more journal.Value) journal.Value {
	object, over := objectOf(before.JSON), objectOf(more.JSON)
	if object == nil || over == nil {
		return more
	}
	maps.Copy(object, over)
	return journal.Value{JSON: mustJSON(object)}
}

// under wraps a result that is not an object, or lacks the key that it must have.
func under(v journal.Value, w journal.Write) journal.Value {
	if w.Under == "" && w.Bare == "" {
		return v
	}
	// Without a key of its own, only a result that is not an object is wrapped.
	object := objectOf(v.JSON)
	if w.Under == "" {
		if object != nil {
			return v
		}
		return journal.Value{JSON: put(nil, []string{w.Bare}, v.JSON)}
	}
	if _, has := object[w.Under]; has {
		return v
	}
	raw := orNull(v.JSON)
	if w.AsList && !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		list := []json.RawMessage{raw}
		if object != nil {
			list = list[:0]
			for _, key := range slices.Sorted(maps.Keys(object)) {
				list = append(list, object[key])
			}
		}
		raw = mustJSON(list)
	}
	if w.Flat {
		raw = flattened(raw)
	}
	return journal.Value{JSON: mustJSON(map[string]json.RawMessage{w.Under: raw})}
}

// flattened replaces each list in a list by its elements.
func flattened(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return raw
	}
	out := []json.RawMessage{}
	for _, element := range list {
		var inner []json.RawMessage
		if json.Unmarshal(element, &inner) == nil && inner != nil {
			out = append(out, inner...)
		} else {
			out = append(out, element)
		}
	}
	return mustJSON(out)
}

// mustJSON encodes parts of decoded JSON, which always encode.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("plan: " + err.Error())
	}
	return raw
}
