package config

import "github.com/espalier-run/espalier/internal/process"

// readCommands reads the limits of commands. A limit that is not set is zero, which selects its value in
// process.DefaultLimits.
func readCommands(f *fields) process.Limits {
	var l process.Limits
	f.object("commands", "commands section", "Resource limits of commands in workflows and of the Bash tool.",
		func(f *fields) {
			l.Processes = f.number("processes", "Maximum number of processes and threads that a command may add to "+
				"those already running; default 4096.", 1, 1<<22)
			l.Memory = f.number("memory_mib", "Maximum memory of one process, in MiB; default 16384.", 1, 1<<30) << 20
			l.CPU = f.duration("cpu_time", "Maximum CPU time of one process; default 24h.")
		})
	return l
}
