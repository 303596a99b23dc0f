package console

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/espalier-run/espalier/internal/report"
)

// Screen draws lines in place at the bottom of a terminal. Each drawing is one write, marked as a frame for terminals
// that support synchronized output.
type Screen struct {
	w      io.Writer
	drawn  time.Time
	widths []int // of the lines that are shown
	last   []byte
}

// Control sequences.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	beginFrame = "\x1b[?2026h"
	endFrame   = "\x1b[?2026l"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// Draw replaces the lines that were drawn before.
func (s *Screen) Draw(lines []string, size Size) error {
	var b bytes.Buffer
	for _, line := range lines {
		b.WriteString(line + clearLine + "\r\n")
	}
	if s.widths != nil && bytes.Equal(b.Bytes(), s.last) && s.rows(size) == len(s.widths) {
		return nil // nothing has changed
	}
	var out bytes.Buffer
	out.WriteString(beginFrame)
	if s.widths == nil {
		out.WriteString(hideCursor)
	}
	s.back(&out, size)
	if len(lines) == 0 {
		s.erase(&out, size)
	}
	out.Write(b.Bytes())
	if len(lines) > 0 {
		out.WriteString(clearBelow) // the cursor is below the lines, never at the top
	}
	out.WriteString(endFrame)
	s.last = append(s.last[:0], b.Bytes()...)
	s.widths = make([]int, len(lines))
	for i, line := range lines {
		s.widths[i] = report.Width(withoutColors(line))
	}
	_, err := s.w.Write(out.Bytes())
	return err
}

// Print prints lines that stay, in the place of the lines that were drawn. The next drawing is below them.
func (s *Screen) Print(lines []string, size Size) error {
	return s.replace(lines, size, "", s.widths[:0]) // the cursor stays hidden
}

// Finish replaces the lines by others that stay, and shows the cursor.
func (s *Screen) Finish(lines []string, size Size) error {
	end := ""
	if s.widths != nil {
		end = showCursor
	}
	return s.replace(lines, size, end, nil)
}

// replace prints lines that stay, and what follows them, in the place of the lines that were drawn.
func (s *Screen) replace(lines []string, size Size, end string, widths []int) error {
	var out bytes.Buffer
	s.back(&out, size)
	s.erase(&out, size)
	for _, line := range lines {
		out.WriteString(line + "\r\n")
	}
	out.WriteString(end)
	s.widths, s.last = widths, nil
	_, err := s.w.Write(out.Bytes())
	return err
}

// back moves the cursor to the start of what was drawn. In a terminal that has become narrower, the lines take more
// rows.
func (s *Screen) back(out *bytes.Buffer, size Size) {
	out.WriteByte('\r')
	up(out, s.reach(size))
}

// erase clears what was drawn, from its start, where the cursor stays. It clears line by line: a terminal that keeps
// what it clears, as tmux does, would move the lines to its history if all of the screen were cleared at once.
func (s *Screen) erase(out *bytes.Buffer, size Size) {
	rows := s.reach(size)
	for range rows {
		out.WriteString(clearLine + "\r\n")
	}
	if rows > 0 {
		out.WriteString(clearBelow)
	} else {
		out.WriteString(clearLine) // what the terminal has echoed
	}
	up(out, rows)
}

// up moves the cursor up.
func up(out *bytes.Buffer, rows int) {
	if rows > 0 {
		fmt.Fprintf(out, "\x1b[%dA", rows)
	}
}

// reach returns how many rows of what was drawn are above the cursor on the screen.
func (s *Screen) reach(size Size) int { return min(s.rows(size), max(size.withDefaults().Rows-1, 1)) }

// rows returns how many rows of a terminal the drawn lines take. After a terminal became narrower, a line can take
// several.
func (s *Screen) rows(size Size) int {
	rows, columns := 0, size.withDefaults().Columns
	for _, width := range s.widths {
		rows += max(1, (width+columns-1)/columns)
	}
	return rows
}

// withoutColors returns a line without its colors.
func withoutColors(line string) string {
	var b []byte
	for i := 0; i < len(line); i++ {
		if line[i] == '\x1b' {
			for i < len(line) && line[i] != 'm' {
				i++
			}
			continue
		}
		b = append(b, line[i])
	}
	return string(b)
}
