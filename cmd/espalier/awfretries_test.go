//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAttemptsOfCallsGroupsAndLoopsHaveNumbers: the events of retried calls, parallel steps and loops, and of the steps
// inside of them, pair by path, iteration and attempt.
func TestAttemptsOfCallsGroupsAndLoopsHaveNumbers(t *testing.T) {
	p := newAWF(t, `  initial: call
  call: {type: call_workflow, workflow: broken, retry: {max_attempts: 3, initial_delay: 1ms},
    continue_on_error: true, on_success: group}
  group: {type: parallel, parallel: [one], retry: {max_attempts: 2, initial_delay: 1ms}, continue_on_error: true,
    on_success: loop}
  one: {type: step, command: exit 2, retry: {max_attempts: 2, initial_delay: 1ms}}
  loop: {type: for_each, items: [1], body: [two], retry: {max_attempts: 2, initial_delay: 1ms},
    continue_on_error: true, on_complete: done, on_failure: done}
  two: {type: step, command: exit 2, on_success: loop}
  done: {type: terminal}
`)
	writeApproved(t, p.dir+"/.awf/workflows/broken.yaml", "name: broken\nstates:\n  initial: s\n"+
		"  s: {type: step, command: exit 5, on_success: done}\n  done: {type: terminal}\n")
	p.wantExit(0, "run", "flow", "--run-id", awfRunID)
	type key struct {
		path               string
		iteration, attempt int
	}
	seen := map[key][]string{}
	for line := range strings.Lines(p.wantExit(0, "transcript", awfRunID)) {
		var l struct {
			Type      string
			Path      string
			Iteration int
			Payload   struct{ Attempt int }
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(l.Type, "step.") {
			k := key{l.Path, l.Iteration, max(l.Payload.Attempt, 1)}
			seen[k] = append(seen[k], l.Type[strings.LastIndex(l.Type, ".")+1:])
		}
	}
	attempts := map[string]int{}
	for k, types := range seen {
		attempts[k.path]++
		if strings.Join(types, " ") != "started completed" {
			t.Errorf("%+v: %q", k, types)
		}
	}
	for path, want := range map[string]int{"call": 3, "group": 2, "group.one": 4, "loop": 2, "loop.two": 2, "done": 1} {
		if attempts[path] != want {
			t.Errorf("%s has %d attempts, want %d", path, attempts[path], want)
		}
	}
}
