package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/graph"
)

var pictureFormats = []string{"mmd", "svg", "png", "dot", "json"}

// graphCommand draws to memory before it opens the file: an error leaves an existing picture as it is.
func (a *invocation) graphCommand() *cobra.Command {
	var (
		output, format string
		data           bool
	)
	cmd := &cobra.Command{
		Use:   "graph WORKFLOW|RUN [-o FILE.svg|png|mmd|dot|json] [--data]",
		Short: "Draw a workflow, or a run of one",
		Long: `Draw a workflow as SVG, PNG, Mermaid (mmd), Graphviz (dot) or JSON. The
extension of the file selects the format; without a file, the command prints
Mermaid, which code hosting sites show as a picture. --json is short for
--format json. The picture of a run shows the workflow as it was when the run
started, the state of each step, and the path that the run took.`,
		Example: `  espalier graph flow.md -o flow.svg
  espalier graph 5ff07bf3 -o run.png
  espalier graph flow.md --data -o flow.png
  espalier graph flow.md > flow.mmd`,
		Args:              takes(1, 1, "one workflow or run"),
		ValidArgsFunction: a.completeWorkflowOrRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := pictureFormat(format, output, a.json)
			if err != nil {
				return err
			}
			if chosen == "png" && output == "" && a.IsTerminal(a.Stdout) {
				return usage("Write it to a file: -o picture.png", "a PNG cannot be shown here")
			}
			g, err := a.drawn(args[0], graph.Options{Data: data})
			if err != nil {
				return err
			}
			var gaps graph.Gaps
			png := func(w io.Writer) (err error) {
				gaps, err = g.PNG(w)
				return err
			}
			write := map[string]func(io.Writer) error{
				"mmd": g.Mermaid, "svg": g.SVG, "png": png, "dot": g.DOT, "json": g.JSON,
			}[chosen]
			if err := a.deliver(output, write); err != nil {
				return err
			}
			for _, note := range gaps.Notes() {
				fmt.Fprintln(a.stderr, note)
			}
			return nil
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVarP(&output, "output", "o", "", "write to this `FILE`")
	flags.StringVar(&format, "format", "", "one of "+strings.Join(pictureFormats,
		", ")+" (default: by the file's extension, else mmd)")
	flags.BoolVar(&data, "data", false, "show which step reads what another one wrote")
	completeWords(cmd, "format", pictureFormats)
	return cmd
}

// drawn returns the picture of a workflow, or of a run if the argument can only be the id of one.
func (a *invocation) drawn(arg string, o graph.Options) (*graph.Graph, error) {
	if a.app().MayBeRun(arg) {
		run, err := a.app().Find(context.Background(), arg)
		if err != nil {
			return nil, err
		}
		return a.app().Graph(context.Background(), run, o)
	}
	an, err := a.usable(arg)
	if err != nil {
		return nil, err
	}
	return an.Graph(o), nil
}

// pictureFormat returns the format of a picture: that of --json or --format, else that of the extension, else Mermaid.
// It refuses a format that contradicts the extension.
func pictureFormat(format, output string, json bool) (string, error) {
	if format == "mermaid" {
		format = "mmd"
	}
	switch {
	case json && format != "" && format != "json":
		return "", usage("Choose one of the two.", "--json and --format %s exclude each other", format)
	case json:
		return pictureFormat("json", output, false)
	case format != "":
		if err := oneOf(format, pictureFormats, "there is no picture format %q"); err != nil {
			return "", err
		}
		if ext := pictureExtension(output); ext != format && slices.Contains(pictureFormats, ext) {
			return "", usage("Leave out --format, or give the file another extension.",
				"--format %s and the name %q exclude each other", format, output)
		}
		return format, nil
	case output == "" || output == "-":
		return "mmd", nil
	}
	ext := pictureExtension(output)
	if !slices.Contains(pictureFormats, ext) {
		return "", usage(fmt.Sprintf("Give it one of the extensions .%s, or use --format.",
			strings.Join(pictureFormats, ", .")),
			"the name %q has no extension of a picture format", output)
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
