package nof

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// ruleKind is the effect of a rule.
type ruleKind string

const (
	routeRule ruleKind = "route"
	skipRule  ruleKind = "skip"
	abortRule ruleKind = "abort"
	saveRule  ruleKind = "checkpoint"
	cycleRule ruleKind = "cycle-back"
)

// rule is one routing rule (section 9).
type rule struct {
	kind     ruleKind
	at       source.Span
	when     text.Text // the condition as written
	cond     *expr.Expr
	target   text.Text   // the target; for a checkpoint, the agent before it
	skips    []text.Text // the agents that a skip rule skips
	priority int         // 0 high, 1 normal, 2 low
	path     text.Text
	cycles   int
}

// priorities are the names of priorities, the most urgent one first.
var priorities = []string{"high", "normal", "low"}

// Patterns of rules. Emphasis is optional and case is ignored, because authors write both in
// many ways.
var (
	ifForm    = lazyregexp.New(`(?is)^\*{0,2}if\*{0,2}\s(.*?)\s\*{0,2}then\*{0,2}\s+(.*)$`)
	cycleForm = lazyregexp.New(`(?is)^\*{0,2}cycle[- ]?back\*{0,2}\s+if\s(.*):\s*re-?run\s+from\s+(.*)$`)
	saveForm  = lazyregexp.New(
		"(?is)^\\*{0,2}checkpoint\\*{0,2}\\s+after\\s+`([^`]*)`\\s*:\\s*persist\\s+state\\s+to\\s+`([^`]*)`\\s*\\.?$")
	routeForm  = lazyregexp.New("(?is)^route\\s+to\\s+`([^`]*)`(.*)$")
	skipForm   = lazyregexp.New("(?is)^skip\\s+(.*?),?\\s+(?:and\\s+)?route\\s+directly\\s+to\\s+`([^`]*)`(.*)$")
	abortForm  = lazyregexp.New(`(?is)^abort(?:\s+(?:the\s+)?pipeline)?(?:\s*,\s*return\s+partial\s+results)?(.*)$`)
	withForm   = lazyregexp.New("(?is)^\\s*,?\\s*with\\s+priority\\s+`?(\\w+)`?(.*)$")
	maxForm    = lazyregexp.New("(?is)^`([^`]*)`\\s*\\(\\s*max\\s+(\\d+)\\s+cycles?\\s*\\)(.*)$")
	quotedForm = lazyregexp.New("`([^`]*)`")
	// itemForm is the mark of a rule: a bullet, a number, or nothing before a keyword in bold.
	itemForm = lazyregexp.New(
		`(?i)^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|(?:\*\*(?:if|checkpoint|cycle[- ]?back)\*\*)?)`)
)

// ruleStart returns the length of the mark before a rule; false if the line does not start a rule.
func ruleStart(line string) (int, bool) {
	mark := itemForm().FindString(line)
	if strings.HasSuffix(mark, "**") {
		return len(mark) - len(strings.TrimLeft(mark, " \t")), true
	}
	return len(mark), strings.TrimLeft(mark, " \t") != ""
}

// readRules parses the rules of the section: the items of lists, and lines that start with a keyword in bold.
func (d *document) readRules(out *diag.List) {
	s := d.sections[ruleSection]
	if s == nil {
		return
	}
	comment := false
	for at := s.at.Start; at < s.at.End; {
		fence := xslices.Find(s.fences, func(f *text.Fence) bool { return at >= f.Span.Start && at < f.Span.End })
		if fence != nil {
			for f := fence.Content; f.Start < f.End; {
				line, next := lineAt(d.file.Text, f.Start, f.End)
				d.ignoredRule(line, f.Start, out)
				f.Start = next
			}
			at = fence.Span.End
			continue
		}
		line, next := lineAt(d.file.Text, at, s.at.End)
		start, ok := ruleStart(line)
		if comment = comment || strings.HasPrefix(strings.TrimSpace(line), "<!--"); comment || !ok {
			if !comment {
				d.ignoredRule(line, at, out)
			}
			comment = comment && !strings.Contains(line, "-->")
			at = next
			continue
		}
		begin := at + start
		end := at + len(line)
		for next < s.at.End { // continuation lines
			line, after := lineAt(d.file.Text, next, s.at.End)
			if _, another := ruleStart(line); another || strings.TrimSpace(line) == "" ||
				line[0] != ' ' && line[0] != '\t' {
				break
			}
			end, next = next+len(line), after
		}
		d.readRule(begin, end, out)
		at = next
	}
}

// ignoredRule warns about a line that looks like a rule and is not in a list, such as one in a table or a quotation.
func (d *document) ignoredRule(line string, at int, out *diag.List) {
	whole := strings.Trim(strings.ReplaceAll(line, "__", "**"), " \t>|-+*.)0123456789")
	m := ifForm().FindStringSubmatch(whole)
	acts := func(form func() *regexp.Regexp) bool { return form().MatchString(m[2]) }
	isRule := cycleForm().MatchString(whole) || saveForm().MatchString(whole) ||
		m != nil && strings.Contains(m[1], "`") && (acts(routeForm) || acts(skipForm) || acts(abortForm))
	if isRule {
		start := at + len(line) - len(strings.TrimLeft(line, " \t"))
		out.Warnf(CodeRule, d.file.Span(start, start+len(strings.TrimSpace(line))),
			"Write it as an item of a list, outside of code blocks, quotations and tables.",
			"The line looks like a routing rule, but it is not an item of a list, so it is ignored.")
	}
}

// lineAt returns the line at an offset, without its end, and the offset of the next line.
func lineAt(s string, at, end int) (line string, next int) {
	if i := strings.IndexByte(s[at:end], '\n'); i >= 0 {
		return strings.TrimRight(s[at:at+i], "\r"), at + i + 1
	}
	return s[at:end], end
}

// readRule parses the rule at [begin, end).
func (d *document) readRule(begin, end int, out *diag.List) {
	whole := strings.TrimRight(d.file.Text[begin:end], " \t\r\n")
	begin += len(whole) - len(strings.TrimLeft(whole, " \t"))
	whole = strings.TrimSpace(whole)
	r := &rule{at: d.file.Span(begin, begin+len(whole)), priority: 1}
	part := func(index []int, n int) text.Text {
		return text.Text{Value: whole[index[2*n]:index[2*n+1]], Span: d.file.Span(begin+index[2*n], begin+index[2*n+1])}
	}
	ok := false
	if m := saveForm().FindStringSubmatchIndex(whole); m != nil {
		r.kind, r.target, r.path = saveRule, part(m, 1), part(m, 2)
		ok = true
	} else if m := cycleForm().FindStringSubmatchIndex(whole); m != nil {
		r.kind, r.when = cycleRule, part(m, 1)
		rest := part(m, 2)
		if m := maxForm().FindStringSubmatchIndex(rest.Value); m != nil && blank(rest.Value[m[6]:m[7]]) {
			r.target = sub(rest, m[2], m[3])
			n, err := strconv.Atoi(rest.Value[m[4]:m[5]])
			if err != nil || n > maxCycles {
				out.Errorf(CodeRule, sub(rest, m[4], m[5]).Span, "Use a smaller number.",
					"A rule can cycle at most %d times.", maxCycles)
				return
			}
			r.cycles = n
			ok = r.cycles > 0
		}
	} else if m := ifForm().FindStringSubmatchIndex(whole); m != nil {
		r.when = part(m, 1)
		ok = d.action(r, part(m, 2), out)
	}
	if !ok {
		d.unreadRule(r, whole, out)
		return
	}
	d.rules = append(d.rules, r)
}

// maxCycles is the largest number of cycles of one rule.
const maxCycles = 10_000

// unreadRule reports an item that is not a valid rule.
func (d *document) unreadRule(r *rule, whole string, out *diag.List) {
	help := "Use \"**If** `CONDITION` **then** route to `AGENT`\", or skip, abort, **Checkpoint** or " +
		"**Cycle-back**. Run \"espalier explain NOF022\" for all forms."
	severity := diag.Error
	lower := strings.ToLower(whole)
	switch {
	case cycleForm().MatchString(whole):
		help = "End it with the agent and the limit: re-run from `AGENT` (max 2 cycles)."
	case strings.Contains(lower, "checkpoint"):
		help = "Use \"**Checkpoint** after `AGENT`: persist state to `checkpoints/NAME.json`\"."
	case !strings.Contains(lower, "if") && !strings.Contains(lower, "route") && !strings.Contains(lower, "abort"):
		severity = diag.Warning // most likely a remark
	}
	out.Reportf(CodeRule, severity, r.at, help, "The routing rule is invalid.")
}

// blank reports whether the rest of a rule contains only what may end a sentence.
func blank(s string) bool { return strings.Trim(s, " \t\r\n.;") == "" }

// sub returns a part of a text.
func sub(t text.Text, start, end int) text.Text {
	return text.Text{Value: t.Value[start:end], Span: t.Span.Sub(start, end)}
}

// action parses the text after "then".
func (d *document) action(r *rule, t text.Text, out *diag.List) bool {
	rest := text.Text{}
	if m := routeForm().FindStringSubmatchIndex(t.Value); m != nil {
		r.kind, r.target, rest = routeRule, sub(t, m[2], m[3]), sub(t, m[4], m[5])
	} else if m := skipForm().FindStringSubmatchIndex(t.Value); m != nil {
		r.kind, r.target, rest = skipRule, sub(t, m[4], m[5]), sub(t, m[6], m[7])
		list := sub(t, m[2], m[3])
		for _, q := range quotedForm().FindAllStringSubmatchIndex(list.Value, -1) {
			r.skips = append(r.skips, sub(list, q[2], q[3]))
		}
		if len(r.skips) == 0 {
			return false
		}
	} else if m := abortForm().FindStringSubmatchIndex(t.Value); m != nil {
		r.kind, rest = abortRule, sub(t, m[2], m[3])
	} else {
		return false
	}
	if m := withForm().FindStringSubmatchIndex(rest.Value); m != nil && blank(rest.Value[m[4]:m[5]]) {
		word := sub(rest, m[2], m[3])
		r.priority = slices.Index(priorities, strings.ToLower(word.Value))
		if r.priority < 0 {
			r.priority = 1
			out.Errorf(CodeRule, word.Span, "", "%q is not a priority.", word.Value).Suggest(word.Value, priorities)
		}
		return true
	}
	return blank(rest.Value)
}

// outputKeys are the keys of the output of every agent.
var outputKeys = python.OutputKeyNames()

// reserved are the names that rules can read in addition to the state.
var reserved = []string{"cost_so_far", "cycle", "elapsed_ms"}

// bindRules parses the conditions, checks the names in all rules, and keeps the valid rules.
func (d *document) bindRules(out *diag.List) {
	names := map[string]string{}
	for _, f := range d.state.fields {
		names[f.name] = statePath(f.name)
	}
	for _, name := range reserved {
		if d.state.find(name) == nil {
			names[name] = runPath(name)
			if name == "elapsed_ms" {
				names[name] = "run.elapsed_ms" // provided by every run
			}
		}
	}
	for _, a := range d.agents {
		names[a.Value] = agentPath(a.Value)
	}
	var good []*rule
	for _, r := range d.rules {
		ok := true
		agents := append(slices.Clone(r.skips), r.target)
		for _, a := range agents {
			if r.kind != abortRule && !d.lists(a.Value) {
				ok = false
				out.Errorf(CodeRuleName, a.Span, "", "The rule refers to %q, which is not one of the agents.", a.Value).
					Suggest(a.Value, d.keys())
			}
		}
		if r.kind == saveRule {
			ok = d.checkPath(r, out) && ok
		} else {
			ok = d.condition(r, names, out) && ok
		}
		if ok {
			good = append(good, r)
		}
	}
	d.rules = good
}

// condition parses the condition of a rule. Backticks may enclose all of it or single names.
// They are replaced by spaces, so that positions stay the same.
func (d *document) condition(r *rule, names map[string]string, out *diag.List) bool {
	parts := strings.Split(r.when.Value, "`")
	for i := range parts {
		if i%2 == 0 { // bold text; in backticks it is the power operator
			parts[i] = strings.ReplaceAll(parts[i], "**", "  ")
		}
	}
	code := strings.NewReplacer("\n", " ", "\r", " ").Replace(strings.Join(parts, " "))
	cond, list := expr.Parse(expr.NOF, code, r.when.Span)
	*out = append(*out, list...)
	if list.Errors() {
		return false
	}
	cond.Names = names
	ok := true
	for _, p := range cond.Paths() {
		if names[p.Written[0]] == "" {
			ok = false
			known := append(append(d.state.names(), reserved...), d.keys()...)
			found := out.Errorf(CodeRuleName, p.Span, "", "%q is neither a state field nor an agent.", p.Written[0])
			found.Suggest(p.Written[0], known)
			if first, _, minus := strings.Cut(p.Written[0], "-"); minus && names[first] != "" && found != nil {
				found.Help = "Put spaces around the minus sign to subtract. Without spaces it is part of a name."
				found.Fixes = nil
			}
		}
	}
	for _, p := range cond.Paths() {
		if len(p.Written) > 1 && d.lists(p.Written[0]) && !slices.Contains(outputKeys, p.Written[1]) &&
			p.Written[1] != expr.Items {
			out.Warnf(CodeRuleName, p.Span,
				"Use "+strings.Join(outputKeys, ", ")+". Own results belong in analysis_data.",
				"The output contract of agents has no %q. If %q does not return it anyway, it is None.", p.Written[1],
				p.Written[0]).Suggest(p.Written[1], outputKeys)
		}
	}
	r.cond = cond
	for _, found := range cond.CheckTypes(d.ruleTypes) {
		same := func(o diag.Diagnostic) bool { return o.Code == found.Code && o.Span == found.Span }
		if !slices.ContainsFunc(list, same) {
			out.Add(found)
			ok = ok && found.Severity != diag.Error
		}
	}
	return ok
}

// ruleTypes returns the types of a path that rules read, as JSON Schema names them.
func (d *document) ruleTypes(path []string) []string {
	switch {
	case len(path) == 2 && path[0] == "state":
		if f := d.state.find(path[1]); f != nil {
			switch types := f.kind.schema()["type"].(type) {
			case string:
				return []string{types, "null"} // a node may return None for every field
			case []string:
				return types
			}
		}
	case len(path) == 3 && path[0] == "state" && path[2] == expr.Items:
		if f := d.state.find(path[1]); f != nil && f.kind.name == "list" && f.kind.elem != nil {
			if item, ok := f.kind.elem.schema()["type"].(string); ok {
				return []string{item}
			}
		}
	case len(path) == 4 && path[0] == "agents" && path[3] == expr.Items:
		return typeNames(python.FindOutputKey(path[2]).Items)
	case len(path) == 2 && (path[0] == "pass" || path[0] == "run"):
		return []string{"number"}
	case len(path) == 2 && path[0] == "agents":
		return []string{"object"}
	case len(path) == 3 && path[0] == "agents": // the output contract
		return typeNames(python.FindOutputKey(path[2]).Type)
	}
	return nil
}

// typeNames returns a list of one type; nil if the type is not known.
func typeNames(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// checkPath requires checkpoints to be inside the run folder.
func (d *document) checkPath(r *rule, out *diag.List) bool {
	p := strings.ReplaceAll(r.path.Value, `\`, "/")
	clean := path.Clean(p)
	if p == "" || path.IsAbs(p) || strings.Contains(p, ":") || clean == "." || clean == ".." ||
		strings.HasPrefix(clean, "../") {
		out.Errorf(CodeCheckpoint, r.path.Span, "Use a relative path without .., such as `checkpoints/state.json`.",
			"The checkpoint %q is outside the run folder.", r.path.Value)
		return false
	}
	return true
}

// active returns the rules of some kinds that the routing mode does not ignore.
func (l *lowering) active(kinds ...ruleKind) []*rule {
	return xslices.Filter(l.doc.rules, func(r *rule) bool {
		return slices.Contains(kinds, r.kind) && !l.doc.inert(r, l.HonorRules)
	})
}

// inert reports whether the routing mode ignores a rule.
func (d *document) inert(r *rule, honor bool) bool {
	return d.mode() != dynamic && r.kind != saveRule && !honor
}

// The paths of the program's variables: fields of the state, values that rules can read besides, and the last outputs
// of agents.
func statePath(field string) string { return "state." + field }
func runPath(name string) string    { return "pass." + name }
func agentPath(key string) string   { return "agents." + key }
