//go:build unix

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ended returns the outcome for a wait status.
func ended(status syscall.WaitStatus) Outcome {
	if status.Signaled() {
		return Outcome{Exit: 128 + int(status.Signal()), Signal: status.Signal().String()}
	}
	return Outcome{Exit: status.ExitStatus()}
}

// variables returns the environment of a command: its variables, more, and PWD.
// Of variables with the same name, the last one counts.
func variables(c Command, more ...string) []string {
	given := c.Env
	if given == nil {
		given = os.Environ()
	}
	if filepath.IsAbs(c.Dir) {
		more = append(more, "PWD="+c.Dir)
	}
	out, index := make([]string, 0, len(given)+len(more)), make(map[string]int, len(given)+len(more))
	for _, one := range slices.Concat(given, more) {
		name, _, _ := strings.Cut(one, "=")
		if i, again := index[name]; again {
			out[i] = one
			continue
		}
		index[name] = len(out)
		out = append(out, one)
	}
	return out
}
