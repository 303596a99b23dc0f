package agentfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// request is the input of a draft. Drafts are plain text processing: the same request always yields the same draft.
type request struct {
	name   string // of the generated workflow
	inputs []string
}

// Draft generates a draft for the model to improve, by the named rules, from the inputs of a step. fill replaces
// placeholders. It returns "" if there are no such rules.
func Draft(rules string, fill func(string) string, inputs []string) string {
	if draft := drafts[rules]; draft != nil {
		return draft(request{fill("{" + workflowName + "}"), inputs})
	}
	return ""
}

// drafts generate a draft of a workflow, or of a part of it, by rules: from the user's request, or from a design that a
// model has derived from it.
var drafts = map[string]func(request) string{
	"clarification": clarification,
	"design":        designed,
	"workflow":      config,
	"agents":        agents,
	"skills":        skills,
	"scripts":       scripts,
	"review":        review,
}

// design is the structure of a workflow.
type design struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Steps       []outline `json:"steps"`
}

// outline is one step of a design.
type outline struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Goal  string `json:"goal"`
	Agent string `json:"agent"` // a role
	Skill string `json:"skill"`
	Gate  bool   `json:"gate,omitempty"`
}

// jsonFence matches a block of JSON in Markdown.
var jsonFence = lazyregexp.New("(?s)```json\\s*\n(.*?)```")

// designOf returns the design among the inputs. If there is none, it derives one from the request, which is the first
// input.
func designOf(r request) design {
	for _, input := range r.inputs {
		for _, fence := range jsonFence().FindAllStringSubmatch(input, -1) {
			var d design
			if json.Unmarshal([]byte(fence[1]), &d) == nil && len(d.Steps) > 0 {
				return tidy(d, r.name)
			}
		}
	}
	asked := ""
	if len(r.inputs) > 0 {
		asked = r.inputs[0]
	}
	return tidy(decompose(r.name, asked), r.name)
}

// tidy makes names valid and ids unique.
func tidy(d design, name string) design {
	d.Name = name
	if strings.TrimSpace(d.Description) == "" {
		d.Description = "Does " + name
	}
	seen := map[string]int{}
	for i := range d.Steps {
		s := &d.Steps[i]
		s.ID = slug(s.ID, 6)
		if s.ID == "" {
			s.ID = fmt.Sprintf("step-%d", i+1)
		}
		if seen[s.ID]++; seen[s.ID] > 1 {
			s.ID = fmt.Sprintf("%s-%d", s.ID, seen[s.ID])
		}
		if s.Agent = slug(s.Agent, 4); s.Agent == "" {
			s.Agent = "worker"
		}
		if s.Skill = slug(s.Skill, 6); s.Skill == "" {
			s.Skill = s.ID
		}
		if strings.TrimSpace(s.Name) == "" {
			s.Name = sentence(strings.ReplaceAll(s.ID, "-", " "))
		}
		if strings.TrimSpace(s.Goal) == "" {
			s.Goal = s.Name
		}
	}
	return d
}

var (
	// inOrder separates consecutive actions. The text after it is always an action.
	inOrder = lazyregexp.New(`(?i)\s*[.;:\n。；：]+\s*|[,，、،]?\s*(?:然后|然後|接着|之后|そして|それから|ثم)|` +
		`[,，]?\s+(?:(?:and|und|et|y|e|и)\s+)?(?:then|after that|dann|danach|anschließend|puis|ensuite|luego|` +
		`después|poi|dopo|depois|затем|потом)(?:\s+|$)`)
	// between separates actions, or the objects of an action.
	between = lazyregexp.New(`(?i)\s*(?:[,，、،]\s*and\b|[,，、،]|\s+(?:and|und|et|y|e|och|og|ve|и)(?:\s+|[,，]))\s*`)
	// numbered is the mark of an item in a numbered list, which may be in the middle of a line.
	numbered = lazyregexp.New(`(?:^|\s)(\d{1,2})[.)]\s+`)
	// beforeDoing is "… before sending it", and doingLater "before sending it, …"; or "you send" in place of "sending".
	beforeDoing = lazyregexp.New(`(?i)[,，]?\s+before\s+((?:you|we|they)\s+[a-z]+|` +
		`[a-z]{2,}ing)\b`)
	doingLater   = lazyregexp.New(`(?i)^before\s+((?:(?:you|we|they)\s+[a-z]+|[a-z]{2,}ing)\b[^,]*),\s*(.+)$`)
	onceApproved = lazyregexp.New(`(?i)\b(after|once|when|if|as soon as)\b.*\b(approv|confirm|sign)`)
	// ownApproval is the end of an action that waits for the user, as in "publish it on my go-ahead". The words before
	// and after it are groups.
	ownApproval = lazyregexp.New(`(?im)([^\s,，]\s+)(?:(?:only|solo|sólo|só)\s+)?(?:` +
		`(?:after|on|upon|with|pending)\s+(?:my|our)\s+(?:approval|confirmation|go[- ]?ahead|sign[- ]?off|okay|ok)|` +
		`(?:después\s+de|depois\s+d[ae]|dopo)\s+(?:la\s+)?(?:mi|mia|minha|nuestra|nostra|nossa)\s+` +
		`(?:aprobación|aprovação|approvazione))` +
		`(\s*(?:[.;,]\s+(?:then|luego|poi|depois)\s|[.;]|$)|\s+(?:and|y|e)\s)`)
	listMark  = lazyregexp.New(`^\s*(?:[-*•]|\d+[.)])\s*`)
	asksFirst = lazyregexp.New(`(?i)\b(approv\w*|confirm\w*|sign[- ]?off|go[- ]?ahead|ask (me|us|a ` +
		`person|someone|somebody)|` +
		`let (me|us|a person|someone|somebody)( (review|check|see|read|look|decide))?|` +
		`unless (i|we)|human)\b|` +
		`approuv|approbation|aproba\pL*|aprovaç\pL*|approvazione|freigabe|genehmig|одобр|подтвер|批准|承認`)
	// asker is a word that starts a part of a request that only asks a person.
	asker = lazyregexp.New(`(?i)^(ask|let|wait|pause|stop|hold|approv\w*|confirm\w*|sign|i|me|my|we|our|a|an|the|` +
		`human|manual\w*|with|without|until|unless|only|upon|on|but|subject|provided|if|when|once|after|as|` +
		`(get|have|request|obtain|seek|need|require)s?\s.*(approv|confirm|sign)\w*|de|nach|après)\b`)
	lead = lazyregexp.New(`(?i)^(and|but|und|et|y|ve|и|please|then|dann|danach|anschließend|puis|ensuite|luego|poi|` +
		`затем|потом|first|next|finally|afterwards|also|it should|should|must|a workflow ` +
		`(that|which|to)|workflow (that|to)|i want to|i want it to|to)\s+`)
)

// verbs maps the verbs of requests to the roles that do the work.
var verbs = map[string]string{
	"analyse": "analyst", "analyze": "analyst", "answer": "adviser", "assess": "assessor", "brainstorm": "ideas-finder",
	"build": "builder",
	"check": "checker", "classify": "classifier", "collect": "collector", "compare": "analyst", "compile": "editor",
	"compose": "writer",
	"convert": "converter", "create": "author", "describe": "writer", "design": "designer", "draft": "writer",
	"edit":     "editor",
	"evaluate": "assessor", "explain": "explainer", "extract": "extractor", "fetch": "collector", "find": "researcher",
	"fix":    "repairer",
	"format": "editor", "gather": "collector", "generate": "author", "group": "organizer", "identify": "analyst",
	"improve": "editor",
	"list":    "organizer", "make": "author", "order": "organizer", "plan": "planner", "polish": "editor",
	"prepare": "author", "produce": "author",
	"propose": "adviser", "prioritise": "organizer", "prioritize": "organizer", "proofread": "proofreader",
	"publish": "publisher", "rank": "organizer",
	"read": "reader", "recommend": "adviser", "report": "reporter", "research": "researcher", "review": "reviewer",
	"rewrite": "editor",
	"score":   "assessor", "search": "researcher", "send": "publisher", "shorten": "editor", "sort": "organizer",
	"split":   "organizer",
	"suggest": "adviser", "summarise": "summarizer", "summarize": "summarizer", "test": "tester",
	"translate": "translator", "turn": "converter",
	"anonymize": "editor", "assign": "organizer", "calculate": "analyst", "categorize": "classifier", "clean": "editor",
	"delete": "organizer", "deploy": "publisher", "detect": "analyst", "download": "collector", "merge": "editor",
	"notify": "publisher", "parse": "reader", "redact": "editor", "remove": "editor", "submit": "publisher",
	"upload":   "publisher",
	"validate": "checker", "verify": "checker", "write": "writer",
}

// decompose splits a request into its actions: at words and punctuation that order them, then at conjunctions between
// verbs. A part that only asks a person becomes the gate of the action before it. It recognizes English best, and other
// languages by a few words.
func decompose(name, asked string) design {
	asked = strings.TrimSpace(asked)
	d := design{Name: name, Description: oneLine(asked)}
	var parts []string
	// "unless" puts the gate before the action.
	text := ownApproval().ReplaceAllString(asked, "$1, unless I reject it$2")
	for line := range strings.Lines(splitItems(text)) {
		line = listMark().ReplaceAllString(strings.TrimSpace(line), "")
		for _, action := range inOrder().Split(line, -1) {
			for _, one := range beforeOthers(action) {
				parts = appendActions(parts, one)
			}
		}
	}
	for i, part := range parts {
		gate := asksFirst().MatchString(part)
		if gate && len(d.Steps) > 0 {
			last := len(d.Steps) - 1
			if last > 0 && strings.HasPrefix(strings.ToLower(part), "unless ") { // of the action before it
				last--
			}
			verb := verbs[strings.ToLower(firstWord(part))] != ""
			if !verb || onceApproved().MatchString(part) {
				d.Steps[last].Gate, gate = true, false
			}
			if !verb && asker().MatchString(part) {
				if part = afterApproval(part, parts[0]); part == "" {
					continue
				}
			}
		}
		english := verbs[strings.ToLower(firstWord(parts[0]))] != ""
		if english && !strings.Contains(part, " ") && i+1 < len(parts) { // "read, group and sum up the feedback"
			next := slices.IndexFunc(parts[i:], func(s string) bool { return strings.Contains(s, " ") })
			if next > 0 {
				part += " " + afterFirst(parts[i+next])
			}
		}
		d.Steps = append(d.Steps, outline{
			ID: slug(part, 4), Name: sentence(oneLine(part)), Goal: sentence(part) + ".", Agent: role(part),
			Skill: slug(part, 5),
			Gate:  gate,
		})
	}
	if len(d.Steps) == 0 {
		words := strings.ReplaceAll(name, "-", " ")
		d.Steps = []outline{{
			ID: slug(name, 4), Name: sentence(words), Goal: sentence(words) + ".", Agent: role(words),
			Skill: slug(name, 5),
		}}
	}
	return d
}

// splitItems puts the items of a numbered list on lines of their own.
func splitItems(text string) string {
	var marks [][]int
	for _, m := range numbered().FindAllStringSubmatchIndex(text, -1) {
		if text[m[2]:m[3]] == strconv.Itoa(len(marks)+1) {
			marks = append(marks, m)
		}
	}
	if len(marks) < 2 { // a number at the end of a sentence
		return text
	}
	for _, m := range slices.Backward(marks) {
		text = text[:m[0]] + "\n" + text[m[1]:]
	}
	return text
}

// beforeOthers splits "check it before sending it" and "before sending it, check it" into actions in their order.
func beforeOthers(text string) []string {
	if m := doingLater().FindStringSubmatch(strings.TrimSpace(text)); m != nil {
		return []string{m[2], infinitive(m[1])}
	}
	at := beforeDoing().FindStringSubmatchIndex(text)
	if at == nil {
		return []string{text}
	}
	return append([]string{text[:at[0]]}, beforeOthers(infinitive(text[at[2]:]))...)
}

// silentE are verbs whose forms in -ing omit an "e" and that are not in verbs.
var silentE = []string{
	"approve", "archive", "change", "close", "combine", "complete", "delete", "finalize", "invoice", "merge", "notice",
	"organize", "parse", "queue", "release", "remove", "replace", "save", "schedule", "share", "store", "update", "use",
}

// infinitive replaces a form in -ing, or a verb after a pronoun, at the start of a text by the verb.
func infinitive(text string) string {
	for _, who := range []string{"you ", "we ", "they "} {
		if len(text) > len(who) && strings.EqualFold(text[:len(who)], who) {
			return strings.TrimSpace(text[len(who):])
		}
	}
	first, rest, spaced := strings.Cut(text, " ")
	stem := strings.TrimSuffix(strings.ToLower(first), "ing")
	n := len(stem)
	switch {
	case verbs[stem] != "":
	case verbs[stem+"e"] != "" || slices.Contains(silentE, stem+"e"):
		stem += "e"
	case n > 2 && stem[n-1] == stem[n-2] && !strings.ContainsRune("lszf", rune(stem[n-1])): // "committing"
		stem = stem[:n-1]
	}
	if spaced {
		stem += " "
	}
	return stem + rest
}

// afterApproval returns the action that follows in a part of a request that asks a person, such as "after I approve
// send it". first is the first part of the request.
func afterApproval(part, first string) string {
	if strings.HasPrefix(strings.ToLower(part), "unless ") {
		return ""
	}
	all := asksFirst().FindAllStringIndex(part, -1)
	rest := strings.TrimSpace(part[all[len(all)-1][1]:])
	for _, word := range []string{"it ", "that ", "this ", "them "} {
		rest = strings.TrimPrefix(rest, word)
	}
	words := strings.Fields(strings.ToLower(rest))
	if len(words) == 0 || slices.Contains(questions, words[0]) || slices.Contains(objects, words[0]) ||
		!isAction(rest, first) {
		return ""
	}
	return rest
}

// questions are words that start what a person is asked.
var questions = []string{
	"which", "what", "whether", "if", "for", "about", "how", "to", "when", "where", "who", "by", "on",
}

// appendActions adds the actions of a part of a request that has no order of its own, such as "read and group the
// feedback". Something that is not an action belongs to the action before it.
func appendActions(parts []string, text string) []string {
	before, list := len(parts), false // list: "fetch, parse, and store the feed"
	for _, part := range between().Split(text, -1) {
		for lead().MatchString(part) {
			part = lead().ReplaceAllString(part, "")
		}
		if part = strings.Trim(part, " \t\"'!?-！？"); part == "" {
			continue
		}
		if len(parts) == before {
			list = verbs[strings.ToLower(part)] != ""
		} else if !list && !isAction(part, parts[before]) && !asksFirst().MatchString(part) {
			parts[len(parts)-1] += ", " + part
			continue
		}
		parts = append(parts, part)
	}
	return parts
}

// isAction reports whether a part of a request is an action of its own. An unknown verb is recognized by the object
// after it, as in "post it". In a request that does not start with a verb of the table, such as one in another
// language, every part is an action: an additional step does less harm than one that is lost.
func isAction(part, first string) bool {
	words := strings.Fields(strings.ToLower(part))
	if verbs[strings.Trim(words[0], ",.")] != "" || verbs[strings.ToLower(firstWord(first))] == "" {
		return true
	}
	return len(words) > 1 && slices.Contains(objects, strings.Trim(words[1], ",.")) && !slices.Contains(objects,
		words[0])
}

// objects are words that start the object of a verb.
var objects = []string{
	"it", "them", "this", "that", "these", "those", "the", "a", "an", "all", "each", "every", "my", "our", "your",
	"his", "her", "its", "their", "one", "me", "us", "everything",
}

// role returns the agent that an action needs, by its verb.
func role(part string) string {
	verb := strings.ToLower(firstWord(part))
	if who := verbs[verb]; who != "" {
		return who
	}
	return slug(verb, 1) + "-specialist"
}

// firstWord returns the first word of a text, without a comma or a period after it.
func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return strings.Trim(f[0], ",.")
	}
	return ""
}

// afterFirst returns what follows the first word.
func afterFirst(s string) string {
	_, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	return rest
}

// small are words that names omit.
var small = []string{
	"a", "an", "the", "of", "to", "for", "in", "on", "it", "its", "them", "their", "that", "which",
	"with", "into", "from", "my", "our", "your", "is", "are", "be",
}

// slug returns a name made of the first significant words of a text.
func slug(text string, most int) string {
	words := strings.FieldsFunc(asciiLetters(strings.ToLower(text)),
		func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	var kept []string
	for _, w := range words {
		if len(kept) < most && !slices.Contains(small, w) {
			kept = append(kept, w)
		}
	}
	if len(kept) == 0 {
		kept = words[:min(len(words), most)]
	}
	name := strings.Join(kept, "-")
	if name != "" && (name[0] < 'a' || name[0] > 'z') {
		name = "s-" + name
	}
	return name
}

// asciiLetters replaces accented letters and ligatures with ASCII letters.
func asciiLetters(s string) string {
	s = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ı", "i").Replace(s)
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(s))
}

// sentence returns a text as a title: with a capital letter and without a period.
func sentence(s string) string {
	return firstAs(unicode.ToUpper, strings.TrimRight(strings.TrimSpace(s), ". "))
}

func lower(s string) string { return firstAs(unicode.ToLower, s) }

// firstAs maps the first letter of a text.
func firstAs(as func(rune) rune, s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(as(first)) + s[size:]
}

// oneLine returns a text on one line, shortened if it is long.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 160 {
		s = strings.ToValidUTF8(s[:157], "") + "…"
	}
	return s
}

// clarification writes what the request asks for, and what is assumed.
func clarification(r request) string {
	d := designOf(r)
	var b strings.Builder
	fmt.Fprintf(&b, "# Clarification: %s\n\n## What is asked\n\n%s\n\n## What it takes\n\n", r.name, d.Description)
	for _, s := range d.Steps {
		fmt.Fprintf(&b, "- %s\n", s.Name)
	}
	b.WriteString("\n## Assumptions\n\n- What to work on is given when a run begins.\n")
	for _, s := range d.Steps {
		if s.Gate {
			fmt.Fprintf(&b, "- A person approves the result of %q before anything follows.\n", s.Name)
		}
	}
	return b.String()
}

// designed writes the design for people, and as JSON for the steps after it; see designOf.
func designed(r request) string {
	d := designOf(r)
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return "" // cannot happen: plain data always encodes
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Design: %s\n\n%s\n\n## Steps\n\n", r.name, d.Description)
	for i, s := range d.Steps {
		fmt.Fprintf(&b, "%d. **%s**, by the %s, with the skill %s\n", i+1, s.Name, s.Agent, s.Skill)
	}
	fmt.Fprintf(&b, "\n## Structure\n\n```json\n%s\n```\n", raw)
	return b.String()
}

func quoted(s string) string { return string(jsonfast.AppendString(nil, s)) } // JSON is YAML

// config writes the workflow file. Each step reads the result of the one before it.
func config(r request) string {
	d := designOf(r)
	var b strings.Builder
	fmt.Fprintf(&b, "specVersion: \"1.0\"\nname: %s\nversion: 1.0.0\ndescription: %s\n\ntrigger:\n  type: "+
		"natural-language\n  input_var: AGENT_INPUT\n\nexecution:\n  preferred: ide\n\nsteps:\n", d.Name,
		quoted(d.Description))
	for i, s := range d.Steps {
		fmt.Fprintf(&b, "  - id: %s\n    name: %s\n    agent: agents/%s.md\n    skill: skills/%s.md\n", s.ID,
			quoted(s.Name), s.Agent, s.Skill)
		if i == 0 {
			b.WriteString("    input: $AGENT_INPUT\n")
		} else {
			fmt.Fprintf(&b, "    input:\n      - $AGENT_INPUT\n      - outputs/%s\n", resultFile(d, i-1))
		}
		fmt.Fprintf(&b, "    goal: %s\n    produces: outputs/%s\n", quoted(s.Goal), resultFile(d, i))
		if s.Gate {
			b.WriteString("    gate: human-approval\n")
		}
		if i+1 < len(d.Steps) {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// resultFile returns the file of a step's result. The numbers keep the files in the order of the steps.
func resultFile(d design, i int) string { return fmt.Sprintf("%02d-%s.md", i+1, d.Steps[i].ID) }

// agents writes the files of all agents as one text. An agent of several steps has one file.
func agents(r request) string {
	d := designOf(r)
	var b strings.Builder
	done := map[string]bool{}
	for _, s := range d.Steps {
		if done[s.Agent] {
			continue
		}
		done[s.Agent] = true
		title := sentence(strings.ReplaceAll(s.Agent, "-", " "))
		fmt.Fprintf(&b, "##FILE: %s.md##\n# Agent: %s\n\n## Persona\nYou are the %s of a workflow that does this: "+
			"%s\n\n## Responsibilities\n", s.Agent, title, strings.ReplaceAll(s.Agent, "-", " "), d.Description)
		for _, other := range d.Steps {
			if other.Agent == s.Agent {
				fmt.Fprintf(&b, "- %s\n", other.Name)
			}
		}
		b.WriteString("\n## Rules\n- Work on what you are given; invent nothing.\n- Say so when something that you " +
			"need is missing.\n")
		for _, other := range d.Steps {
			if other.Agent == s.Agent && other.Gate {
				fmt.Fprintf(&b, "- A person decides on the result of %q: make it easy to judge.\n", other.Name)
			}
		}
		b.WriteString("\n## Output Format\nMarkdown:\n\n```markdown\n")
		for _, other := range d.Steps {
			if other.Agent == s.Agent {
				fmt.Fprintf(&b, "# %s\n\n(the result)\n", other.Name)
			}
		}
		b.WriteString("```\n##END##\n")
	}
	return b.String()
}

// skills drafts the files of the skills that the steps of a design name.
func skills(r request) string {
	d := designOf(r)
	var b strings.Builder
	done := map[string]bool{}
	for i, s := range d.Steps {
		if done[s.Skill] {
			continue
		}
		done[s.Skill] = true
		from, next := "what the run was given", "the person who asked for it"
		if i > 0 {
			from = fmt.Sprintf("the result of %q", d.Steps[i-1].Name)
		}
		if i+1 < len(d.Steps) {
			next = fmt.Sprintf("the next step, %q", d.Steps[i+1].Name)
		}
		fmt.Fprintf(&b, "##FILE: %s.md##\n# Skill: %s\n\n## Purpose\nHow to %s.\n\n", s.Skill, s.Name,
			lower(strings.TrimRight(s.Goal, ".")))
		fmt.Fprintf(&b, "## Instructions\n1. Read %s to its end.\n2. Note what of it matters to this goal: %s\n3. "+
			"%s.\n4. Check the result against the goal, and leave out what does not serve it.\n5. Hand it over in a "+
			"form that %s can use as it is.\n\n", from, s.Goal, sentence(s.Goal), next)
		fmt.Fprintf(&b, "## Examples\nGiven a short piece of %s, a good result is:\n\n```markdown\n# %s\n\n- one "+
			"finding in each line, with the words that it rests on\n```\n##END##\n", strings.TrimPrefix(from, "the "),
			s.Name)
	}
	return b.String()
}

// scripts drafts the scripts that run the workflow outside of Espalier's own commands.
func scripts(r request) string {
	d := designOf(r)
	var b strings.Builder
	fmt.Fprintf(&b, "##FILE: ide/instructions.md##\n# %s\n\n%s\n\nRead workflow.yaml and do its steps in their "+
		"order, each as its agent and with its skill. Write what each step produces to its path, and stop at gates "+
		"until a person has approved.\n##END##\n", d.Name, d.Description)
	b.WriteString("##FILE: ide/steps.md##\n# Steps\n\n")
	for i, s := range d.Steps {
		fmt.Fprintf(&b, "%d. %s: agents/%s.md with skills/%s.md, to outputs/%s\n", i+1, s.Name, s.Agent, s.Skill,
			resultFile(d, i))
		if s.Gate {
			b.WriteString("   Wait for a person's approval.\n")
		}
	}
	fmt.Fprintf(&b, "##END##\n##FILE: cli/run.sh##\n#!/usr/bin/env bash\nset -euo pipefail\nexec espalier run %s "+
		"--input \"AGENT_INPUT=${1:-${AGENT_INPUT:?say what to work on}}\"\n##END##\n", d.Name)
	fmt.Fprintf(&b, "##FILE: cli/run.ps1##\nparam([string]$Text = $env:AGENT_INPUT)\nespalier run %s --input "+
		"\"AGENT_INPUT=$Text\"\nexit $LASTEXITCODE\n##END##\n", d.Name)
	fmt.Fprintf(&b, "##FILE: README.md##\n# Scripts of %s\n\n`cli/run.sh \"text\"` runs the workflow; `ide/` tells "+
		"an editor's agent how to do it by itself.\n##END##\n", d.Name)
	return b.String()
}

// review drafts the overview that a person reads before the workflow is promoted.
func review(r request) string {
	d := designOf(r)
	var b strings.Builder
	fmt.Fprintf(&b, "# Review: %s\n\n%s\n\n| step | agent | skill | gate |\n|---|---|---|---|\n", r.name, d.Description)
	for _, s := range d.Steps {
		gate := "no"
		if s.Gate {
			gate = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.ID, s.Agent, s.Skill, gate)
	}
	b.WriteString("\nEvery step works on what the one before it has produced. The files are checked before the " +
		"workflow can be promoted.\n")
	return b.String()
}
