package main

import (
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// session is what "make recording" records.
type session struct {
	Columns, Rows uint16
	Commands      []struct {
		Show, Run string
		Answer    *struct{ To, Type string }
	}
}

// The recording of the README shows what the program prints now: apart from numbers and what is under way, every line
// of the recorded commands is in it.
func TestRecordingIsOfThisProgram(t *testing.T) {
	var s session
	raw, err := os.ReadFile(repoPath("docs/recording/session.json"))
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(repoPath("docs/pictures/recording.svg"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := recordedLines(t, string(picture))
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"examples/agent-flow/support-triage.md", "docs/recording/replies.script.yaml"} {
		raw, err := os.ReadFile(repoPath(name))
		if err != nil {
			t.Fatal(err)
		}
		raw = regexp.MustCompile(`delay: \w+`).ReplaceAll(raw, []byte("delay: 100ms"))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var shown []string
	headlines := false
	for _, c := range s.Commands {
		shown = append(shown, c.Show)
		if c.Run == "" {
			c.Run = c.Show
		}
		if !strings.HasPrefix(c.Run, "espalier ") {
			continue
		}
		cmd := exec.Command("sh", "-c", c.Run)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TERM=xterm-256color", "GORACE="+quickExit)
		p := startOnConsole(t, cmd, s.Columns, s.Rows)
		if c.Answer != nil {
			p.waitFor(c.Answer.To)
			p.typeText(c.Answer.Type + "\n")
		}
		for _, line := range printedLines(p.waitExit(0), int(s.Columns)) {
			underWay := strings.ContainsRune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏▸", []rune(line)[0])
			headlines = headlines || strings.Contains(line, "left: ") && recorded[string([]rune(line)[1:])]
			if !underWay && !recorded[line] {
				t.Errorf("docs/pictures/recording.svg lacks this line of %q: %s\nRun \"make recording\".", c.Show, line)
			}
		}
	}
	if !headlines {
		t.Error("docs/pictures/recording.svg has another first line of the progress. Run \"make recording\".")
	}
	title := "<title>" + strings.ReplaceAll(html.EscapeString(strings.Join(shown, "; ")), "&#39;", "'") + "</title>"
	if !strings.Contains(string(picture), title) {
		t.Error("docs/pictures/recording.svg is of other commands. Run \"make recording\".")
	}
}

var (
	recordedText = regexp.MustCompile(`<text id="\w+"[^>]*>(.*?)</text>`)
	recordedRun  = regexp.MustCompile(`<tspan x="([\d.]+)"[^>]*>(.*?)</tspan>`)
	styles       = regexp.MustCompile(`\x1b\[[\d;]*m`)
	movements    = regexp.MustCompile(`\x1b\[[\d;?]*[A-Za-z]|[\r\n]+`)
	digests      = regexp.MustCompile(`\b[0-9a-f]{12,}\b`)
	durations    = regexp.MustCompile(`\b\d[\d,.]*( (ms|s|m|h)\b)?( \d\d (s|m)\b)?`)
)

// withoutFigures returns a line without what differs between two runs.
func withoutFigures(line string) string {
	line = digests.ReplaceAllString(line, "DIGEST")
	return strings.Join(strings.Fields(durations.ReplaceAllString(line, "N")), " ")
}

// recordedLines returns the lines of the recording, also without the first character, which turns.
func recordedLines(t *testing.T, picture string) map[string]bool {
	t.Helper()
	const width = 14 * 0.6 // of a character, as in record.mjs
	lines := map[string]bool{}
	for _, m := range recordedText.FindAllStringSubmatch(picture, -1) {
		line := ""
		for _, run := range recordedRun.FindAllStringSubmatch(m[1], -1) {
			x, err := strconv.ParseFloat(run[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			column := int(x/width + 0.5)
			line += strings.Repeat(" ", max(0, column-len([]rune(line)))) + html.UnescapeString(run[2])
		}
		lines[withoutFigures(line)] = true
		if turning := []rune(withoutFigures(line)); len(turning) > 0 {
			lines[string(turning[1:])] = true
		}
	}
	if len(lines) < 50 {
		t.Fatalf("the recording has only %d lines", len(lines))
	}
	return lines
}

// printedLines returns the lines that a program has printed on a terminal of so many columns.
func printedLines(screen string, columns int) []string {
	var lines []string
	for _, line := range movements.Split(styles.ReplaceAllString(screen, ""), -1) {
		for rest := []rune(line); len(rest) > 0; {
			n := min(columns, len(rest))
			if text := withoutFigures(string(rest[:n])); text != "" {
				lines = append(lines, text)
			}
			rest = rest[n:]
		}
	}
	return lines
}
