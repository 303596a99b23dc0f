package owner

import (
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

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/filelock"
)

// Process is this process, among others that use the same folder.
type Process struct {
	dir   string
	id    journal.Owner
	lock  *filelock.File
	wakes chan struct{}
	pipe  *wakePipe
	close sync.Once
}

// Info is what a process says about itself.
type Info struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

const (
	lockSuffix = ".lock"
	// leavingSuffix marks a process that has called StopDriving.
	leavingSuffix = ".leaving"
	// A file that is not locked may be of a process that is just being born;
	// nobody can own anything that early, so it is enough not to clear it away.
	birth = time.Minute
)

// New announces this process in a folder and clears away what dead ones left
// there. A process does it once, and keeps it until it ends.
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

func (p *Process) announce() (err error) {
	path := p.path(p.id) + lockSuffix
	if p.lock, err = filelock.Open(path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.lock.Close()
			os.Remove(path)
		}
	}()
	if err := p.lock.Exclusive(); err != nil {
		return err
	}
	host, _ := os.Hostname() // only for people to read
	info, err := json.Marshal(Info{PID: os.Getpid(), Host: host, Command: filepath.Base(os.Args[0]), Since: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if _, err := p.lock.Write(info); err != nil {
		return err
	}
	p.pipe, err = listen(p.path(p.id), p.onWake)
	return err
}

func (p *Process) path(o journal.Owner) string { return filepath.Join(p.dir, string(o)) }

// ID is the name under which this process owns runs. It is never used again.
func (p *Process) ID() journal.Owner { return p.id }

// Dead reports whether the process of that name has ended. When it cannot
// find out, it says no: a run that waits is better than one with two writers.
func (p *Process) Dead(o journal.Owner) bool {
	if o == p.id {
		return false
	}
	if !isName(string(o)) {
		return true // no process ever had it
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

// StopDriving announces that this process begins no more work. Without the
// announcement, which may fail, others believe that it goes on until it ends.
func (p *Process) StopDriving() {
	_ = os.WriteFile(p.path(p.id)+leavingSuffix, nil, 0o600)
}

// gone reports whether nobody holds the lock. Two who ask at once do not
// mistake each other for the owner, because they ask for a shared lock.
func gone(path string) bool {
	f, err := filelock.OpenExisting(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	free, err := f.TryShared()
	return err == nil && free
}

// isName keeps what stands in a journal from leading out of the folder.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// Wake wakes a process that may be this one, or may have ended; with an empty
// name every other one. Commit first what it is to find.
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

// Wakes delivers a value when somebody has woken this process, once for
// wake-ups that came together.
func (p *Process) Wakes() <-chan struct{} { return p.wakes }

func (p *Process) onWake() {
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// Describe reads what a living process said about itself.
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

// Close ends this process's ownership: from then on it is dead to others.
func (p *Process) Close() error {
	var err error
	p.close.Do(func() {
		p.pipe.close()
		err = p.lock.Close()
		os.Remove(p.path(p.id) + lockSuffix)
		os.Remove(p.path(p.id) + leavingSuffix)
	})
	return err
}

// others are the names of all processes but this one that have left files in
// the folder, dead or alive.
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
		path := filepath.Join(p.dir, name)
		if gone(path + lockSuffix) {
			removeWakePipe(path)
			os.Remove(path + leavingSuffix)
			os.Remove(path + lockSuffix)
		}
	}
}
