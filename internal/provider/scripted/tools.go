package scripted

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Tools returns the tools of the script, in the order of the file.
func (s *Script) Tools(o Options) []tool.Tool {
	if o.Sleep == nil {
		o.Sleep = provider.Sleep
	}
	return xslices.Map(s.tools, func(t toolScript) tool.Tool {
		return scriptedTool{script: s, toolScript: t, sleep: o.Sleep}
	})
}

type scriptedTool struct {
	toolScript
	script *Script
	sleep  func(context.Context, time.Duration) error
}

// Spec returns the specification of the tool.
func (t scriptedTool) Spec() tool.Spec { return t.spec }

// Call returns the best matching result. Keys of calls start with the run, which entries do not name.
func (t scriptedTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	key := c.Key
	if _, within, ok := strings.Cut(key, "/"); ok { // the run
		key = within
	}
	from := origin{
		workflow: c.For.Workflow, step: c.For.Step, agent: c.For.Agent, key: key,
		attempt: c.For.Attempt + 1, visit: c.For.Visit + 1, iteration: c.For.Iteration + 1,
	}
	e := choose(t.answers, from, func(e *entry) bool { return holds(c.Input, e.input) })
	if e == nil {
		return tool.Result{},
			tool.Errorf(ir.ClassTool, "%s has no answer of the tool %q for %s, with the input %s.%s", t.script.path,
				t.spec.Name, from, diag.Shorten(string(c.Input), maxShown), t.script.near(t.answers, from))
	}
	if e.delay > 0 {
		if err := t.sleep(ctx, e.delay); err != nil {
			return tool.Result{}, err
		}
	}
	if e.fail != nil {
		return tool.Result{}, &tool.Error{Class: ir.Class(e.fail.class), Message: e.fail.message}
	}
	return tool.Result{Output: e.output, IsError: e.isError, Offline: journal.OfflineScripted}, nil
}

// holds reports whether input contains wanted: all its members with their values, at any depth. Lists have to be equal.
func holds(input, wanted json.RawMessage) bool {
	if wanted == nil {
		return true
	}
	var have, want any
	if json.Unmarshal(input, &have) != nil || json.Unmarshal(wanted, &want) != nil {
		return false
	}
	return within(have, want)
}

func within(have, want any) bool {
	object, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(have, want)
	}
	other, ok := have.(map[string]any)
	for k, v := range object {
		value, there := other[k]
		ok = ok && there && within(value, v)
	}
	return ok
}
