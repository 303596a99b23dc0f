package cli

import (
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/diag"
)

// logFlags are the flags of commands that log: work and serve.
type logFlags struct{ format, level string }

var (
	logFormats = []string{"text", "json"}
	logLevels  = []string{"debug", "info", "warn", "error"}
)

// add adds the flags to a command.
func (f *logFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "log-format", "text", "text or json")
	flags.StringVar(&f.level, "log-level", "info", "the least important messages: debug, info, warn or error")
	for name, values := range map[string][]string{"log-format": logFormats, "log-level": logLevels} {
		cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// new returns a logger that writes as the flags say.
func (f *logFlags) new(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if !slices.Contains(logLevels, f.level) || level.UnmarshalText([]byte(f.level)) != nil {
		return nil, usage(diag.DidYouMean(f.level, logLevels), "there is no log level %q", f.level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, usage(diag.DidYouMean(f.format, logFormats), "there is no log format %q", f.format)
}
