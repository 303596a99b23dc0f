//go:build unix && !solaris && !aix

package owner

import (
	"bytes"
	"os"
	"syscall"
)

// wakePipe is a named pipe that its process reads and others write to.
type wakePipe struct {
	path    string
	pipe    *os.File
	stopped chan struct{}
}

// pipeSuffix is the end of the names of pipes.
const pipeSuffix = ".pipe"

// listen calls wake whenever another process writes to the pipe.
func listen(path string, wake func()) (*wakePipe, error) {
	e := &wakePipe{path: path + pipeSuffix, stopped: make(chan struct{})}
	if err := syscall.Mkfifo(e.path, 0o600); err != nil {
		return nil, &os.PathError{Op: "mkfifo", Path: e.path, Err: err}
	}
	// Open for writing, too, so that reads do not end when the last writer closes
	// the pipe.
	pipe, err := os.OpenFile(e.path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		os.Remove(e.path)
		return nil, err
	}
	e.pipe = pipe
	go func() {
		defer close(e.stopped)
		calls := make([]byte, 512)
		for {
			n, err := pipe.Read(calls)
			if err != nil {
				return
			}
			if bytes.IndexByte(calls[:n], hangUp) >= 0 {
				return
			}
			wake()
		}
	}()
	return e, nil
}

const (
	ring   = 'w'
	hangUp = 'q' // to itself: closing does not end a blocked read on every system
)

// close ends the goroutine of listen. The name of the pipe goes first, so that no later call opens it.
func (e *wakePipe) close() {
	os.Remove(e.path)
	e.pipe.Write([]byte{hangUp})
	<-e.stopped
	e.pipe.Close()
}

// call writes one byte. It makes no difference if no process reads it, or if the
// pipe is full of earlier calls. It does not use os.File, which would wait for
// room in a full pipe.
func call(path string) {
	pipe, err := syscall.Open(path+pipeSuffix, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(pipe)
	syscall.Write(pipe, []byte{ring})
}

// removeWakePipe removes the pipe of a dead process, if there is one.
func removeWakePipe(path string) { os.Remove(path + pipeSuffix) }
