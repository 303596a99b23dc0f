package report

import "encoding/json"

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
