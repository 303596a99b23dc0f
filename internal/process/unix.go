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
	out := make([]string, 0, len(given)+len(more))
	// Names are rarely repeated: the list is searched only when the hash of a
	// name was seen before.
	var seen [1024]bool
	for _, list := range [][]string{given, more} {
		for _, one := range list {
			name, sum := nameOf(one)
			if like := &seen[sum%uint32(len(seen))]; *like {
				if i := slices.IndexFunc(out, func(other string) bool { return isNamed(other, name) }); i >= 0 {
					out[i] = one
					continue
				}
			} else {
				*like = true
			}
			out = append(out, one)
		}
	}
	return out
}

// nameOf returns the name of a variable, and a hash of the name.
func nameOf(variable string) (name string, sum uint32) {
	for i := range len(variable) {
		if variable[i] == '=' {
			return variable[:i], sum
		}
		sum = sum*31 + uint32(variable[i])
	}
	return variable, sum
}

// isNamed reports whether a variable has that name.
func isNamed(variable, name string) bool {
	rest, ok := strings.CutPrefix(variable, name)
	return ok && (rest == "" || rest[0] == '=')
}
