package owner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal"
)

// Process is this process among those that use the same folder. Its methods are safe for concurrent use.
type Process struct {
	dir   string
	id    journal.Owner
	lock  *filelock.File // held until the process ends; nil if it only observes
	wakes chan struct{}  // has room for one value; never closed
	pipe  *wakePipe
	close sync.Once
}

// Info is what a process publishes about itself.
type Info struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Version string    `json:"version,omitempty"`
	Works   bool      `json:"works,omitempty"` // it drives every run of the store
	Labels  []string  `json:"labels,omitempty"`
	Since   time.Time `json:"since"`
}

// Describe returns the Info of this process. version is the version of the
// program; works means that it drives every run of the store.
func Describe(version string, works bool) Info {
	host, _ := os.Hostname() // only for people to read
	return Info{
		PID: os.Getpid(), Host: host, Command: filepath.Base(os.Args[0]), Version: version, Works: works,
		Since: time.Now().UTC().Truncate(time.Second),
	}
}

// Worker is a living process with its name.
type Worker struct {
	ID journal.Owner
	Info
	// Seen is the last sign of life, on the store's clock; zero if the process
	// is known to live now.
	Seen time.Time
}

const (
	lockSuffix = ".lock"
	// leavingSuffix marks a process that has called StopDriving.
	leavingSuffix = ".leaving"
	// A file without a lock may belong to a process that is just starting. It
	// cannot own anything yet; sweep must not remove the file.
	birth = time.Minute
)

// New announces this process in a folder and removes the files of dead ones. A
// process calls it once and keeps it until it ends.
func New(dir string) (*Process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &Process{dir: dir, id: journal.Owner(rand.Text()), wakes: make(chan struct{}, 1)}
	p.sweep()
	if err := p.announce(); err != nil {
		return nil, fmt.Errorf("announcing this process: %w", err)
	}
	return p, nil
}

// Observe returns a process that looks at the others in a folder without
// announcing itself: the folder may be read-only. It cannot own runs, because
// others consider it dead.
func Observe(dir string) *Process {
	return &Process{dir: dir, id: journal.Owner(rand.Text()), wakes: make(chan struct{}, 1)}
}

// announce creates the lock file of this process and locks it, and then listens for wake-ups. The lock is held before
// the name is used, so that no other process considers the owner of a run dead.
func (p *Process) announce() (err error) {
	path := p.path(p.id) + lockSuffix
	// Another process may have removed the file before it was locked: the clock
	// may have jumped, which makes a new file look old.
	for p.lock == nil || !p.lock.IsAt(path) {
		if p.lock != nil {
			p.lock.Close()
		}
		if p.lock, err = filelock.Open(path); err != nil {
			return err
		}
		if err := p.lock.Exclusive(); err != nil {
			return errors.Join(err, p.lock.Close())
		}
	}
	defer func() {
		if err != nil {
			p.lock.Close()
			os.Remove(path)
		}
	}()
	if err := p.Publish(Describe("", false)); err != nil {
		return err
	}
	p.pipe, err = listen(p.path(p.id), p.onWake)
	return err
}

// published is the content of a lock file.
type published struct {
	Info
	// Namespace is where the PID is valid; empty if that is unknown.
	Namespace string `json:"pid_namespace,omitempty"`
}

// Publish replaces what this process says about itself.
func (p *Process) Publish(is Info) error {
	text, err := json.Marshal(published{is, pidNamespace()})
	if err != nil {
		return err
	}
	return p.lock.Replace(text)
}

// path returns the path that the files of a process start with.
func (p *Process) path(o journal.Owner) string { return filepath.Join(p.dir, string(o)) }

// ID returns the name under which this process owns runs. It is never reused.
func (p *Process) ID() journal.Owner { return p.id }

// Dead reports whether a process has ended. If that is unknown, it returns false:
// a run that waits is better than one with two writers.
func (p *Process) Dead(o journal.Owner) bool {
	if o == p.id || o == journal.Temporal {
		return false
	}
	if !isName(string(o)) {
		return true // no process has ever had this name
	}
	return gone(p.path(o) + lockSuffix)
}

// Drives reports whether another process is alive and has not called
// StopDriving.
func (p *Process) Drives(o journal.Owner) bool {
	if p.Dead(o) || !isName(string(o)) {
		return false
	}
	_, err := os.Lstat(p.path(o) + leavingSuffix)
	return errors.Is(err, fs.ErrNotExist)
}

// StopDriving announces that this process starts no more tasks. If the
// announcement fails, others wait for this process until it ends.
func (p *Process) StopDriving() {
	if p.lock == nil {
		return
	}
	_ = os.WriteFile(p.path(p.id)+leavingSuffix, nil, 0o600)
}

// gone reports whether the process with this lock file has ended. It tries a
// shared lock, so that two concurrent calls do not mistake each other for the
// owner.
func gone(path string) bool {
	f, err := filelock.OpenExisting(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	free, err := f.TryShared()
	return err == nil && (free || reaped(path))
}

// remove removes the files of a process if it has ended. A process that is just
// starting waits for its lock meanwhile, and notices that the file is gone.
func remove(path string) {
	f, err := filelock.OpenExisting(path + lockSuffix)
	if err != nil {
		return
	}
	defer f.Close()
	free, err := f.TryShared()
	if err != nil || !free {
		return
	}
	removeWakePipe(path)
	os.Remove(path + leavingSuffix)
	if os.Remove(path+lockSuffix) != nil {
		f.Close() // Windows removes files only when no process has opened them
		os.Remove(path + lockSuffix)
	}
}

// reaped reports whether the process with this lock file no longer exists. Its
// lock may still be held: a command that it was about to start when it was killed
// has a copy of its open files until the command's program is executed.
func reaped(path string) bool {
	namespace := pidNamespace()
	if namespace == "" {
		return false
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var is published
	return json.Unmarshal(data, &is) == nil && is.Namespace == namespace && is.PID > 0 && !exists(is.PID)
}

// isName reports whether a name from the journal is safe as a file name.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// Wake wakes a process, which may be this one or a dead one; an empty name wakes
// all others. Commit the message first.
func (p *Process) Wake(o journal.Owner) {
	if o == "" {
		for name := range p.others() {
			call(p.path(journal.Owner(name)))
		}
	} else if o == p.id {
		p.onWake()
	} else if isName(string(o)) {
		call(p.path(o))
	}
}

// Wakes receives a value when another process has woken this one; wake-ups at the
// same time are combined.
func (p *Process) Wakes() <-chan struct{} { return p.wakes }

// onWake sends to wakes, unless a wake-up is waiting there.
func (p *Process) onWake() {
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// Describe returns what a living process has published about itself.
func (p *Process) Describe(o journal.Owner) (Info, error) {
	var info Info
	if !isName(string(o)) {
		return info, fs.ErrNotExist
	}
	data, err := os.ReadFile(p.path(o) + lockSuffix)
	if err != nil {
		return info, err
	}
	err = json.Unmarshal(data, &info)
	return info, err
}

// Workers lists the other living processes.
func (p *Process) Workers(context.Context) ([]Worker, error) {
	var all []Worker
	for name := range p.others() {
		id := journal.Owner(name)
		if p.Dead(id) {
			continue
		}
		info, _ := p.Describe(id) // it may have ended by now, or not written it yet
		all = append(all, Worker{ID: id, Info: info})
	}
	return all, nil
}

// Close ends this process's ownership: other processes consider it dead.
func (p *Process) Close() error {
	if p.lock == nil {
		return nil
	}
	var err error
	p.close.Do(func() {
		// The lock file is closed before it is removed: Windows does not remove files that are open.
		p.pipe.close()
		err = p.lock.Close()
		os.Remove(p.path(p.id) + lockSuffix)
		os.Remove(p.path(p.id) + leavingSuffix)
	})
	return err
}

// others returns the names of all other processes that have files in the folder,
// dead or alive.
func (p *Process) others() iter.Seq2[string, fs.DirEntry] {
	return func(yield func(string, fs.DirEntry) bool) {
		entries, err := os.ReadDir(p.dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), lockSuffix)
			if ok && name != string(p.id) && !yield(name, e) {
				return
			}
		}
	}
}

// sweep removes the files of dead processes.
func (p *Process) sweep() {
	for name, e := range p.others() {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < birth {
			continue
		}
		remove(filepath.Join(p.dir, name))
	}
}
