package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/xslices"
)

func (a *invocation) toolsCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "tools [SERVER]",
		Short: "List the MCP servers of the project and their tools",
		Long: `Start the MCP servers that espalier.yaml and .mcp.json name, and list their
tools by the names that workflows use. Only servers that you have approved are
started; "espalier trust" approves them. The exit code is 6 if a server cannot
be used.`,
		Example: `  espalier tools
  espalier tools files --json`,
		Args: takes(0, 1, "at most one server"),
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := a.app().ListServers(context.Background())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if list, err = onlyServer(list, args[0]); err != nil {
					return err
				}
			}
			return a.printTools(list)
		},
	})
}

// onlyServer returns the server of a name.
func onlyServer(list []app.ServerTools, name string) ([]app.ServerTools, error) {
	var names []string
	for i := range list {
		if list[i].Server == name {
			return list[i : i+1], nil
		}
		names = append(names, list[i].Server)
	}
	return nil, usage(diag.DidYouMean(name, names), "unknown MCP server %q", name)
}

func (a *invocation) printTools(list []app.ServerTools) error {
	broken := len(xslices.Filter(list, func(s app.ServerTools) bool { return s.Problem != "" }))
	if err := a.print(orEmpty(list), func() { a.printServers(list) }); err != nil || broken == 0 {
		return err
	}
	return fail(ExitNotReady, "", "%s cannot be used", plural(broken, "MCP server"))
}

func (a *invocation) printServers(list []app.ServerTools) {
	if len(list) == 0 {
		a.note("The project has no MCP servers.")
	}
	for i, s := range list {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		fmt.Fprintln(a.stdout, a.bold(diag.Printable(s.Server)))
		if s.Problem != "" {
			fmt.Fprintf(a.stdout, "  %s\n",
				strings.ReplaceAll(diag.Printable(sentence(upper(s.Problem))), "\n", "\n  "))
			if s.Help != "" {
				fmt.Fprintf(a.stdout, "  %s\n", diag.Printable(s.Help))
			}
			continue
		}
		t := table{}
		for _, one := range s.Tools {
			first, _, _ := strings.Cut(strings.TrimSpace(one.Description), "\n")
			t.add(one.Name, diag.Printable(first))
		}
		a.printTable(&t, "  ")
	}
}
