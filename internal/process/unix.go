//go:build unix

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ended is how a command ended.
func ended(status syscall.WaitStatus) Outcome {
	if status.Signaled() {
		return Outcome{Exit: 128 + int(status.Signal()), Signal: status.Signal().String()}
	}
	return Outcome{Exit: status.ExitStatus()}
}

// variables are the environment of a command: each name once, as given last,
// and the folder that it runs in.
func variables(c Command, more ...string) []string {
	given := c.Env
	if given == nil {
		given = os.Environ()
	}
	if filepath.IsAbs(c.Dir) {
		more = append(more, "PWD="+c.Dir)
	}
	out := make([]string, 0, len(given)+len(more))
	// Hardly any name is there twice: only those are looked for of which one
	// like it has been seen.
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

// nameOf is the name of a variable, and a sum that is the same for the same name.
func nameOf(variable string) (name string, sum uint32) {
	for i := range len(variable) {
		if variable[i] == '=' {
			return variable[:i], sum
		}
		sum = sum*31 + uint32(variable[i])
	}
	return variable, sum
}

// isNamed tells whether a variable has that name.
func isNamed(variable, name string) bool {
	rest, ok := strings.CutPrefix(variable, name)
	return ok && (rest == "" || rest[0] == '=')
}
