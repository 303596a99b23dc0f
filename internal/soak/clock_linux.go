package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The kernel has no namespaces for the wall clock, and programs without cgo do not ask libc, where faketime would
// answer. So the program that is tested is compiled with a time package whose wall clock is ahead by a number in a file
// of the project. The program itself is not changed.
//
//go:embed wallclock.go.txt
var wallClock []byte

// clockVariable names the file.
const clockVariable = "ESPALIER_SOAK_CLOCK"

// clockFlags returns flags for "go build" that make the wall clock of the program jump.
func clockFlags(dir string) ([]string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return nil, err
	}
	const reads = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n"
	jumping := strings.Replace(string(text), reads,
		"\tsec, nsec, mono := runtimeNow()\n\tsec += wallJump.Load()\n\tif mono == 0 {\n", 1)
	if jumping == string(text) {
		return nil, errors.New("time.Now of this version of Go reads the clock in another way; adapt clockFlags")
	}
	changed, added := filepath.Join(dir, "time.go"), filepath.Join(dir, "wallclock.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(source, "time.go"): changed, filepath.Join(source, "wallclock.go"): added,
	}})
	if err != nil {
		return nil, err
	}
	list := filepath.Join(dir, "overlay.json")
	return []string{"-overlay", list}, errors.Join(
		os.WriteFile(changed, []byte(jumping), 0o600), os.WriteFile(added, wallClock, 0o600),
		os.WriteFile(list, overlay, 0o600),
	)
}

// wall is the wall clock of the processes of a project.
type wall struct {
	path  string
	ahead *atomic.Int64 // in seconds; the processes have mapped it
}

func newWall(path string) (*wall, error) {
	if err := os.WriteFile(path, make([]byte, 8), 0o600); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	memory, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &wall{path, (*atomic.Int64)(unsafe.Pointer(&memory[0]))}, nil
}

// jumps counts the jumps of all projects.
var jumps atomic.Int64

// jump sets the clock forwards or backwards, by up to a few days, for processes that run as for later ones.
func (w *wall) jump(random *rand.Rand) string {
	const most = 3 * 24 * 3600
	ahead := random.Int64N(2*most) - most
	w.ahead.Store(ahead)
	jumps.Add(1)
	return fmt.Sprintf("wall clock %+ds", ahead)
}

// checkClock checks that the clock of the program jumps.
func checkClock(program, dir string) error {
	j, err := newJob(program, dir)
	if err != nil {
		return err
	}
	const years = 10
	j.wall.ahead.Store(years * 365 * 24 * 3600)
	j.try(formats["agent-flow"].args("run")...)
	_, out := j.try("runs", "--json")
	var printed struct{ Started time.Time }
	if err := json.Unmarshal([]byte(out), &printed); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if printed.Started.Before(time.Now().AddDate(years-1, 0, 0)) {
		return fmt.Errorf("the wall clock of the program does not jump: a run has started at %s", printed.Started)
	}
	return nil
}
