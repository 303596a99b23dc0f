package process_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/espalier-run/espalier/internal/process"
)

// A command that reads its own output may be quicker than we are. Waiting for
// what is not there any more would be waiting for ever: nothing could stop it.
func TestCommandThatReadsItsOwnOutputCanBeStopped(t *testing.T) {
	line := newLifeline(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go func() {
		line.begun(t)
		cancel(why)
	}()
	c := process.Command{Path: os.Args[0], Env: append(os.Environ(), helperDrainEnv+"="+line.path), MaxOutput: 1 << 20}
	if _, err := process.Run(ctx, c); !errors.Is(err, why) {
		t.Error(err)
	}
}
