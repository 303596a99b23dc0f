package nof

import (
	"errors"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xmaps"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The tiers, and the price of one agent call in each, in millionths of a dollar (section 10).
const (
	opus   = "opus"
	sonnet = "sonnet"
	haiku  = "haiku"
)

// prices are the prices of one call in millionths of a dollar.
var prices = map[string]int64{opus: 15_000, sonnet: 3_000, haiku: 250}

// entry is one agent of a registry.
type entry struct {
	key, category, tier string
	// Further keys of a file in the project's registry.
	description, instructions, model string
	maxTokens                        int64
	command                          []string
	file                             *source.File
	at                               source.Span // where it is defined; zero if built in
}

// price returns the price of one call. It returns false if the tier is unknown.
func (e *entry) price() (int64, bool) {
	p, ok := prices[e.tier]
	return p, ok
}

// builtIn is the registry of Appendix A.
var builtIn = []entry{
	{key: "cost-advisor", category: "cost-optimization", tier: haiku},
	{key: "batch-optimizer", category: "cost-optimization", tier: haiku},
	{key: "thinking-budget-optimizer", category: "cost-optimization", tier: haiku},
	{key: "kg-health-monitor", category: "kg-enhancement", tier: haiku},
	{key: "relationship-suggester", category: "kg-enhancement", tier: sonnet},
	{key: "kg-completer", category: "kg-enhancement", tier: sonnet},
	{key: "workflow-orchestrator", category: "workflow-automation", tier: sonnet},
	{key: "generator-agent", category: "workflow-automation", tier: sonnet},
	{key: "progressive-assembly", category: "workflow-automation", tier: haiku},
	{key: "compound-intelligence", category: "emergent", tier: opus},
	{key: "self-healing-docs", category: "emergent", tier: haiku},
	{key: "cost-quality-frontier", category: "emergent", tier: sonnet},
	{key: "multi-model-orchestrator", category: "multi-model", tier: opus},
	{key: "gemini-delegator", category: "multi-model", tier: sonnet},
	{key: "context-engineer", category: "multi-model", tier: sonnet},
	{key: "rule-engine-agent", category: "rule-engine", tier: sonnet},
	{key: "anti-pattern-validator", category: "rule-engine", tier: haiku},
	{key: "playbook-advisor", category: "rule-engine", tier: haiku},
	{key: "rag-kg-query", category: "knowledge-retrieval", tier: sonnet},
	{key: "intent-engine", category: "knowledge-retrieval", tier: sonnet},
	{key: "refactoring-agent", category: "knowledge-retrieval", tier: sonnet},
	{key: "mcp-tool-creator", category: "mcp-tool-creator", tier: sonnet},
	{key: "embedding-engine", category: "advanced", tier: sonnet},
	{key: "citation-analyzer", category: "advanced", tier: haiku},
	{key: "gemini-compute", category: "cross-provider", tier: sonnet},
	{key: "web-research", category: "cross-provider", tier: sonnet},
	{key: "visual-report", category: "reporting", tier: haiku},
	{key: "agentic-tool-router", category: "routing", tier: sonnet},
	{key: "codegen-python", category: "codegen", tier: sonnet},
	{key: "codegen-javascript", category: "codegen", tier: sonnet},
	{key: "codegen-sql", category: "codegen", tier: haiku},
	{key: "codegen-bash", category: "codegen", tier: haiku},
	{key: "codegen-html-css", category: "codegen", tier: sonnet},
	{key: "codegen-gemini", category: "codegen", tier: sonnet},
	{key: "codegen-orchestrator", category: "codegen", tier: opus},
}

// builtInKeys returns the keys of the agents that every registry has.
func builtInKeys() []string {
	return xslices.Map(builtIn, func(e entry) string { return e.key })
}

// maxTokens is the largest max_tokens of an agent.
const maxTokens = 1 << 30

// registryFolder is the folder of the project's own agents: one Markdown file each, named after
// the key.
const registryFolder = "agents"

// find returns an agent of the project's registry, or else a built-in one. It returns nil if
// there is none.
func (d *document) find(key string, files format.Reader, out *diag.List) *entry {
	if found, ok := d.known[key]; ok {
		return found
	}
	var found *entry
	if f, err := readAgent(d.file, files, key); err != nil {
		out.Errorf(CodeRegistry, d.agentSpan(key), "Fix or remove the file.",
			"The file of agent %q cannot be read: %v.", key, err)
	} else if f != nil {
		found = parseAgent(f, key, out)
	}
	if own := xslices.FindPointer(builtIn, func(e *entry) bool { return e.key == key }); found == nil && own != nil {
		copied := *own
		found = &copied
	}
	xmaps.Set(&d.known, key, found)
	return found
}

// readAgent reads agents/KEY.md. It returns nil without an error if the file does not exist.
func readAgent(from *source.File, files format.Reader, key string) (*source.File, error) {
	if files == nil || !isKey(key) {
		return nil, nil
	}
	f, err := files.Read(from, registryFolder+"/"+key+".md")
	if ref, ok := errors.AsType[*source.RefError](err); ok && ref.Problem == source.RefMissing {
		return nil, nil
	}
	return f, err
}

// isKey reports whether a string is a valid agent key, and therefore a safe file name.
func isKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

var registryCodes = text.Codes{
	WrongType: CodeRegistry, Missing: CodeRegistry, Unknown: CodeRegistry,
	BadValue: CodeRegistry, UnknownAs: diag.Warning,
}

// parseAgent parses a file of the registry: properties in the frontmatter, instructions below.
func parseAgent(f *source.File, key string, out *diag.List) *entry {
	md := text.ParseMarkdown(f)
	*out = append(*out, md.Problems()...)
	e := &entry{
		key: key, file: f, at: f.Span(0, min(len(f.Text), 3)),
		instructions: strings.TrimSpace(f.Text[md.Body.Start:md.Body.End]),
	}
	if md.HasFrontmatter {
		node, list := text.ParseYAML(f, md.Frontmatter.Start, md.Frontmatter.End)
		*out = append(*out, list...)
		r := text.Read(node, "agent", registryCodes, out)
		r.String("name") // for readers only
		e.description, e.category, e.model = r.String("description").Value, r.String("category").Value,
			r.String("model").Value
		e.tier = r.Enum("tier", opus, sonnet, haiku).Value
		e.maxTokens, _, _ = r.Int("max_tokens", 1)
		if e.maxTokens > maxTokens {
			out.Errorf(CodeRegistry, r.Node("max_tokens").Span, "Use a smaller number.",
				"max_tokens is larger than %d.", maxTokens)
			e.maxTokens = 0
		}
		e.command = text.Values(r.Strings("command"))
		r.Done()
		if at := r.KeySpan("command"); !at.IsZero() {
			e.at = at
		}
	}
	if e.instructions == "" && e.description == "" && len(e.command) == 0 {
		out.Errorf(CodeRegistry, e.at,
			"Add instructions below the frontmatter, or \"command: [PROGRAM, ARGUMENT]\" to it.",
			"Agent %q has neither a command nor instructions.", key)
	}
	return e
}
