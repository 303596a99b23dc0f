package python

import (
	"context"
	"errors"
	"fmt"
)

// Limits bound an evaluation. The zero value means the defaults.
type Limits struct {
	Steps int64 // operations; one that looks at n things counts more
	Bytes int64 // that all values made along the way take together
	Depth int   // calls inside of calls
}

// DefaultLimits are generous for nodes and small for the machine.
var DefaultLimits = Limits{Steps: 5_000_000, Bytes: 256 << 20, Depth: 200}

const (
	maxObject  = 16 << 20 // bytes of one value
	maxNesting = 200      // levels of lists in lists that are looked at
	maxBits    = 1 << 16  // of a whole number
)

// Thread is one evaluation.
type Thread struct {
	Limits Limits
	// Print is given what the program prints.
	Print func(text string)
	// Modules are what the host adds: by the dotted names that are imported.
	Modules map[string]*Object

	ctx         context.Context
	std         *standard
	steps, made int64
	depth       int
	globals     *env
	module      *Module
	handling    []*Raised
	at          int // offset of the statement that is being done
}

// NewThread begins an evaluation with empty globals.
func NewThread(ctx context.Context) *Thread {
	return &Thread{ctx: ctx, std: shared(), Limits: DefaultLimits, Print: func(string) {}, globals: &env{vars: map[string]Value{}}}
}

// Raised is an exception on its way up.
type Raised struct {
	Value *Exception
	Line  int // of the file; 0 is not known yet

	operands bool // an operator does not take what it was given
}

func (r *Raised) Error() string {
	// A new thread, because the one that failed may be out of steps.
	text, err := NewThread(context.Background()).Str(r.Value)
	if err != nil || text == "" {
		return r.Value.Class
	}
	return r.Value.Class + ": " + text
}

// raise makes an exception of a class with a message.
func raise(class, format string, args ...any) error {
	return &Raised{Value: &Exception{Class: class, Args: []Value{fmt.Sprintf(format, args...)}}}
}

// NewError makes an exception, for the functions of a host.
func NewError(class, format string, args ...any) error { return raise(class, format, args...) }

// LimitError ends an evaluation that wanted too much. No except clause
// catches it.
type LimitError struct {
	What string
	Line int
}

func (e *LimitError) Error() string { return e.What }

// spend counts n operations.
func (t *Thread) spend(n int64) error {
	before := t.steps
	t.steps += n
	if t.steps > t.Limits.Steps {
		return &LimitError{What: fmt.Sprintf("the code was stopped after %d operations; it does not come to an end by itself", t.Limits.Steps)}
	}
	if before>>12 != t.steps>>12 && t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	return nil
}

// grow counts the bytes of a new value, or of what one grows by.
func (t *Thread) grow(n int64) error {
	if n > maxObject {
		return t.tooLarge("a value")
	}
	t.made += n
	if t.made > t.Limits.Bytes {
		return &LimitError{What: fmt.Sprintf("the code was stopped because it used more than %d MiB of memory", t.Limits.Bytes>>20)}
	}
	return nil
}

func (t *Thread) tooLarge(what string) error {
	return &LimitError{What: fmt.Sprintf("the code was stopped because it made %s of more than %d MiB", what, maxObject>>20)}
}

// located gives an error the line where it came up, if it has none.
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

// LineOf is the line that an error of an evaluation came up on; 0 when it is
// not known.
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

// Global finds a variable of the program.
func (t *Thread) Global(name string) (Value, bool) {
	v, ok := t.globals.vars[name]
	return v, ok
}

// SetGlobal gives the program a variable.
func (t *Thread) SetGlobal(name string, v Value) { t.globals.vars[name] = v }

// Call calls a function.
func (t *Thread) Call(fn Value, args ...Value) (Value, error) { return t.call(fn, args, nil) }
