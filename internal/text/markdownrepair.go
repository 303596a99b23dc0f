package text

import (
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
)

// maxBlockRepairs limits the work for a file with many unmatched fences.
const maxBlockRepairs = 50

// Repair repairs blocks with a missing or malformed closing line and blocks with a missing opening line, so that one
// missing line does not swap text and blocks in the rest of the file. blocks are the info words of the format. guess
// returns the block type of the lines above an unmatched fence and the offset where the block starts in them, or "".
// Problems reports the repairs.
func (d *Document) Repair(blocks []string, guess func(lines string) (block string, start int)) {
	repairs := 0
	for i := 0; i < len(d.Fences) && repairs < maxBlockRepairs; i++ {
		fence := &d.Fences[i]
		switch {
		case fence.Quoted:
		case slices.Contains(blocks, fence.Info):
			if end, next, stop, ok := d.realEnd(*fence, blocks); ok {
				fence.Content.End, fence.Span.End, fence.Closed, fence.Stop = end, end, false, stop
				d.reread(i+1, next)
				repairs++
			}
		case fence.Info == "" && (!fence.Closed || d.openingInside(*fence)):
			above := d.Body.Start
			if i > 0 {
				above = max(above, d.Fences[i-1].Span.End)
			}
			if fence.Heading >= 0 {
				above = max(above, d.Headings[fence.Heading].Span.End)
			}
			block, start := guess(d.File.Text[above:fence.Span.Start])
			if block == "" {
				continue
			}
			start += above
			line, _ := nextLine(d.File.Text, start)
			next := fence.Content.Start
			*fence = Fence{
				Info: block, InfoSpan: d.File.Span(start, start+len(line)), Content: Region{start, fence.Span.Start},
				Span: d.File.Span(start, fence.Content.Start), Closed: true, Unopened: true, Heading: fence.Heading,
			}
			d.reread(i+1, next)
			repairs++
		}
	}
}

// reread parses the document again from an offset and keeps the first fences blocks.
func (d *Document) reread(fences, from int) {
	d.Fences = d.Fences[:fences]
	d.Headings = slices.DeleteFunc(d.Headings, func(h Heading) bool { return h.Span.Start >= from })
	// Replacing the text before the offset by empty lines keeps all offsets.
	rest := ParseMarkdown(source.NewFile(d.File.Path, strings.Repeat("\n", from)+d.File.Text[from:]))
	for _, fence := range rest.Fences {
		fence.Heading += len(d.Headings)
		d.Fences = append(d.Fences, fence)
	}
	d.Headings = append(d.Headings, rest.Headings...)
}

// openingInside reports whether a line in a fence looks like an opening fence with an info word.
func (d *Document) openingInside(fence Fence) bool {
	for line := range strings.Lines(d.File.Text[fence.Content.Start:fence.Content.End]) {
		if n := fenceLength(line); n >= 3 && strings.TrimSpace(line[n:]) != "" {
			return true
		}
	}
	return false
}

// realEnd returns the end of a block with a missing closing line: before the next heading or block, or at a malformed
// fence.
func (d *Document) realEnd(fence Fence, blocks []string) (end, next int, stop source.Span, ok bool) {
	following := d.blockInside(fence, blocks)
	if fence.Closed && following.End == 0 {
		return 0, 0, source.Span{}, false
	}
	text := d.File.Text
	last := fence.Content.End
	if following.End > 0 {
		last = strings.LastIndexByte(text[:following.Start], '\n') + 1
	}
	heading, blank := -1, false
	for at := fence.Content.Start; at < last; {
		line, after := nextLine(text, at)
		trimmed := strings.TrimRight(line, " \t")
		if n := fenceLength(trimmed); n > 0 && (trimmed[0] == '`' || n == len(trimmed) && n > 1) {
			return at, after, d.File.Span(at, at+len(trimmed)), true
		}
		if blank && heading < 0 && strings.HasPrefix(strings.TrimLeft(trimmed, "#"), " ") && strings.HasPrefix(trimmed,
			"#") {
			heading = at
		}
		blank = trimmed == ""
		at = after
	}
	switch {
	case following.End == 0:
		return 0, 0, source.Span{}, false
	case heading >= 0:
		return heading, heading, following, true
	}
	return last, last, following, true
}
