package temporal

import (
	"slices"
	"strings"
	"time"
)

// Workers with all labels that a workflow needs run its tasks. A task of a new
// run starts in the task queue of all workers. If a worker without the labels
// gets it, the task and later ones of the run move to a task queue of these
// labels, which only workers that have them serve.

// labelTime is how long a task waits in the task queue of its labels. Then any
// worker says again which labels it needs, because the configuration may have
// changed.
const labelTime = 10 * time.Minute

// labelQueue is the task queue of tasks that need labels, which are sorted.
func (e *Engine) labelQueue(labels []string) string {
	return e.queue() + "-labels-" + strings.Join(labels, ",")
}

// served returns the labels that workflows need and that this process has.
func (e *Engine) served() (out [][]string) {
	for _, labels := range e.c.Needs {
		if hasAll(e.c.Labels, labels) &&
			!slices.ContainsFunc(out, func(l []string) bool { return slices.Equal(l, labels) }) {
			out = append(out, labels)
		}
	}
	return out
}

// hasAll reports whether a process with labels has all that are needed.
func hasAll(labels, needed []string) bool {
	return !slices.ContainsFunc(needed, func(l string) bool { return !slices.Contains(labels, l) })
}
