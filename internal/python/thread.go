package python

import (
	"context"
	"errors"
	"fmt"
)

// Limits bound an evaluation. The zero value means the defaults.
type Limits struct {
	Steps int64 // operations, weighted by the size of their operands
	Bytes int64 // total size of all values created, including garbage
	Depth int   // nested calls
}

// DefaultLimits suffice for ordinary nodes.
var DefaultLimits = Limits{Steps: 5_000_000, Bytes: 256 << 20, Depth: 200}

const (
	maxObject  = 16 << 20 // bytes of one value
	maxNesting = 200      // nesting of containers that are compared or printed
	maxBits    = 1 << 16  // of an integer
)

// Thread is the state of one evaluation. It must not be used concurrently.
type Thread struct {
	Limits Limits
	// Print receives the output of the program.
	Print func(text string)
	// Modules are modules of the host, by dotted name.
	Modules map[string]*Object

	ctx         context.Context
	std         *standard
	steps, made int64
	depth       int
	globals     *env
	module      *Module
	handling    []*Raised
	at          int // offset of the current statement
}

// NewThread returns a thread with empty globals.
func NewThread(ctx context.Context) *Thread {
	return &Thread{
		ctx: ctx, std: shared(), Limits: DefaultLimits, Print: func(string) {},
		globals: &env{vars: map[string]Value{}},
	}
}

// Raised is the error of a raised exception.
type Raised struct {
	Value *Exception
	Line  int // in the file; 0 if not known yet

	operands bool // an operator does not support its operands
}

func (r *Raised) Error() string {
	// Use a new thread: the one that failed may have used up its steps.
	text, err := NewThread(context.Background()).Str(r.Value)
	if err != nil || text == "" {
		return r.Value.Class
	}
	return r.Value.Class + ": " + text
}

// raise returns an exception of a class with a message.
func raise(class, format string, args ...any) error {
	return &Raised{Value: &Exception{Class: class, Args: []Value{fmt.Sprintf(format, args...)}}}
}

// NewError returns an exception, for functions of the host.
func NewError(class, format string, args ...any) error { return raise(class, format, args...) }

// LimitError ends an evaluation that exceeds a limit. No except clause catches
// it.
type LimitError struct {
	What string
	Line int
}

func (e *LimitError) Error() string { return e.What }

// spend counts n operations. It fails if the limit is exceeded or the context is
// canceled.
func (t *Thread) spend(n int64) error {
	before := t.steps
	t.steps += n
	if t.steps > t.Limits.Steps {
		return &LimitError{What: fmt.Sprintf("the code was stopped after %d operations", t.Limits.Steps)}
	}
	if before>>12 != t.steps>>12 && t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	return nil
}

// grow counts n bytes of a new value or of the growth of a value.
func (t *Thread) grow(n int64) error {
	if n > maxObject {
		return t.tooLarge("a value")
	}
	t.made += n
	if t.made > t.Limits.Bytes {
		return &LimitError{
			What: fmt.Sprintf("the code was stopped because it used more than %d MiB of memory", t.Limits.Bytes>>20),
		}
	}
	return nil
}

func (t *Thread) tooLarge(what string) error {
	return &LimitError{
		What: fmt.Sprintf("the code was stopped because it made %s of more than %d MiB", what, maxObject>>20),
	}
}

// located sets the line of an error that has none.
func (t *Thread) located(err error) error {
	var r *Raised
	var l *LimitError
	if t.module == nil {
		return err
	}
	switch {
	case errors.As(err, &r) && r.Line == 0:
		r.Line = t.module.LineOf(t.at)
	case errors.As(err, &l) && l.Line == 0:
		l.Line = t.module.LineOf(t.at)
	}
	return err
}

// LineOf returns the line of an evaluation error, or 0 if it is not known.
func LineOf(err error) int {
	var r *Raised
	var l *LimitError
	switch {
	case errors.As(err, &r):
		return r.Line
	case errors.As(err, &l):
		return l.Line
	}
	return 0
}

// Run evaluates a module in the thread's globals.
func (t *Thread) Run(m *Module) error {
	before := t.module
	t.module = m
	defer func() { t.module = before }()
	_, _, err := t.block(t.globals, m.Body)
	return err
}

// Global returns a global variable.
func (t *Thread) Global(name string) (Value, bool) {
	v, ok := t.globals.vars[name]
	return v, ok
}

// SetGlobal sets a global variable.
func (t *Thread) SetGlobal(name string, v Value) { t.globals.vars[name] = v }

// Call calls a function with positional arguments.
func (t *Thread) Call(fn Value, args ...Value) (Value, error) { return t.call(fn, args, nil) }
