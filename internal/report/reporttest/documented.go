package reporttest

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Documented is what docs/transcript.md says about the keys of records.
type Documented struct {
	Keys map[string][]string // by the type of an event or a block
	used map[string]map[string]bool
}

// inCode matches a name in the documentation.
var inCode = regexp.MustCompile("`([^`]+)`")

// ReadDocumented reads docs/transcript.md, for a test in a folder three levels below the root.
func ReadDocumented(t testing.TB) *Documented {
	t.Helper()
	page, err := os.ReadFile("../../../docs/transcript.md")
	if err != nil {
		t.Fatal(err)
	}
	return ParseDocumented(string(page))
}

// ParseDocumented parses the text of docs/transcript.md.
func ParseDocumented(page string) *Documented {
	d := &Documented{Keys: map[string][]string{}, used: map[string]map[string]bool{}}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[2], "`, `") {
			continue
		}
		var keys []string
		for _, key := range inCode.FindAllStringSubmatch(cells[2], -1) {
			keys = append(keys, key[1])
		}
		for _, name := range inCode.FindAllStringSubmatch(cells[1], -1) {
			d.Keys[name[1]] = append(d.Keys[name[1]], keys...)
		}
	}
	return d
}

// Check returns the keys of a line that the page does not have, with the type that they belong to.
func (d *Documented) Check(line []byte) []string {
	var event struct {
		Type, Event string
		Payload     map[string]json.RawMessage
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return []string{err.Error()}
	}
	if event.Event != "" { // a line of the audit trail of AWF
		var all map[string]json.RawMessage
		_ = json.Unmarshal(line, &all) // as above
		return d.check(event.Event, all)
	}
	out := d.check(event.Type, event.Payload)
	var blocks []map[string]json.RawMessage
	if raw := event.Payload["blocks"]; raw != nil {
		if err := json.Unmarshal(raw, &blocks); err != nil {
			return append(out, err.Error())
		}
	}
	for _, block := range blocks {
		var kind string
		_ = json.Unmarshal(block["type"], &kind) // "" is not documented
		out = append(out, d.check(kind, block)...)
	}
	return out
}

// check returns the keys of an object that are not documented, and notes the others as used.
func (d *Documented) check(kind string, object map[string]json.RawMessage) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(d.Keys[kind], key) {
			out = append(out, kind+": "+key)
			continue
		}
		if d.used[kind] == nil {
			d.used[kind] = map[string]bool{}
		}
		d.used[kind][key] = true
	}
	return out
}

// Unused returns the documented keys of a type that no line had.
func (d *Documented) Unused(kind string) []string {
	var out []string
	for _, key := range d.Keys[kind] {
		if !d.used[kind][key] {
			out = append(out, key)
		}
	}
	return out
}
