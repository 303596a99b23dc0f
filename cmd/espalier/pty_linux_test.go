package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// console is a pseudo-terminal on which a command runs.
type console struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu     sync.Mutex
	grown  *sync.Cond
	screen bytes.Buffer
	seen   int // what has been waited for
	closed bool
}

// startOnConsole starts a command on a new pseudo-terminal, which is its controlling terminal.
func startOnConsole(t *testing.T, cmd *exec.Cmd, columns, rows uint16) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, master: master, cmd: cmd}
	c.grown = sync.NewCond(&c.mu)
	go c.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		master.Close()
	})
	return c
}

func (c *console) read() {
	room := make([]byte, 4096)
	for {
		n, err := c.master.Read(room)
		c.mu.Lock()
		c.screen.Write(room[:n])
		c.closed = err != nil
		c.grown.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// waitFor waits for text on the screen, after what was waited for before.
func (c *console) waitFor(text string) {
	c.t.Helper()
	timer := time.AfterFunc(60*time.Second, func() { _ = c.cmd.Process.Kill() }) // which ends what read waits for
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		rest := c.screen.String()[c.seen:]
		if i := strings.Index(rest, text); i >= 0 {
			c.seen += i + len(text)
			return
		}
		if c.closed {
			c.t.Fatalf("%q is not on the screen:\n%s", text, rest)
		}
		c.grown.Wait()
	}
}

func (c *console) typeText(text string) {
	c.t.Helper()
	if _, err := c.master.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// hangUp closes the terminal.
func (c *console) hangUp() {
	c.t.Helper()
	if err := c.master.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// waitExit waits for the end of the command and returns all that was on the screen.
func (c *console) waitExit(code int) string {
	c.t.Helper()
	_ = c.cmd.Wait() // the exit code counts
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed {
		c.grown.Wait()
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Fatalf("exit code %d, want %d:\n%s", got, code, c.screen.String())
	}
	return c.screen.String()
}
