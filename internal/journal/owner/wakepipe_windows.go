package owner

import (
	"os"
	"time"
)

// wakePipe is a file that callers append to and its process polls: Windows has no
// named pipes in folders.
type wakePipe struct {
	path string
	stop chan struct{}
	done chan struct{}
}

const (
	wakeSuffix = ".calls"
	lookEvery  = 50 * time.Millisecond
)

// listen calls wake when the file has grown.
func listen(path string, wake func()) (*wakePipe, error) {
	e := &wakePipe{path: path + wakeSuffix, stop: make(chan struct{}), done: make(chan struct{})}
	if err := os.WriteFile(e.path, nil, 0o600); err != nil {
		return nil, err
	}
	go func() {
		defer close(e.done)
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		var seen int64
		for {
			select {
			case <-e.stop:
				return
			case <-look.C:
			}
			if info, err := os.Stat(e.path); err == nil && info.Size() != seen {
				seen = info.Size()
				wake()
			}
		}
	}()
	return e, nil
}

// close ends the polling and removes the file.
func (e *wakePipe) close() {
	close(e.stop)
	<-e.done
	os.Remove(e.path)
}

// call appends one byte. Errors are ignored: the process may have ended, and wake-ups only save time.
func call(path string) {
	f, err := os.OpenFile(path+wakeSuffix, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return
	}
	f.Write([]byte{'w'})
	f.Close()
}

// removeWakePipe removes the file of a dead process, if there is one.
func removeWakePipe(path string) { os.Remove(path + wakeSuffix) }
