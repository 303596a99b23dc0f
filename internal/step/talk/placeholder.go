package talk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/espalier-run/espalier/internal/step"
)

// A model that is told what is wrong with its reply sometimes fills in
// something that fits the form and means nothing. That is worse than no answer:
// later steps would take it for the truth.

// emptyWord are texts that stand for a text: <name>, {{name}}, …, TODO.
var emptyWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\s*(<[^<>]*>|\{\{[^{}]*\}\}|\[(insert|your|todo|placeholder)[^\[\]]*\]|\.{3,}|…|todo|tbd|placeholder|lorem ipsum.*|string|n/?a)\s*$`)
})

// placeholders names the texts of a mended value that stand for an answer
// instead of being one. What the schema itself allows by name is none.
func (f Form) placeholders(value json.RawMessage) []string {
	var all any
	if json.Unmarshal(value, &all) != nil {
		return nil
	}
	var out []string
	var look func(at string, v any)
	look = func(at string, v any) {
		switch v := v.(type) {
		case string:
			if emptyWord().MatchString(v) && !bytes.Contains(f.Schema, step.JSON(v)) {
				out = append(out, fmt.Sprintf("%s%q is a placeholder and not an answer", at, v))
			}
		case []any:
			for i, one := range v {
				look(fmt.Sprintf("%s%d: ", at, i), one)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				look(at+key+": ", v[key])
			}
		}
	}
	look("", all)
	return out
}
