//go:build !linux

package process

// ready is what a command has before it is started: nothing that would take time.
type ready struct{}

func (*Command) ahead() *ready { return nil }

func (*ready) drop() {}
