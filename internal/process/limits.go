package process

import (
	"cmp"
	"time"
)

// Limits bounds what a command may use of the machine. A zero field sets no limit.
type Limits struct {
	// Processes is how many processes and threads may be added to those that
	// exist when the command starts. The kernel does not hold root to it.
	Processes int64
	// Memory is how many bytes one process may allocate.
	Memory int64
	// CPU is how much processor time one process may use.
	CPU time.Duration
}

// DefaultLimits stops runaway commands and leaves room for builds and tests.
var DefaultLimits = Limits{Processes: 4096, Memory: 16 << 30, CPU: 24 * time.Hour}

// Or returns the limits with zero fields taken from others.
func (l Limits) Or(others Limits) Limits {
	l.Processes = cmp.Or(l.Processes, others.Processes)
	l.Memory = cmp.Or(l.Memory, others.Memory)
	l.CPU = cmp.Or(l.CPU, others.CPU)
	return l
}
