package cli

import (
	"os"
	"sync"
	"sync/atomic"
)

// Signals passes signals that ask the program to stop to the command that handles them. A nil *Signals never delivers
// any. All handlers share one channel, so a signal goes to one of them; handlers nest, and only the innermost one
// receives.
type Signals struct {
	c        chan os.Signal
	handlers atomic.Int32
}

// NewSignals returns Signals without a handler.
func NewSignals() *Signals { return &Signals{c: make(chan os.Signal, 8)} }

// Deliver passes a signal on. It reports whether a command handles signals; if
// none does, the program has to end.
func (s *Signals) Deliver(sig os.Signal) bool {
	if s.handlers.Load() == 0 {
		return false
	}
	select {
	case s.c <- sig:
	default: // more than enough are waiting
	}
	return true
}

// handle begins to handle signals, until the returned function is called, which may be called more than once. From the
// first call on no signal is lost, whether or not anything receives it yet.
func (s *Signals) handle() (signals <-chan os.Signal, release func()) {
	if s == nil {
		return nil, func() {}
	}
	s.handlers.Add(1)
	return s.c, sync.OnceFunc(func() { s.handlers.Add(-1) })
}
