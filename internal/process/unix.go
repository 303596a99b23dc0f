//go:build unix

package process

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// ended is how a command ended.
func ended(status syscall.WaitStatus) Outcome {
	if status.Signaled() {
		return Outcome{Exit: 128 + int(status.Signal()), Signal: status.Signal().String()}
	}
	return Outcome{Exit: status.ExitStatus()}
}

// places are where variables stand in a list, for whoever makes one.
var places = sync.Pool{New: func() any { return map[string]int{} }}

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
	at := places.Get().(map[string]int)
	defer func() {
		clear(at)
		places.Put(at)
	}()
	for _, list := range [][]string{given, more} {
		for _, one := range list {
			name, _, _ := strings.Cut(one, "=")
			if i, twice := at[name]; twice {
				out[i] = one
				continue
			}
			at[name] = len(out)
			out = append(out, one)
		}
	}
	return out
}
