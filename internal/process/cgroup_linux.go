package process

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Cgroups of version 2 limit the memory and the processes of a command with all its children, also for root. They are
// used only where this process may create them: its own cgroup is writable and contains no other process, as after
// "systemd-run --user --scope -p Delegate=yes". Resource limits apply in addition.
//
// The kernel does not distribute resources from a cgroup that contains processes, so this process moves to a child of
// its cgroup first.

const (
	cgroupMount = "/sys/fs/cgroup"
	cgroupSelf  = "/proc/self/cgroup"
	ownGroup    = "espalier"
)

// cgroupParent returns the cgroup in which those of commands are created, or why there is none.
var cgroupParent = sync.OnceValues(func() (string, error) {
	raw, err := os.ReadFile(cgroupSelf)
	if err != nil {
		return "", err
	}
	dir, err := delegatedCgroup(cgroupMount, string(raw), os.Getpid())
	if err != nil {
		return "", err
	}
	return dir, prepareCgroup(dir, os.Getpid())
})

// Cgroups returns an error that says why cgroups do not limit commands, or nil if they do. It changes nothing.
func Cgroups() error {
	raw, err := os.ReadFile(cgroupSelf)
	if err == nil {
		_, err = delegatedCgroup(cgroupMount, string(raw), os.Getpid())
	}
	return err
}

// delegatedCgroup returns the cgroup of this process if those of commands can be created in it. self is the content of
// /proc/self/cgroup.
func delegatedCgroup(mount, self string, pid int) (string, error) {
	// Lines are "hierarchy:controllers:path"; that of version 2 has hierarchy 0 and no controllers.
	var path string
	for line := range strings.Lines(self) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = rest
		}
	}
	if path == "" {
		return "", errors.New("the machine has no cgroup v2")
	}
	dir := filepath.Join(mount, path)
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return "", errors.New("the machine has no cgroup v2")
	}
	for _, name := range []string{"memory", "pids"} {
		if !slices.Contains(strings.Fields(string(controllers)), name) {
			return "", fmt.Errorf("the controller %q is not delegated", name)
		}
	}
	if unix.Access(dir, unix.W_OK) != nil {
		return "", errors.New("the cgroup of this process is not delegated")
	}
	// Moving other processes, or limiting them, is not up to this program.
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err == nil && string(bytes.TrimSpace(raw)) != strconv.Itoa(pid) {
		err = errors.New("the cgroup of this process contains other processes")
	}
	return dir, err
}

// prepareCgroup moves this process to a child of its cgroup, and lets the cgroup limit its children.
func prepareCgroup(dir string, pid int) error {
	own, id := filepath.Join(dir, ownGroup), strconv.Itoa(pid)
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := writeControl(filepath.Join(own, "cgroup.procs"), id)
	if err != nil {
		return errors.Join(err, os.Remove(own))
	}
	// If the kernel refuses, everything is as before: this process moves back.
	if err = writeControl(filepath.Join(dir, "cgroup.subtree_control"), "+memory +pids"); err != nil {
		return errors.Join(err, writeControl(filepath.Join(dir, "cgroup.procs"), id), os.Remove(own))
	}
	return nil
}

// newCgroup creates the cgroup of a command.
func newCgroup(parent string, l Limits) (string, error) {
	dir := filepath.Join(parent, "command-"+rand.Text())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	var err error
	if l.Memory > 0 {
		err = writeControl(filepath.Join(dir, "memory.max"), strconv.FormatInt(l.Memory, 10))
	}
	if l.Processes > 0 {
		err = errors.Join(err, writeControl(filepath.Join(dir, "pids.max"), strconv.FormatInt(l.Processes, 10)))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// commandCgroup returns an open cgroup for a command, or nil if there is none. Resource limits remain without it.
func commandCgroup(l Limits) *os.File {
	parent, err := cgroupParent()
	if err != nil || l.Memory == 0 && l.Processes == 0 {
		return nil
	}
	dir, err := newCgroup(parent, l)
	if err != nil {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		_ = os.Remove(dir)
		return nil
	}
	return f
}

// removeCgroup removes the cgroup of a command that has ended.
func removeCgroup(f *os.File) {
	if f != nil {
		f.Close()
		_ = os.Remove(f.Name()) // a cgroup that is not empty remains until its processes have ended
	}
}

// writeControl writes a control file, which the kernel creates with its cgroup.
func writeControl(path, value string) error { return os.WriteFile(path, []byte(value), 0o644) }
