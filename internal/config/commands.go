package config

import "github.com/espalier-run/espalier/internal/process"

// readCommands reads the limits of commands. What is not set is zero, which
// stands for process.DefaultLimits.
func readCommands(f *fields) process.Limits {
	var l process.Limits
	f.object("commands", "commands section", "What commands of workflows and of the Bash tool may use of the machine.", func(f *fields) {
		l.Processes = f.number("processes", "How many processes and threads a command may add to those of the machine; default 4096.", 1, 1<<22)
		l.Memory = f.number("memory_mib", "How much memory one process may allocate, in MiB; default 16384.", 1, 1<<30) << 20
		l.CPU = f.duration("cpu_time", "How much processor time one process may use; default 24h.")
	})
	return l
}
