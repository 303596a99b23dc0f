package aiflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The generations of files, as "espalier show" displays them.
const (
	generationA = "v0.1"
	generationB = "transitional"
	generationC = "studio export"
)

// document is the syntax tree of a file of any generation.
type document struct {
	file       *source.File
	generation string
	metadata   object
	name       text.Text
	version    text.Text
	about      text.Text
	entry      text.Text
	variables  *text.Node
	maxSteps   *ir.Limit
	retries    *int
	fallback   text.Text
	agents     []*agent
	rules      []*rule
	tools      []*tool
	prompts    []text.Pair
	promptMap  *text.Node // the map that has them
	hasPrompts bool
	memory     bool
}

// agent is one agent, independent of the generation.
type agent struct {
	id           text.Text
	name, role   text.Text
	provider     text.Text
	model        text.Text
	maxTokens    int
	options      map[string]json.RawMessage
	prompt       text.Text
	instructions text.Text
	output       text.Text // json, text, markdown
	tools        []text.Text
	attempts     int
	retryOn      []text.Text // nil if the file does not set it
	span         source.Span
}

// rule is one possible transition from an agent.
type rule struct {
	id        string
	from, to  text.Text
	condition text.Text
	about     string
	human     bool
	span      source.Span // of its first key
}

// tool is a tool that agents may call.
type tool struct {
	id    text.Text
	node  *text.Node
	span  source.Span
	entry diag.Entry
}

// object is a JSON object while it is parsed. It remembers which keys were asked for, so that done can warn about the
// others.
type object struct {
	node  *text.Node
	shape *text.Shape // nil if the author chooses the keys
	what  string
	out   *diag.List
	read  []string
}

// get returns the value of a key, or nil if it is missing or null.
func (o *object) get(key string) *text.Node {
	if o.shape != nil {
		o.shape.Field(key)
	}
	o.read = append(o.read, key)
	if n := o.node.Get(key); n != nil && n.Kind != text.Null {
		return n
	}
	return nil
}

// wrong reports a value of the wrong type.
func (o *object) wrong(key string, n *text.Node, wanted string) {
	is := n.Kind.String()
	if n.Kind == text.Int || n.Kind == text.Float {
		is = n.Value
	}
	o.out.Errorf(CodeWrongType, head(n), fmt.Sprintf("Use %s.", wanted), "%q of the %s must be %s, but this is %s.",
		key, o.what, wanted, is)
}

// head returns the span of a scalar, or of the opening bracket of another value.
func head(n *text.Node) source.Span {
	if n.Kind == text.Map || n.Kind == text.List {
		return n.Span.Sub(0, 1)
	}
	return n.Span
}

// text returns a scalar as text; empty if it is missing or invalid.
func (o *object) text(key string) text.Text {
	n := o.get(key)
	if n == nil {
		return text.Text{}
	}
	if n.Kind >= text.List {
		o.wrong(key, n, "a string")
		return text.Text{}
	}
	return n.Text()
}

// texts returns a list of strings. It is nil only if the key is missing or invalid.
func (o *object) texts(key string) []text.Text {
	n := o.get(key)
	switch {
	case n == nil:
		return nil
	case n.Kind < text.List:
		return []text.Text{n.Text()}
	case n.Kind == text.Map:
		o.wrong(key, n, "a list of strings")
		return nil
	}
	out := []text.Text{}
	for _, item := range n.Items {
		switch {
		case item.Kind < text.List:
			out = append(out, item.Text())
		case item.Kind == text.Map && item.Get("id") != nil: // some files list tools as objects
			out = append(out, item.Get("id").Text())
		default:
			o.wrong(key, item, "a string")
		}
	}
	return out
}

// number returns an integer of at least 1, or 0 if it is missing or invalid.
func (o *object) number(key string) int {
	n := o.get(key)
	if n == nil {
		return 0
	}
	value, ok := integer(n)
	if !ok || value < 1 {
		o.wrong(key, n, "an integer above 0")
		return 0
	}
	return value
}

// integer returns an integer that JSON numbers represent exactly.
func integer(n *text.Node) (int, bool) {
	value, ok := n.Integer()
	if !ok || value.BitLen() > 53 {
		return 0, false
	}
	return int(value.Int64()), true
}

// tokens returns "max_tokens". Editors write 0 for an agent that only calls a tool.
func (o *object) tokens(a *agent) int {
	n := o.node.Get("max_tokens")
	if n == nil || !a.isTool() {
		return o.number("max_tokens")
	}
	if value, ok := integer(n); ok {
		o.get("max_tokens")
		if value == 0 {
			o.out.Warnf(CodeBadValue, n.Span, "Remove it.",
				"\"max_tokens\" of the agent %q has no effect, because the agent only calls a tool.", a.id.Value).
				RemoveEntry("max_tokens", o.node.Entry("max_tokens"))
		}
		return 0
	}
	return o.number("max_tokens")
}

// optional returns the object below a key, or nil.
func (o *object) optional(key string) *text.Node {
	n := o.get(key)
	if n != nil && n.Kind != text.Map {
		o.wrong(key, n, "an object")
		return nil
	}
	return n
}

// inner returns the object below a key, or an empty one.
func (o *object) inner(key, what string) object {
	n := cmp.Or(o.optional(key), &text.Node{Kind: text.Map, Span: o.node.Span})
	return object{node: n, shape: o.shape.Field(key).Shape, what: what, out: o.out}
}

// done warns about keys that were not read, except for hidden ones.
func (o *object) done() {
	known := slices.Concat(o.read, o.shape.Hidden())
	for _, p := range o.node.Pairs {
		name := p.Key.Value
		if slices.Contains(known, name) || strings.HasPrefix(name, "_") {
			continue
		}
		o.out.Warnf(CodeUnknownKey, p.Key.Span, "", "Unknown key %[2]q in the %[1]s.", o.what, name).
			Suggest(name, known, o.node.Keys()...)
	}
}

// parse parses a file. It returns nil if the file is unusable.
func parse(f *source.File, out *diag.List) *document {
	node, list := text.ParseJSON(f)
	*out = append(*out, list...)
	if node == nil {
		return nil
	}
	root := object{node: node, shape: fileShape, what: "file", out: out}
	if node.Kind != text.Map {
		root.out.Errorf(CodeInvalidProject, head(node), `Use an object with "metadata", "flow" and "agents".`,
			"The file is %s, not an object.", node.Kind)
		return nil
	}
	d := &document{file: f}
	flow := root.inner("flow", "flow")
	if !slices.Contains(node.Keys(), "flow") && !slices.Contains(node.Keys(), "agents") {
		root.out.Errorf(CodeInvalidProject, head(node), `Add "flow" and "agents".`,
			"The file has neither a flow nor agents.")
		return nil
	}
	d.readMetadata(&root)
	d.readPrompts(&root)
	d.readTools(&root)
	d.readAgents(&root)
	d.readFlow(&flow)
	d.readRules(&root, &flow)
	d.readMemory(&root)
	d.generation = generationOf(node)
	flow.get("logic")
	flow.done()
	root.get("logic")
	root.done()
	if missing := slices.DeleteFunc([]string{"tools", "memory"},
		func(name string) bool { return node.Get(name) != nil }); len(missing) > 0 {
		root.out.Notef(CodeNoSection, firstKey(node),
			"No action is required. The standard includes both in every file.", "The file has no %s.", listed(missing))
	}
	return d
}

// firstKey returns the place of the first key, where diagnostics about something missing point.
func firstKey(n *text.Node) source.Span {
	if len(n.Pairs) > 0 {
		return n.Pairs[0].Key.Span
	}
	return head(n)
}

// generationOf distinguishes the generations by their most reliable difference.
func generationOf(root *text.Node) string {
	flow := root.Get("flow")
	logic := cmp.Or(flow.Get("logic"), root.Get("logic"))
	agents := root.Get("agents")
	switch {
	case agents != nil && agents.Kind == text.List:
		return generationC
	case logic != nil && logic.Kind == text.List:
		return generationB
	default:
		return generationA
	}
}

// readMetadata parses the metadata. The version must be a semantic version (§9).
func (d *document) readMetadata(root *object) {
	meta := root.inner("metadata", "metadata")
	d.metadata = meta
	d.name, d.version, d.about = meta.text("name"), meta.text("version"), meta.text("description")
	created, modified := meta.text("created"), meta.text("modified")
	meta.text("creator")
	meta.done()
	var missing []string
	for _, field := range []struct {
		name string
		text text.Text
	}{{"name", d.name}, {"version", d.version}, {"created", created}, {"modified", modified}} {
		if field.text.Value == "" {
			missing = append(missing, field.name)
		}
	}
	if v := meta.node.Get("version"); v != nil && d.version.Value == "" &&
		(v.Kind == text.String || v.Kind == text.Null) {
		root.out.Errorf(CodeMetadata, v.Span, "Use MAJOR.MINOR.PATCH, such as 1.0.0, or remove the key.",
			"The version is empty, which is not a semantic version.")
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == "version" })
	}
	if v := d.version; v.Value != "" && !ir.ValidVersion(v.Value) { // §9
		root.out.Errorf(CodeMetadata, v.Span, "Use MAJOR.MINOR.PATCH, such as 1.0.0 or 1.0.0-beta.1.",
			"The version %q is not a semantic version.", v.Value)
		d.version = text.Text{}
	}
	if len(missing) > 0 { // hardly any file has all of them
		severity := diag.Note
		if slices.Contains(missing, "name") || slices.Contains(missing, "version") {
			severity = diag.Warning
		}
		root.out.Reportf(CodeMetadata, severity, root.keySpan("metadata"),
			"Add the missing keys. Runs do not depend on them.", "The metadata has no %s.", listed(missing))
	}
}

// listed joins names for a sentence.
func listed(names []string) string {
	quoted := xslices.Map(names, func(n string) string { return fmt.Sprintf("%q", n) })
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " and " + quoted[len(quoted)-1]
}

// readPrompts keeps the prompts, which agents refer to by key.
func (d *document) readPrompts(root *object) {
	if n := root.optional("prompts"); n != nil {
		d.hasPrompts, d.prompts, d.promptMap = true, n.Pairs, n
	}
}

// entries yields the members of a map or a list, each with its key, or nil.
func entries(n *text.Node) func(yield func(id *text.Node, value *text.Node) bool) {
	return func(yield func(id *text.Node, value *text.Node) bool) {
		for _, p := range n.Pairs {
			if !yield(p.Key, p.Value) {
				return
			}
		}
		for _, item := range n.Items {
			if !yield(nil, item) {
				return
			}
		}
	}
}

// entryAt returns the place of a member: that of its key, if it has one.
func entryAt(key, value *text.Node) source.Span {
	if key != nil {
		return key.Span
	}
	return head(value)
}

// collection returns the map or the list below a key, or nil.
func (o *object) collection(key, wanted string) *text.Node {
	n := o.get(key)
	if n != nil && n.Kind != text.Map && n.Kind != text.List {
		o.wrong(key, n, wanted)
		return nil
	}
	return n
}

// keySpan returns the place of a key, or of the first key if it is missing.
func (o *object) keySpan(key string) source.Span {
	if k := o.node.Key(key); k != nil {
		return k.Span
	}
	return firstKey(o.node)
}

// readAgents parses the agents, which are a map or a list, depending on the generation.
func (d *document) readAgents(root *object) {
	n := root.collection("agents", "an object or a list of agents")
	if n == nil || len(n.Pairs)+len(n.Items) == 0 {
		root.out.Errorf(CodeNoAgents, root.keySpan("agents"),
			`Add "agents": {"first": {"name": "…", "role": "…", "provider": "…", "model": "…", "prompt": "…"}}.`,
			"The file has no agents.")
		return
	}
	for key, value := range entries(n) {
		if value.Kind != text.Map {
			root.out.Errorf(CodeAgentInvalid, entryAt(key, value),
				"Use an object with name, role, provider, model and prompt.", "The agent is %s, not an object.",
				value.Kind)
			continue
		}
		if a := d.readAgent(root, key, value); a != nil {
			d.agents = append(d.agents, a)
		}
	}
}

// readAgent parses one agent. It returns nil after an error that leaves nothing to refer to.
func (d *document) readAgent(root *object, key, value *text.Node) *agent {
	o := object{node: value, shape: agentShape, what: "agent", out: root.out}
	a := &agent{id: o.text("id"), options: map[string]json.RawMessage{}}
	if key != nil { // rules refer to the key
		a.id = key.Text()
	}
	if a.id.Value == "" {
		o.out.Errorf(CodeAgentNoID, firstKey(value), `Add "id": "name".`, "The agent has no \"id\".")
		return nil
	}
	o.what = fmt.Sprintf("agent %q", a.id.Value)
	a.span = a.id.Span
	if i := slices.IndexFunc(d.agents, func(other *agent) bool { return other.id.Value == a.id.Value }); i >= 0 {
		o.out.Errorf(CodeDuplicateAgent, a.span, "Change one of the ids.", "Duplicate agent %q.", a.id.Value).
			Relate(d.agents[i].span, "first defined here")
		return nil
	}
	a.name, a.role = o.text("name"), o.text("role")
	a.prompt, a.instructions = o.text("prompt"), o.text("instructions")
	a.tools = o.texts("tools")
	a.provider = o.text("provider")
	d.readModel(&o, a)
	if a.output = o.text("output_format"); a.output.Value != "" {
		lower := strings.ToLower(a.output.Value)
		switch {
		case slices.Contains(outputFormats, lower):
			a.output.Value = lower
		case a.isTool(): // editors write "raw"
			o.out.Warnf(CodeBadValue, a.output.Span, "Remove it.",
				"%q of the %s has no effect, because the agent only calls a tool: %q.", "output_format", o.what,
				a.output.Value).RemoveEntry("output_format", o.node.Entry("output_format"))
			a.output = text.Text{}
		default:
			o.out.Errorf(CodeBadValue, a.output.Span, "Use json, text or markdown.", "%q of the %s is not valid: %q.",
				"output_format", o.what, a.output.Value)
			a.output = text.Text{}
		}
	}
	policy := o.inner("retryPolicy", "retry policy")
	a.attempts = policy.number("maxAttempts")
	a.retryOn = policy.texts("retryOn")
	for _, on := range a.retryOn {
		if !slices.Contains(errorClasses, on.Value) {
			policy.out.Errorf(CodeBadValue, on.Span, "", "%q is not an error class.", on.Value).
				Suggest(on.Value, errorClasses)
		}
	}
	policy.done()
	o.done()
	return a
}

// readModel parses provider, model and settings, which occur in three forms. Settings beside
// the model's name take precedence over the config.
func (d *document) readModel(o *object, a *agent) {
	keep := func(from *object) {
		for _, name := range samplingKeys {
			n := from.get(name)
			switch {
			case n == nil:
			case name != "stop" && n.Kind != text.Int && n.Kind != text.Float:
				from.wrong(name, n, "a number")
			case a.options[name] == nil:
				a.options[name] = n.JSON()
			}
		}
	}
	if n := o.node.Get("model"); n != nil && n.Kind == text.Map {
		m := o.inner("model", "model")
		if p := m.text("provider"); p.Value != "" {
			a.provider = p
		}
		a.model = m.text("name")
		a.maxTokens = m.tokens(a)
		keep(&m)
		m.done()
	} else {
		a.model = o.text("model")
	}
	config := o.inner("config", "config")
	if n := config.tokens(a); n > 0 && a.maxTokens == 0 {
		a.maxTokens = n
	}
	keep(&config)
	config.done()
	if a.model.Value == "" || a.provider.Value == "" {
		missing := "model"
		if a.model.Value != "" {
			missing = "provider"
		}
		o.out.Warnf(CodeModelIncomplete, a.id.Span,
			"Add \"provider\" and \"model\", or rely on the project's configuration.", "The %s has no %s.", o.what,
			missing)
	}
	if a.isTool() && len(a.tools) == 0 {
		o.out.Warnf(CodeBadValue, a.provider.Span, "Add the tool to \"tools\", or use the provider of a model.",
			"The %s is a tool, by its provider %q, but lists no tool.", o.what, a.provider.Value)
	}
}

// isTool reports whether the agent only calls a tool.
func (a *agent) isTool() bool { return strings.EqualFold(a.provider.Value, "system") }

// readTools parses the names of the tools. lowering.tool parses the rest, because its severity depends on the agents.
func (d *document) readTools(root *object) {
	n := root.collection("tools", "an object or a list of tools")
	if n == nil {
		return
	}
	items := xslices.Map(n.Items, (*text.Node).Text)
	for key, value := range entries(n) {
		if value.Kind != text.Map {
			root.out.Errorf(CodeToolInvalid, entryAt(key, value),
				`Use an object such as {"type": "http", "endpoint": "https://…", "method": "GET"}.`,
				"The tool is %s, not an object.", value.Kind)
			continue
		}
		o := object{node: value, shape: toolShape, what: "tool", out: root.out}
		t := &tool{id: o.text("id"), node: value}
		if i := slices.Index(n.Items, value); i >= 0 {
			t.entry = text.ItemEntry(items, i)
		}
		if key != nil {
			t.id, t.entry = key.Text(), n.Entry(key.Value)
		} else if t.id.Value == "" {
			t.id = o.text("name")
		}
		if t.id.Value == "" {
			o.out.Errorf(CodeToolInvalid, firstKey(value), `Add "id": "name".`, "The tool has no \"id\".")
			continue
		}
		t.span = t.id.Span
		if i := slices.IndexFunc(d.tools, func(other *tool) bool { return other.id.Value == t.id.Value }); i >= 0 {
			o.out.Errorf(CodeDuplicateTool, t.span, "Rename one of them.", "Duplicate tool %q.", t.id.Value).
				Relate(d.tools[i].span, "first defined here")
			continue
		}
		d.tools = append(d.tools, t)
	}
}

// readFlow parses the flow without its rules. References to agents that do not exist are reported and removed.
func (d *document) readFlow(flow *object) {
	start, entry := flow.text("start"), flow.text("entry_agent")
	if d.entry = entry; entry.Value == "" {
		d.entry = start
	}
	if start.Value != "" && entry.Value != "" && start.Value != entry.Value {
		flow.out.Errorf(CodeTwoEntries, entry.Span, "Keep one of the two.",
			"\"entry_agent\" is %q, but \"start\" is %q.", entry.Value, start.Value).Relate(start.Span, "the other one")
	}
	known := d.agentIDs()
	switch {
	case len(d.agents) == 0:
	case d.entry.Value == "":
		found := flow.out.Errorf(CodeMissingEntry, firstKey(flow.node), fmt.Sprintf("Add \"start\": %q.", known[0]),
			"The flow has no starting agent.")
		if name := strconv.Quote(known[0]); json.Valid([]byte(name)) {
			found.AddEntry(flow.node.PlaceFor("start"), "start", name)
		}
	case !slices.Contains(known, d.entry.Value):
		d.undefined(CodeInvalidEntry, d.entry, "The flow starts with agent", flow.out)
		d.entry = text.Text{}
	}
	d.variables = flow.optional("variables")
	if most := flow.number("max_steps"); most > 0 {
		d.maxSteps = &ir.Limit{Max: int64(most), Span: flow.node.Get("max_steps").Span}
	}
	handling := flow.inner("error_handling", "error handling")
	if n := handling.get("retry"); n != nil {
		if times, ok := integer(n); ok && times >= 0 {
			d.retries = &times
		} else {
			handling.wrong("retry", n, "a whole number")
		}
	}
	if d.fallback = handling.text("fallback_agent"); d.fallback.Value != "" &&
		!slices.Contains(known, d.fallback.Value) {
		d.undefined(CodeRuleUnknownTo, d.fallback, "The fallback is agent", handling.out)
		d.fallback = text.Text{}
	}
	handling.done()
}

// agentIDs returns the IDs of all agents, in file order.
func (d *document) agentIDs() []string {
	return xslices.Map(d.agents, func(a *agent) string { return a.id.Value })
}

// undefined reports a reference to an agent that is not defined. Its help has the nearest name, or all names.
func (d *document) undefined(code diag.Code, ref text.Text, refers string, out *diag.List) {
	help := fmt.Sprintf("The agents are %s.", listed(d.agentIDs()))
	out.Errorf(code, ref.Span, help, "%s %q, which is not defined.", refers, ref.Value).
		SuggestNear(ref.Value, d.agentIDs())
}

// readRules parses the rules of any generation, below the flow or beside it.
func (d *document) readRules(root, flow *object) {
	logic := flow.get("logic")
	if logic == nil {
		logic = root.get("logic")
	}
	if logic == nil {
		return
	}
	if logic.Kind != text.Map && logic.Kind != text.List {
		flow.wrong("logic", logic, "an object or a list of rules")
		return
	}
	for _, item := range logic.Items {
		d.readRule(root, nil, item)
	}
	for _, p := range logic.Pairs {
		if p.Value.Kind != text.List {
			root.out.Errorf(CodeInvalidRule, p.Key.Span, `Use a list: [{"if": "…", "then": "…"}].`,
				"The rules of the agent are %s, not a list.", p.Value.Kind)
			continue
		}
		for _, item := range p.Value.Items {
			d.readRule(root, p.Key, item)
		}
	}
}

// readRule parses one rule. from is the key of the agent's list, or nil if the rule names its agent. A rule without a
// valid agent or target is reported and left out.
func (d *document) readRule(root *object, from, item *text.Node) {
	if item.Kind != text.Map {
		root.out.Errorf(CodeInvalidRule, head(item),
			`Use an object such as {"if": "output.ok == true", "then": "next"}.`, "The rule is %s, not an object.",
			item.Kind)
		return
	}
	o := object{node: item, shape: ruleShape, what: "rule", out: root.out}
	r := &rule{id: o.text("id").Value, from: o.text("from"), span: firstKey(item), about: o.text("description").Value}
	either := func(a, b string) (text.Text, bool) {
		return cmp.Or(o.text(a), o.text(b)), item.Get(a) != nil || item.Get(b) != nil
	}
	var hasTo, hasCondition bool
	r.to, hasTo = either("to", "then")
	for _, key := range []string{"condition", "if"} {
		if n := o.get(key); n != nil && (n.Kind == text.Int || n.Kind == text.Float || n.Kind >= text.List) {
			o.wrong(key, n, "a string")
			r.condition, hasCondition = text.Text{Value: "false", Span: n.Span}, true
		}
	}
	if !hasCondition {
		r.condition, hasCondition = either("condition", "if")
	}
	if from != nil {
		r.from = from.Text()
	}
	owner := o.text("decisionOwner")
	switch {
	case strings.EqualFold(owner.Value, "human"):
		r.human = true
	case owner.Value != "" && !slices.Contains([]string{"ai", "agent", "system", "auto", "model"},
		strings.ToLower(owner.Value)):
		o.out.Warnf(CodeBadValue, owner.Span, "Use human, or remove it.",
			"\"decisionOwner\" is %q, but only human has an effect.", owner.Value).
			RemoveEntry("decisionOwner", o.node.Entry("decisionOwner"))
	}
	o.done()
	if r.id == "" {
		r.id = fmt.Sprintf("rule %d", 1+len(slices.DeleteFunc(slices.Clone(d.rules),
			func(other *rule) bool { return other.from.Value != r.from.Value })))
	}
	known := d.agentIDs()
	switch {
	case r.from.Value == "":
		o.out.Errorf(CodeRuleNoFrom, r.span, "Add \"from\" with an agent's id.", "Rule %q has no agent.", r.id)
		return
	case !slices.Contains(known, r.from.Value):
		d.undefined(CodeRuleUnknownFrom, r.from, "The rule belongs to agent", o.out)
		return
	}
	switch {
	case slices.Contains(known, r.to.Value):
	case r.to.Value == "" || strings.EqualFold(r.to.Value, "end"):
		if !hasTo {
			o.out.Notef(CodeRuleNoTo, r.span, "Add \"to\" with an agent's id, or \"end\" to end the flow.",
				"Rule %q has no target, so the flow ends if it matches.", r.id)
		}
		r.to.Value = ""
	default:
		d.undefined(CodeRuleUnknownTo, r.to, "The rule leads to agent", o.out)
		return
	}
	if !hasCondition || strings.TrimSpace(r.condition.Value) == "" {
		found := o.out.Warnf(CodeRuleNoCondition, r.span, "Use \"always\" if this is intended.",
			"Rule %q has no condition, so it always matches.", r.id)
		switch {
		case hasCondition && r.condition.Value == "" && !r.condition.Span.IsZero():
			found.WriteValue(r.condition.Span, `"always"`)
		case o.node.Key("condition") != nil || o.node.Key("if") != nil:
		case o.node.Key("then") != nil:
			found.AddEntry(o.node.Entry("then"), "if", `"always"`)
		default:
			found.AddEntry(o.node.PlaceFor("condition"), "condition", `"always"`)
		}
	}
	d.rules = append(d.rules, r)
}

// readMemory parses whether agents have a notebook that persists across runs.
func (d *document) readMemory(root *object) {
	memory := root.inner("memory", "memory")
	if n := memory.get("enabled"); n != nil {
		if n.Kind != text.Bool {
			memory.wrong("enabled", n, "a boolean")
		}
		d.memory = n.Value == "true"
	}
	memory.done()
}
