package plantest

import (
	"reflect"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Current sets the rerun of inputs of tasks to that of the running execution, unless a test has set it; -1 stands for
// the first execution.
func Current(s *plan.State, in []plan.Input) []plan.Input {
	out := slices.Clone(in)
	for i, one := range in {
		v := reflect.New(reflect.TypeOf(one)).Elem()
		v.Set(reflect.ValueOf(one))
		rerun := v.FieldByName("Rerun")
		if !rerun.IsValid() {
			continue
		}
		work := v.FieldByName("Work").Interface().(journal.TaskID)
		if f := s.Frames[work.Frame]; f != nil && rerun.Int() == 0 {
			rerun.SetInt(int64(f.Rerun))
		}
		rerun.SetInt(max(rerun.Int(), 0))
		out[i] = v.Interface().(plan.Input)
	}
	return out
}
