package tooltest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/tool"
)

// Subject is a tool under test.
type Subject struct {
	Tool tool.Tool
	// Works is a call that succeeds, also when it is repeated.
	Works tool.Call
	// Fails are calls that do not succeed: the tool reports a failure, or it cannot run. The class is "" for a failure
	// that the tool reports.
	Fails []Failure
}

// Failure is a call that does not succeed.
type Failure struct {
	Call  tool.Call
	Class ir.Class
}

// Run checks what callers of tools rely on.
func Run(t *testing.T, s Subject) {
	t.Helper()
	t.Run(s.Tool.Spec().Name, func(t *testing.T) {
		t.Run("the spec is complete and constant", s.spec)
		t.Run("an output is JSON with all media", s.output)
		t.Run("a failure is reported or has a class", s.failures)
		t.Run("a canceled call returns the cause", s.canceled)
		t.Run("calls at the same time are independent", s.concurrent)
	})
}

// spec checks that the spec is complete, the same each time, and accepts the input of the call that works.
func (s *Subject) spec(t *testing.T) {
	spec := s.Tool.Spec()
	if spec.Name == "" || spec.Description == "" || spec.Timeout < 0 || spec.ApprovalTimeout < 0 {
		t.Errorf("%+v", spec)
	}
	if !reflect.DeepEqual(spec, s.Tool.Spec()) {
		t.Error("a second spec differs")
	}
	for _, one := range []json.RawMessage{spec.Schema, spec.Returns} {
		if _, err := schema.Compile(one); len(one) > 0 && err != nil {
			t.Errorf("%s: %v", one, err)
		}
	}
	if problems := tool.BadInput(spec, s.Works.Input); len(problems) > 0 {
		t.Errorf("the input %s is refused: %q", s.Works.Input, problems)
	}
	var declared struct{ Properties map[string]json.RawMessage }
	if len(spec.Schema) > 0 {
		if err := json.Unmarshal(spec.Schema, &declared); err != nil {
			t.Error(err)
		}
	}
	if spec.Code != "" && declared.Properties[spec.Code] == nil {
		t.Errorf("there is no argument %q", spec.Code)
	}
}

// output checks the result of the call that works, and that the call leaves its input unchanged.
func (s *Subject) output(t *testing.T) {
	before := string(s.Works.Input)
	result, err := s.Tool.Call(t.Context(), s.Works)
	if err != nil || result.IsError {
		t.Fatalf("%s %v", result.Output, err)
	}
	check(t, result)
	if returns := s.Tool.Spec().Returns; len(returns) > 0 {
		if problems := tool.BadInput(tool.Spec{Schema: returns}, result.Output); len(problems) > 0 {
			t.Errorf("%s is not what the tool returns: %q", result.Output, problems)
		}
	}
	if string(s.Works.Input) != before {
		t.Errorf("the call has changed its input to %s", s.Works.Input)
	}
}

// check reports an output that is not JSON, and media without a placeholder.
func check(t *testing.T, result tool.Result) {
	t.Helper()
	if !json.Valid(result.Output) {
		t.Errorf("the output is not JSON: %q", result.Output)
	}
	for _, one := range result.Media {
		if !strings.Contains(string(result.Output), one.File()) {
			t.Errorf("%s has no placeholder for %s", result.Output, one.File())
		}
	}
}

func (s *Subject) failures(t *testing.T) {
	for _, f := range s.Fails {
		result, err := s.Tool.Call(t.Context(), f.Call)
		var failed *tool.Error
		switch {
		case f.Class == "":
			if check(t, result); err != nil || !result.IsError {
				t.Errorf("%s: got %s %v", f.Call.Input, result.Output, err)
			}
		case !errors.As(err, &failed) || failed.Class != f.Class || failed.Message == "":
			t.Errorf("%s: got %s %v, want %s", f.Call.Input, result.Output, err, f.Class)
		}
	}
}

// canceled lets a call that needs no time succeed.
func (s *Subject) canceled(t *testing.T) {
	why := errors.New("the run was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if result, err := s.Tool.Call(ctx, s.Works); err != nil && !errors.Is(err, why) {
		t.Errorf("got %v", err)
	} else if err == nil {
		check(t, result)
	}
}

func (s *Subject) concurrent(t *testing.T) {
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if result, err := s.Tool.Call(t.Context(), s.Works); err != nil || result.IsError {
				t.Errorf("%s %v", result.Output, err)
			}
		})
	}
	calls.Wait()
}
