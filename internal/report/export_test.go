package report

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/redact"
)

// Size returns the size of the Interpreter's state as JSON.
func (in *Interpreter) Size() int {
	size := len(in.frames)
	for _, f := range in.frames {
		raw, err := json.Marshal([]any{f.run, f.up, f.step})
		if err != nil {
			panic(err)
		}
		size += len(raw)
	}
	raw, err := json.Marshal(in.budgets.state)
	if err != nil {
		panic(err)
	}
	return size + len(raw)
}

// RedactFact redacts a fact that has no large values.
func RedactFact(rules *redact.Rules, fact journal.Fact) (journal.Fact, error) {
	return redaction{rules: rules}.fact(fact)
}

// NoteBodies returns the zero data of every kind of note that has a form.
func NoteBodies() map[string]any {
	out := map[string]any{}
	for kind, t := range noteTypes {
		out[kind] = t.body()
	}
	return out
}
