package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/process"
)

const thieving = "ESPALIER_TEST_THIEVING"

// playThief takes back what it prints, as a command can that opens its own
// output for reading, until it is stopped.
func playThief(line string) {
	said, err := os.OpenFile(line, os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	back, err := syscall.Open("/proc/self/fd/1", syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var b [1]byte
	for range 20_000 {
		_, _ = syscall.Write(1, b[:])
		_, _ = syscall.Read(back, b[:])
	}
	fmt.Fprintln(said, "on")
	select {}
}

// A command that reads its own output may be quicker than we are. Waiting for
// what is not there any more would be waiting for ever: nothing could stop it.
func TestWhoReadsItsOwnOutputCanBeStopped(t *testing.T) {
	line := newLifeline(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go func() {
		line.begun(t)
		cancel(why)
	}()
	c := process.Command{Path: os.Args[0], Env: append(os.Environ(), thieving+"="+line.path), MaxOutput: 1 << 20}
	if _, err := process.Run(ctx, c); !errors.Is(err, why) {
		t.Error(err)
	}
}
