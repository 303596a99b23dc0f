package cli

import (
	"bytes"
	"cmp"
	"io"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/terminal"
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
	completeWords(cmd, "log-format", logFormats)
	completeWords(cmd, "log-level", logLevels)
}

// logger returns a logger that writes to standard error as the flags say. If it writes JSON, everything else that the
// command writes there becomes a record, too, so that each line is a JSON object.
func (a *invocation) logger(f *logFlags) (*slog.Logger, error) {
	log, err := f.new(a.stderr)
	if err == nil && f.format == "json" {
		all := slog.New(slog.NewJSONHandler(a.stderr, nil)) // --log-level is for what happens to runs
		a.stderr, a.colorErr = terminal.New(&lineLogger{log: all}, false), false
	}
	return log, err
}

// lineLogger logs the lines that are written to it; a line is logged when it ends. It is safe for concurrent use.
type lineLogger struct {
	log  *slog.Logger
	mu   sync.Mutex
	line []byte // the beginning of a line that has not ended
}

func (w *lineLogger) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = append(w.line, text...)
	for {
		line, rest, found := bytes.Cut(w.line, []byte("\n"))
		if !found {
			return len(text), nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			w.log.Info(string(line))
		}
		w.line = rest
	}
}

// new returns a logger that writes as the flags say.
func (f *logFlags) new(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	err := cmp.Or(
		oneOf(f.level, logLevels, "unknown log level %q"), oneOf(f.format, logFormats, "unknown log format %q"),
		level.UnmarshalText([]byte(f.level)),
	)
	if err != nil {
		return nil, err
	}
	o := &slog.HandlerOptions{Level: level}
	if f.format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}
