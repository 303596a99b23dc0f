package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// mcpCommand serves one client on stdin and stdout. Stdout belongs to the protocol: nothing else may be written there,
// so ServeMCP gets the stream of the environment and not the one for results.
func (a *invocation) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve workflows to an agent as MCP tools, on stdin and stdout",
		Long: `Serve the project to one client of the Model Context Protocol on stdin and
stdout. Workflows with "api: true" (Agent Flow) or the trigger
"natural-language" (Agentfile) are tools: a call starts a run. Further tools
list, validate and explain, and show the status and the output of runs. Agents
cannot decide gates.

"espalier serve" offers the same at /mcp.`,
		Example: `  claude mcp add espalier -- espalier mcp`,
		RunE: func(*cobra.Command, []string) error {
			signals, release := a.Signals.handle()
			defer release()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- a.ServeMCP(ctx, a.app(), actor(""), readVersion().Version, a.Stdin, a.Environment.Stdout)
			}()
			select {
			case err := <-ended:
				a.app().Release()
				return err
			case sig := <-signals:
				cancel()
				a.park(sig, signals)
				if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
					return err
				}
				return fail(ExitInterrupted, "", "stopped; the runs continue with \"espalier work\"")
			}
		},
	}
}
