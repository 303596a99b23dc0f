package scripted

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/text"
)

// The key of a task is "review/0/judge~1:verdict#0": the steps around its step, each followed by the number of the
// iteration (from 0), the name of the branch or "call"; the step; its visit, if the step can be repeated (from 1); the
// part of the step; and the attempt (from 0). PlaceName shortens it to "review.judge[0]" for people.

var (
	visitOrAttempt = lazyregexp.New(`[~@][0-9]+(/|$)`)
	numberInKey    = lazyregexp.New(`^[0-9]+$`)
	roundInName    = lazyregexp.New(`\[([0-9]+)\]`)
)

// matchesKey compares the pattern of a key with the key of a task; * matches any text between two slashes. The pattern
// may be the name that people see instead, may start with a slash, and may omit the attempt, visits and part.
func matchesKey(pattern, key string) bool {
	pattern = strings.TrimPrefix(pattern, "/")
	if whole, _ := path.Match(pattern, key); whole {
		return true
	}
	place, attempt := key, ""
	if i := strings.LastIndexByte(key, '#'); i >= 0 {
		place, attempt = key[:i], key[i:]
	}
	last, part, _ := strings.Cut(place[strings.LastIndexByte(place, '/')+1:], ":")
	if journal.PlaceName(place) == pattern && (part == "" || isPart(part)) {
		return true
	}
	if !strings.Contains(pattern, ":") && isPart(part) {
		place = place[:strings.LastIndexByte(place, '/')+1] + last
	}
	if !strings.ContainsAny(pattern, "~@") {
		for visitOrAttempt().MatchString(place) {
			place = visitOrAttempt().ReplaceAllString(place, "$1")
		}
	}
	whole, _ := path.Match(pattern, place)
	if !whole {
		whole, _ = path.Match(pattern, place+attempt)
	}
	return whole
}

func isPart(part string) bool { return slices.Contains(parts[:], part) }

// parts are the names of the tasks of steps that are not only a task.
var parts = [...]string{"verdict", "combine", "work"}

// partOf returns the name of the task of a step.
func partOf(s *ir.Step) string {
	switch s.Action.(type) {
	case ir.Gate:
		return "verdict"
	case ir.Parallel, ir.Call:
		return "combine"
	case ir.End:
		return "work"
	}
	return ""
}

// level is one step around another in a key, and its frame.
type level struct {
	step  *ir.Step
	frame string // "" for a number
	most  int64  // numbers of the frame; 0 if they are not known
}

// place is a step with the steps around it.
type place struct {
	around []level
	step   *ir.Step
	child  bool // it is in a called workflow
}

// maxDepth limits the depth of blocks: no format produces a block that contains itself.
const maxDepth = 64

// places calls yield for each step of a block, and of the blocks in it.
func places(p *ir.Program, b ir.BlockID, in place, yield func(place)) {
	if len(in.around) > maxDepth || b < 0 || int(b) >= len(p.Blocks) {
		return
	}
	for i := range p.Blocks[b].Steps {
		s := &p.Blocks[b].Steps[i]
		yield(place{in.around, s, in.child})
		inside := func(p *ir.Program, b ir.BlockID, frame string, most int, child bool) {
			around := append(slices.Clip(in.around), level{s, frame, int64(most)})
			places(p, b, place{around: around, child: in.child || child}, yield)
		}
		switch a := s.Action.(type) {
		case ir.Loop:
			inside(p, a.Block, "", a.Max, false)
		case ir.Parallel:
			for _, branch := range a.Branches {
				inside(p, branch.Block, journal.KeySegment(branch.Name), 0, false)
			}
			if a.Each != nil {
				inside(p, a.Each.Block, "", 0, false)
			}
		case ir.Call:
			if a.Child >= 0 && a.Child < len(p.Children) {
				inside(&p.Children[a.Child], ir.Body, journal.FrameCall, 0, true)
			}
		}
	}
}

// working returns the places of the steps that can make requests or run commands.
func (c *checker) working() (out []place) {
	places(c.p, ir.Body, place{}, func(at place) {
		if at.step.Action == nil || at.step.Task() != nil {
			out = append(out, at)
		}
	})
	return out
}

// pattern returns the key of a place, with * for numbers.
func (at place) pattern() string {
	var b strings.Builder
	for _, l := range at.around {
		b.WriteString(l.step.ID + "/" + cmp.Or(l.frame, "*") + "/")
	}
	return b.String() + at.step.ID
}

// name returns the name of the place for people, in the first iteration of each loop, and how many iterations the loops
// have whose numbers it contains.
func (at place) name() (name string, most []int64) {
	var b strings.Builder
	innermost := -1
	for i, l := range at.around {
		b.WriteString(l.step.ID + "/" + cmp.Or(l.frame, "0") + "/")
		switch {
		case l.frame == journal.FrameCall && innermost >= 0:
			most, innermost = append(most, at.around[innermost].most), -1
		case l.frame == "":
			innermost = i
		}
	}
	if innermost >= 0 {
		most = append(most, at.around[innermost].most)
	}
	return journal.PlaceName(b.String() + at.step.ID), most
}

// hasName reports whether the step is shown with a name.
func (at place) hasName(name string) bool {
	first, most := at.name()
	if roundInName().ReplaceAllString(name, "[0]") != first {
		return false
	}
	for i, round := range roundInName().FindAllStringSubmatch(name, -1) {
		n, err := strconv.ParseInt(round[1], 10, 64)
		if err != nil || i < len(most) && most[i] > 0 && n >= most[i] {
			return false
		}
	}
	return true
}

// matches reports whether a pattern without an attempt can be the key of the place.
func (c *checker) matches(pattern string, at place) bool {
	segments := strings.Split(pattern, "/")
	if len(segments) != 2*len(at.around)+1 {
		return false
	}
	for i, l := range at.around {
		if !c.matchesStep(segments[2*i], l.step, "", at.child) || !l.matches(segments[2*i+1]) {
			return false
		}
	}
	return c.matchesStep(segments[len(segments)-1], at.step, partOf(at.step), at.child)
}

func (l level) matches(segment string) bool {
	n, err := strconv.ParseInt(segment, 10, 64)
	switch {
	case l.frame != "":
		ok, _ := path.Match(segment, l.frame)
		return ok
	case err == nil:
		return numberInKey().MatchString(segment) && strconv.FormatInt(n, 10) == segment && (l.most == 0 || n < l.most)
	}
	return isPattern(segment) && matchesSome(segment, max(min(l.most, maxTried), 0))
}

// matchesSome reports whether a pattern matches a number below most; 0 means that any number is possible.
func matchesSome(segment string, most int64) bool {
	if most == 0 {
		most = maxTried
	}
	for n := range most {
		if ok, _ := path.Match(segment, strconv.FormatInt(n, 10)); ok {
			return true
		}
	}
	return false
}

// maxTried is how many numbers are compared with a pattern.
const maxTried = 2000

// matchesStep reports whether a segment of a pattern can be a step in a key: its ID, visit, attempt and part.
func (c *checker) matchesStep(segment string, s *ir.Step, part string, child bool) bool {
	most := int64(math.MaxInt64)
	if !child {
		most = c.visits(s.ID)
	}
	if isPattern(segment) {
		return matchesVisit(segment, s.ID, part, most)
	}
	rest, ok := strings.CutPrefix(segment, s.ID)
	if !ok {
		return false
	}
	if part != "" {
		rest = strings.TrimSuffix(rest, ":"+part)
	} else if before, n, found := cutNumber(rest, "@"); found {
		if n >= int64(s.Attempts()) {
			return false
		}
		rest = before
	}
	before, n, found := cutNumber(rest, "~")
	return rest == "" || found && before == "" && n > 0 && n <= most
}

// matchesVisit reports whether a pattern matches a step, one of its visits or attempts, or its part.
func matchesVisit(pattern, id, part string, visits int64) bool {
	matches := func(end string) bool {
		for _, part := range []string{"", ":" + part} {
			if ok, _ := path.Match(pattern, id+end+part); ok {
				return true
			}
		}
		return false
	}
	if matches("") {
		return true
	}
	for n := range min(visits, maxTried) {
		number := strconv.FormatInt(n+1, 10)
		if matches("~"+number) || matches("@"+number) {
			return true
		}
	}
	return false
}

func cutNumber(s, mark string) (before string, n int64, found bool) {
	i := strings.LastIndex(s, mark)
	if i < 0 || !numberInKey().MatchString(s[i+1:]) {
		return s, 0, false
	}
	n, err := strconv.ParseInt(s[i+1:], 10, 64)
	return s[:i], n, err == nil
}

// visits returns how often a run can enter a step.
func (c *checker) visits(id string) int64 {
	most, found := int64(0), false
	for _, b := range c.known.Bounds {
		if b.Step == id {
			if b.Visits == 0 {
				return math.MaxInt64
			}
			most, found = max(most, b.Visits), true
		}
	}
	if !found {
		return math.MaxInt64
	}
	return most
}

const wildcards = `*?[\`

func isPattern(segment string) bool { return strings.ContainsAny(segment, wildcards) }

// key reports a key that no task has.
func (c *checker) key(key text.Text) {
	pattern := strings.TrimPrefix(key.Value, "/")
	if pattern == "" {
		return
	}
	where, attempt, _ := strings.Cut(pattern, "#")
	all := c.working()
	var found []place
	for _, at := range all {
		if attempt == "" && at.hasName(where) || c.matches(where, at) {
			found = append(found, at)
		}
	}
	last := lastStep(pattern)
	if len(found) == 0 {
		help := "A key ends with the id of a step. " + diag.DidYouMean(last, c.names["step"])
		for _, at := range all {
			if at.step.ID == last {
				help = at.keyHelp()
				break
			}
		}
		c.out.Errorf(CodeNoSuch, key.Span, help,
			"No step of the workflow has the key %q, so this entry is never used.", key.Value)
		return
	}
	attempt, _, _ = strings.Cut(attempt, "/") // of a call
	n, err := strconv.ParseInt(attempt, 10, 64)
	if attempt == "" || err != nil {
		return
	}
	most := 0
	for _, at := range found {
		most = max(most, at.step.Attempts())
	}
	if n >= int64(most) {
		c.out.Errorf(CodeNoSuch, key.Span, fmt.Sprintf("Keys count attempts from 0: use %s.",
			fromTo(func(n int64) string { return fmt.Sprintf("#%d", n) }, int64(most))),
			"Step %q has no attempt #%d, so this entry is never used.", found[0].step.ID, n)
	}
}

// keyHelp returns what the key of a step is.
func (at place) keyHelp() string {
	help := fmt.Sprintf("The key of step %q is %q", at.step.ID, at.pattern())
	numbered := 0
	var most int64
	for _, l := range at.around {
		if l.frame == "" {
			numbered, most = numbered+1, l.most
		}
	}
	switch {
	case numbered == 0:
		return help + "."
	case numbered == 1 && most > 0:
		return help + fmt.Sprintf(", where * is the number of the iteration: %s.",
			fromTo(func(n int64) string { return strconv.FormatInt(n, 10) }, most))
	}
	return help + ", where * is the number of the iteration, counted from 0."
}

// fromTo lists the numbers below most.
func fromTo(show func(int64) string, most int64) string {
	if most <= 1 {
		return show(0)
	}
	return show(0) + " to " + show(most-1)
}

// lastStep returns the step that a pattern of keys or a name of a step ends with.
func lastStep(pattern string) string {
	pattern, _, _ = strings.Cut(pattern, "#")
	last := pattern[strings.LastIndexByte(pattern, '/')+1:]
	if round := roundInName().FindStringIndex(last); round != nil {
		last = last[:round[0]]
		last = last[strings.LastIndexByte(last, '.')+1:]
	}
	if before, _, ok := cutNumber(last, "~"); ok {
		last = before
	}
	if before, part, ok := strings.Cut(last, ":"); ok && isPart(part) {
		last, _, _ = strings.Cut(before, "~")
	}
	return last
}

// iterations reports an iteration that the innermost loop around a step never reaches.
func (c *checker) iterations(e *entry) {
	n := e.when.iteration
	id := e.when.step.Value
	if n.from <= 1 || e.when.key.Value != "" || id == "" && e.when.agent.Value != "" {
		return
	}
	most, found, loops := int64(0), false, false
	for _, at := range c.working() {
		here := int64(1)
		for _, l := range slices.Backward(at.around) {
			if l.frame == "" {
				here, loops = l.most, true
				break
			}
		}
		if id != "" && id != at.step.ID {
			continue
		}
		if t := at.step.Task(); here == 0 || t != nil && t.Describe().Dialog { // or others continue it
			return
		}
		most, found = max(most, here), true
	}
	step := "the workflow"
	if id != "" {
		step = fmt.Sprintf("step %q", id)
	}
	switch {
	case !found || int64(n.from) <= most:
	case !loops:
		c.out.Errorf(CodeNever, n.span, "Change the entry, or remove it.",
			"The workflow has no loop, and %s no iteration %s, so this entry is never used.", step, n)
	case most == 1:
		c.out.Errorf(CodeNever, n.span, "The only iteration is 1.",
			"There is no iteration %s: %s runs in at most one, so this entry is never used.", n, step)
	default:
		c.out.Errorf(CodeNever, n.span, fmt.Sprintf("Use an iteration from 1 to %d.", most),
			"There is no iteration %s: the loop around %s ends after at most %d, so this entry is never used.", n,
			step, most)
	}
}
