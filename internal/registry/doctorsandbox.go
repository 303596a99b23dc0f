package registry

import (
	"fmt"
	"os"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/process"
)

// ExamineCommands returns how commands are confined and limited on this
// machine, and what the kernel does not enforce.
func ExamineCommands(c *config.Config) []Finding {
	sandbox := Finding{What: "sandbox", Name: "commands", State: Fine}
	if is, err := process.Confined(); err == nil {
		sandbox.About = is.String()
	} else {
		sandbox.State, sandbox.About = Unset, err.Error()
		if c.Sandbox {
			sandbox.State, sandbox.Fix = Missing, "Install bubblewrap, or remove \"sandbox: true\" from the configuration."
		}
	}
	l := c.Commands.Or(process.DefaultLimits)
	limits := Finding{What: "limits", Name: "commands", State: Fine}
	limits.About = fmt.Sprintf("%d processes, %d MiB of memory, %s of processor time", l.Processes, l.Memory>>20, l.CPU)
	if os.Geteuid() == 0 {
		limits.About += "; not limited for root: processes"
	}
	return []Finding{sandbox, limits}
}
