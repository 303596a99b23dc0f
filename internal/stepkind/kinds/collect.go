package kinds

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// CollectSettings are the settings of a task of kind "collect".
type CollectSettings struct {
	// Defaults are the values of fields that are not read.
	Defaults map[string]json.RawMessage `json:"defaults,omitempty"`
	Reducers map[string]string          `json:"reducers,omitempty"`
}

// Collect is the step kind "collect".
type Collect struct{ stepkind.Base[CollectSettings] }

// Name returns "collect".
func (Collect) Name() string { return "collect" }

// Traits returns those of a computation.
func (Collect) Traits(*ir.Program, *ir.Task) ir.Traits { return ir.Traits{Nature: ir.Computes} }
