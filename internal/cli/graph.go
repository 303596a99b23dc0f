package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/graph"
)

var pictureFormats = []string{"mmd", "svg", "png", "dot", "json"}

func (a *app) graphCommand() *cobra.Command {
	var (
		output, format string
		data           bool
	)
	cmd := &cobra.Command{
		Use:   "graph WORKFLOW [-o FILE.svg|png|mmd|dot|json] [--data]",
		Short: "Draw a workflow",
		Long: `Draw a workflow as SVG, PNG, Mermaid (mmd), Graphviz (dot) or JSON. The file's
extension says which; without a file, Mermaid is printed, which code hosting
sites show as a picture. --json is short for --format json.`,
		Example: `  espalier graph flow.md -o flow.svg
  espalier graph flow.md --data -o flow.png
  espalier graph flow.md > flow.mmd`,
		Args:              takes(1, 1, "one workflow"),
		ValidArgsFunction: a.completeWorkflow,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := pictureFormat(format, output, a.json)
			if err != nil {
				return err
			}
			if chosen == "png" && output == "" && isTerminal(a.stdout) {
				return usage("Write it to a file: -o picture.png", "a PNG cannot be shown here")
			}
			an, err := a.usable(args[0])
			if err != nil {
				return err
			}
			g := graph.Build(an.program, graph.Options{Data: data})
			write := map[string]func(io.Writer) error{
				"mmd": g.Mermaid, "svg": g.SVG, "png": g.PNG, "dot": g.DOT, "json": g.JSON,
			}[chosen]
			return a.deliver(output, write)
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVarP(&output, "output", "o", "", "write to this `FILE`")
	flags.StringVar(&format, "format", "", "one of "+strings.Join(pictureFormats, ", ")+" (default: by the file's extension, else mmd)")
	flags.BoolVar(&data, "data", false, "show which step reads what another one wrote")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(pictureFormats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func pictureFormat(format, output string, json bool) (string, error) {
	switch {
	case json && format != "" && format != "json":
		return "", usage("Choose one of the two.", "--json and --format %s exclude each other", format)
	case json:
		return pictureFormat("json", output, false)
	case format != "":
		if !slices.Contains(pictureFormats, format) {
			return "", usage(diag.DidYouMean(format, pictureFormats), "there is no picture format %q", format)
		}
		if ext := pictureExtension(output); ext != format && slices.Contains(pictureFormats, ext) {
			return "", usage("Leave out --format, or give the file another extension.", "--format %s and the name %q exclude each other", format, output)
		}
		return format, nil
	case output == "" || output == "-":
		return "mmd", nil
	}
	ext := pictureExtension(output)
	if !slices.Contains(pictureFormats, ext) {
		return "", usage(fmt.Sprintf("Give it one of the extensions .%s, or say --format.", strings.Join(pictureFormats, ", .")),
			"the name %q does not say which kind of picture it is to be", output)
	}
	return ext, nil
}

// pictureExtension is what the extension of a file's name says it is.
func pictureExtension(name string) string {
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if ext == "mermaid" {
		return "mmd"
	}
	return ext
}
