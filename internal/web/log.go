package web

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// outputLine is a line that a command has written.
type outputLine struct {
	N      int
	Stream string // journal.Stdout or journal.Stderr
	Text   string
}

// maxLines is how many lines of the output of a command a page shows; the newest ones.
const maxLines = 1000

// addOutput adds output of a command. Output arrives in chunks that do not end with lines: consecutive chunks of one
// stream are joined, so that a line is not cut.
func (v *stepView) addOutput(o journal.Output) {
	if n := len(v.output); n > 0 && v.output[n-1].Stream == o.Stream {
		v.output[n-1].Chunk += o.Chunk
		return
	}
	v.output = append(v.output, o)
}

// stored returns the output of a command that is the result of its step; nil if the result is not one of a command.
// Results of commands have all three members, so that an object of a model with a member "output" is not mistaken for
// one. It is used when the run has no recorded chunks.
func stored(result json.RawMessage) []journal.Output {
	var state struct {
		Output, Stderr *string
		ExitCode       *int
	}
	if json.Unmarshal(result, &state) != nil || state.Output == nil || state.Stderr == nil || state.ExitCode == nil {
		return nil
	}
	return []journal.Output{
		{Stream: journal.Stdout, Chunk: *state.Output}, {Stream: journal.Stderr, Chunk: *state.Stderr},
	}
}

// colors are the escape sequences (SGR) with which programs color what they print. All other control characters are
// shown as visible ones.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// logLines returns the lines of the output of a command, and how many earlier lines are left out.
func logLines(output []journal.Output) (lines []outputLine, left int) {
	for _, o := range output {
		text := strings.TrimSuffix(colors.ReplaceAllString(o.Chunk, ""), "\n")
		if text == "" && strings.TrimSpace(o.Chunk) == "" && len(o.Chunk) < 2 {
			continue
		}
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, outputLine{
				N: len(lines) + 1, Stream: o.Stream, Text: visible(strings.TrimSuffix(line, "\r")),
			})
		}
	}
	left = max(0, len(lines)-maxLines)
	return lines[left:], left
}
