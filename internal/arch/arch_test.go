package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/espalier-run/espalier"

// layers says what each package may import, besides what those may import in
// turn. Everything meets in source, diag and ir; formats and step kinds never
// see each other, so that each can be read, tested and replaced alone.
var layers = map[string][]string{
	"internal/source": {},
	"internal/schema": {},
	// Every package may import it.
	"internal/lazyregexp": {},
	"internal/xslices":    {},
	"internal/xmaps":      {},
	// When cron expressions fire: shown now, acted upon by the server.
	"internal/schedule": {},
	"internal/diag":     {"internal/source"},
	"internal/expr":     {"internal/diag", "internal/shell", "internal/jsonfast"},
	"internal/shell":    {},
	// Programs and facts are written and read in one way.
	"internal/jsonfast": {},
	"internal/ir":       {"internal/expr", "internal/jsonfast"},
	"internal/text":     {"internal/diag"},
	// Records and the files that steps keep for audits are redacted in one way.
	"internal/redact": {"internal/ir"},
	// Formats analyze the code of nodes, a step kind runs it.
	"internal/python":     {"internal/diag", "internal/jsonfast"},
	"internal/cpython":    {"internal/private"},
	"internal/explain":    {},
	"internal/auditevent": {},
	"internal/scaffold":   {"internal/diag"},
	"internal/project":    {"internal/diag"},
	// Steps, tools and models that are programs all run commands.
	"internal/process": {},
	// Only tests import these.
	"internal/npmtest":   {},
	"internal/gotest":    {},
	"internal/ir/irtest": {"internal/stepkind"},
	"internal/usertest":  {},
	// Tests and benchmarks start PostgreSQL with it.
	"internal/pgtest": {},
	// Tests start object storage with it.
	"internal/objecttest": {"internal/gotest"},
	// Tests and benchmarks start Temporal with it.
	"internal/temporaltest": {"internal/gotest"},
	// Tools and steps that fetch something from the network.
	"internal/netguard": {},
	// Hashes and comparisons go through it.
	"internal/canonical": {},
	"internal/price":     {},
	// Tasks, the engine and the command line all keep values to themselves.
	"internal/secret": {},
	"internal/config": {
		"internal/text", "internal/price", "internal/secret", "internal/schema", "internal/process", "internal/expr",
		"internal/schedule",
		// What notifications are about.
		"internal/journal",
	},
	// How workflows are generated: written by a reader of the journal and by commands.
	"internal/manifest": {"internal/protected"},
	// Folders that only their owner can change, and what a person has approved.
	"internal/private": {"internal/filelock"},
	"internal/trust":   {"internal/private"},
	// Locks that end with their process.
	"internal/filelock": {},
	// Who uses the server, and what they may do.
	"internal/identity": {"internal/private", "internal/filelock"},
	// Messages to people: mail, chat and webhooks.
	"internal/notify": {},
	// Commands write to a terminal through it alone.
	"internal/terminal": {},
	// Everything that writes files whose names a model can choose goes through it.
	"internal/protected": {},

	// Formats report paths that a run must not write.
	"internal/format": {"internal/ir", "internal/text", "internal/python", "internal/protected", "internal/auditevent"},
	// What replies must be is a question to the program: models, steps and checks all ask it.
	"internal/contract": {"internal/ir", "internal/schema"},
	// Checks ask kinds of steps without running them.
	"internal/stepkind": {"internal/contract", "internal/ir", "internal/price"},
	"internal/check":    {"internal/ir", "internal/stepkind", "internal/schedule"},
	// The kinds of steps that ship, without the code that runs them.
	"internal/stepkind/kinds": {"internal/stepkind"},
	// What ships of the language: formats and kinds of steps.
	"internal/catalog": {"internal/format", "internal/stepkind/kinds"},

	"internal/tool": {
		"internal/protected", "internal/contract", "internal/ir", "internal/journal", "internal/schema",
		"internal/process", "internal/netguard", "internal/canonical", "internal/private",
	},
	// The scripted model reads a file with positions, which also answers for tools.
	"internal/provider": {
		"internal/contract", "internal/ir", "internal/journal", "internal/price", "internal/text", "internal/tool",
		"internal/schema", "internal/process",
	},
	"internal/step": {
		"internal/redact", "internal/stepkind/kinds", "internal/protected", "internal/secret", "internal/provider",
		"internal/tool",
		"internal/journal", "internal/schema", "internal/process", "internal/netguard", "internal/cpython",
		"internal/private",
	},

	// Compiles and checks files, for commands, servers and editors.
	"internal/analysis": {"internal/check", "internal/format", "internal/project"},

	"internal/journal": {"internal/ir", "internal/canonical", "internal/filelock"},
	// When schedules fire, and the ids of the runs that they start.
	"internal/trigger":       {"internal/journal", "internal/schedule"},
	"internal/plan":          {"internal/ir", "internal/journal"},
	"internal/plan/plantest": {"internal/plan"},
	// A server may keep the time of schedules.
	"internal/engine": {"internal/plan", "internal/step", "internal/journal", "internal/schedule"},
	// The audit and the console tell what budgets had left and when a run waited:
	// questions to the one fold that everybody uses. Money is written in one way.
	"internal/report": {
		"internal/redact", "internal/journal", "internal/ir", "internal/plan", "internal/manifest",
		"internal/price", "internal/secret", "internal/auditevent",
	},
	"internal/graph": {"internal/ir", "internal/plan"},

	// The list of what ships, and what the configuration makes of it.
	"internal/registry": {
		"internal/catalog", "internal/format", "internal/step", "internal/provider", "internal/tool",
		"internal/journal", "internal/report", "internal/engine", "internal/config", "internal/price",
		"internal/secret", "internal/trust",
	},
	// The operations of the product. It reads records through the renderers below report.
	"internal/app": {
		"internal/catalog", "internal/registry", "internal/engine", "internal/report", "internal/check",
		"internal/analysis", "internal/format", "internal/graph",
		"internal/project", "internal/config", "internal/price", "internal/secret", "internal/manifest",
		"internal/trust",
		"internal/trigger", "internal/notify", "internal/identity", "internal/redact",
	},
	// Entry points decode a request, call app and render the result. They do not import each other.
	"internal/cli": {
		"internal/app", "internal/api", "internal/explain", "internal/terminal", "internal/identity",
		"internal/client", "internal/scaffold",
	},
	"internal/server": {"internal/app", "internal/api", "internal/identity", "internal/terminal"},
	"internal/web": {
		"internal/app", "internal/api", "internal/identity", "internal/explain", "internal/terminal", "examples",
	},
	"internal/mcpserver": {"internal/app", "internal/api", "internal/explain", "internal/terminal"},
	"examples":           {},
	// Asks the server of a project what commands ask app otherwise.
	"internal/client": {"internal/app", "internal/api", "internal/identity"},
	// The JSON forms that entry points share.
	"internal/api":  {"internal/app"},
	"cmd/espalier":  {"internal/cli", "internal/server", "internal/web", "internal/mcpserver", "internal/process"},
	"internal/arch": {},
	// Measures from outside, the layout alone, and runs put together as they are in the product.
	"internal/bench":     {"internal/graph", "internal/registry", "internal/pgtest", "internal/temporaltest"},
	"internal/soak":      {"internal/pgtest", "internal/temporaltest"},
	"internal/lines":     {},
	"internal/reference": {"internal/cli", "internal/config", "internal/explain"},
}

// seams are the packages whose subfolders are leaves: implementations of one
// interface. A leaf may import its seam and what the seam may import; only
// the lists import leaves.
var seams = []string{
	"internal/format", "internal/step", "internal/provider", "internal/tool", "internal/journal", "internal/report",
	"internal/engine",
}

// lists are the packages that list what ships.
var lists = []string{"internal/catalog", "internal/registry"}

// shared are folders below a seam that are no implementations of it but what
// several of them need.
var shared = map[string]string{
	// Stores tell which process owns a run, and pass appends to the one that commits them.
	"internal/journal/owner": "internal/journal",
	"internal/journal/queue": "internal/journal",
	// What all providers that use HTTP share.
	"internal/provider/httptransport": "internal/provider",
	// Agents, transforms and critics hold conversations with a model.
	"internal/step/chat": "internal/step",
	// Commands, scripts and hooks run in the same way.
	"internal/step/exec": "internal/step",
}

// responses are the packages with the types that requests and responses of app are made of, and their texts.
var responses = []string{
	"internal/api", "internal/app", "internal/catalog", "internal/diag", "internal/explain", "internal/graph",
	"internal/identity", "internal/ir", "internal/journal", "internal/report", "internal/source", "internal/terminal",
}

// entryPoints has the packages that entry points may import besides responses. Everything else they reach through app.
var entryPoints = map[string][]string{
	"internal/cli": {
		// What belongs to a terminal and to this machine.
		"internal/client", "internal/private", "internal/process", "internal/scaffold", "internal/shell",
		"internal/trust",
		// Types that commands print.
		"internal/check", "internal/config", "internal/contract", "internal/expr", "internal/format",
		"internal/manifest", "internal/price", "internal/project", "internal/provider", "internal/redact",
		"internal/schedule", "internal/stepkind",
	},
	"internal/server":    nil,
	"internal/mcpserver": nil,
	"internal/web": {
		"internal/check", "internal/contract", "internal/price", "internal/redact", "internal/schedule",
		"internal/stepkind",
	},
	"internal/api":    {"internal/price"},
	"internal/client": nil,
}

// slow are libraries that only tests may import, because of what they cost
// every start of the program.
var slow = map[string]string{
	"github.com/santhosh-tekuri/jsonschema/v6": "it compiles all meta-schemas when the program starts; use " +
		"internal/schema",
}

func TestImportsPointDown(t *testing.T) {
	root := moduleRoot(t)
	imports := imports(t, root)
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		for _, to := range slices.Sorted(maps.Keys(imports[from])) {
			if why := objection(from, to); ours(to) && why != "" {
				t.Errorf("%s imports %s (%s): %s", from, to, imports[from][to], why)
			}
		}
	}
}

func ours(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/") || strings.HasPrefix(pkg, "cmd/")
}

// objection says why from must not import to; "" when it may.
func objection(from, to string) string {
	home, fromLeaf := layerOf(from)
	target, toLeaf := layerOf(to)
	switch {
	case to == "internal/lazyregexp", to == "internal/xslices", to == "internal/xmaps":
		return ""
	case strings.HasSuffix(from, "test") && strings.HasSuffix(to, "test") && layers[target] != nil:
		return "" // packages for tests
	case layers[home] == nil:
		return fmt.Sprintf("%s has no place in the layers yet; give it one in this test and in docs/architecture.md",
			from)
	case layers[target] == nil:
		return fmt.Sprintf("%s has no place in the layers yet; give it one in this test and in docs/architecture.md",
			to)
	case toLeaf && target == "internal/report" && (from == "internal/app" || isEntryPoint(from)):
		return "" // a renderer
	case isEntryPoint(from) && !slices.Contains(responses, to) && !slices.Contains(entryPoints[from], to):
		return "entry points call app, so that all of them do the same"
	case toLeaf && !slices.Contains(lists, from) && (shared[to] == "" || shared[to] != home || !fromLeaf):
		return "only catalog and registry import leaves; put what both need into the seam, " + target
	case fromLeaf && target == home || shared[to] == home && home != "":
		return ""
	case slices.Contains(lists, from) && toLeaf && slices.Contains(layers[from], target):
		return ""
	case !reach(home)[target]:
		may := slices.Sorted(maps.Keys(reach(home)))
		return fmt.Sprintf("%s may import only %s; otherwise lower layers come to depend on higher ones", home,
			strings.Join(may, ", "))
	}
	return ""
}

// isEntryPoint reports whether a package is an entry point.
func isEntryPoint(pkg string) bool {
	_, is := entryPoints[pkg]
	return is
}

// layerOf returns the entry of the table that a package falls under, and
// whether it is a leaf of it.
func layerOf(pkg string) (layer string, leaf bool) {
	if dir := path.Dir(pkg); slices.Contains(seams, dir) {
		return dir, true
	}
	return pkg, false
}

// reach is everything that a layer may import, directly or through others.
func reach(layer string) map[string]bool {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(at string) {
		for _, next := range layers[at] {
			if !seen[next] {
				seen[next] = true
				visit(next)
			}
		}
	}
	visit(layer)
	return seen
}

// imports reads the import clauses of every file that is not a test, from the
// files themselves: package → imported package → where. Our own packages go by
// their path in the module.
func imports(t *testing.T, root string) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		if out[pkg] == nil {
			out[pkg] = map[string]string{}
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			// Only tests import suites.
			if why := slow[imported]; why != "" && !strings.HasSuffix(pkg, "test") {
				t.Errorf("%s imports %s: %s", filepath.ToSlash(rel), imported, why)
			}
			out[pkg][strings.TrimPrefix(imported, module+"/")] = filepath.ToSlash(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 5 {
		t.Fatalf("found only %d packages below %s", len(out), root)
	}
	return out
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("there is no go.mod above this test")
		}
		dir = up
	}
}

// The rule itself is tested, because a table that forbids nothing passes too.
func TestForbiddenImportsAreFound(t *testing.T) {
	for _, c := range []struct {
		from, to string
		allowed  bool
	}{
		{"internal/diag", "internal/source", true},
		{"internal/source", "internal/diag", false},
		{"internal/ir", "internal/source", true},
		{"internal/ir", "internal/check", false},
		{"internal/format", "internal/ir", true},
		{"internal/format", "internal/step", false},
		{"internal/format/agentflow", "internal/format", true},
		{"internal/format/agentflow", "internal/text", true},
		{"internal/format/agentflow", "internal/format/awf", false},
		{"internal/format/agentflow", "internal/step/agent", false},
		{"internal/format/agentflow", "internal/check", false},
		{"internal/format", "internal/format/agentflow", false},
		{"internal/step/agent", "internal/step", true},
		{"internal/step/agent", "internal/project", false},
		{"internal/check", "internal/stepkind", true},
		{"internal/check", "internal/step", false},
		{"internal/stepkind", "internal/step", false},
		{"internal/check", "internal/step/agent", false},
		{"internal/check", "internal/stepkind/kinds", false},
		{"internal/stepkind", "internal/stepkind/kinds", false},
		{"internal/stepkind/kinds", "internal/step", false},
		{"internal/step/agent", "internal/stepkind/kinds", true},
		{"internal/catalog", "internal/format/agentflow", true},
		{"internal/catalog", "internal/step/agent", false},
		{"internal/registry", "internal/format/agentflow", true},
		{"internal/registry", "internal/step/agent", true},
		{"internal/registry", "internal/cli", false},
		{"internal/app", "internal/registry", true},
		{"internal/app", "internal/report/transcript", true},
		{"internal/app", "internal/step/artifact", false},
		{"internal/app", "internal/cli", false},
		{"internal/registry", "internal/app", false},
		{"internal/cli", "internal/app", true},
		{"internal/cli", "internal/registry", false},
		{"internal/cli", "internal/engine", false},
		{"internal/cli", "internal/plan", false},
		{"internal/cli", "internal/step", false},
		{"internal/web", "internal/tool", false},
		{"internal/web", "internal/process", false},
		{"internal/cli", "internal/process", true},
		{"internal/server", "internal/analysis", false},
		{"internal/cli", "internal/journal", true},
		{"internal/cli", "internal/journal/sqlite", false},
		{"internal/cli", "internal/report/console", true},
		{"internal/web", "internal/cli", false},
		{"internal/cli", "internal/format/agentflow", false},
		{"internal/project", "internal/format", false},
		{"cmd/espalier", "internal/cli", true},
		{"internal/plan", "internal/engine", false},
		{"internal/registry", "internal/engine/embedded", true},
		{"internal/engine/embedded", "internal/engine", true},
		{"internal/engine", "internal/engine/embedded", false},
		{"internal/cli", "internal/engine/embedded", false},
		{"internal/journal/sqlite", "internal/journal/queue", true},
		{"internal/journal/sqlite", "internal/journal/memorytest", false},
		{"internal/journal", "internal/journal/queue", false},
		{"internal/engine", "internal/journal/queue", false},
		{"internal/newcomer", "internal/source", false},
	} {
		if why := objection(c.from, c.to); (why == "") != c.allowed {
			t.Errorf("%s → %s: got %q, want allowed %t", c.from, c.to, why, c.allowed)
		}
	}
}

// runtime and libraries are what compiling and checking a workflow must not
// depend on, besides the stores below internal/journal.
var (
	runtime   = []string{"internal/process", "internal/provider", "internal/tool", "internal/step", "internal/engine"}
	libraries = []string{"github.com/anthropics/", "github.com/openai/", "os/exec", "net/http"}
)

// Editors and servers check workflows without the code that runs them. The test
// follows the imports of each package that compiles or checks, down to the
// libraries of providers.
func TestCheckingDependsOnNothingThatRuns(t *testing.T) {
	root := moduleRoot(t)
	all := imports(t, root)
	compile := []string{
		"internal/analysis", "internal/catalog", "internal/check", "internal/contract", "internal/graph",
		"internal/stepkind", "internal/stepkind/kinds",
	}
	for pkg := range all {
		if home, _ := layerOf(pkg); home == "internal/format" && pkg != "internal/format/formattest" {
			compile = append(compile, pkg)
		}
	}
	for _, from := range compile {
		if all[from] == nil {
			t.Errorf("%s is not there", from)
		}
		seen := map[string]bool{}
		var visit func(pkg, chain string)
		visit = func(pkg, chain string) {
			if seen[pkg] {
				return
			}
			seen[pkg] = true
			home, leaf := layerOf(pkg)
			store := leaf && home == "internal/journal"
			if store || slices.Contains(runtime, home) || slices.ContainsFunc(libraries, func(l string) bool {
				return strings.HasPrefix(pkg, l)
			}) {
				t.Errorf("%s depends on %s: %s", from, pkg, chain)
				return
			}
			for to := range all[pkg] {
				visit(to, chain+" → "+to)
			}
		}
		visit(from, from)
	}
	if !strings.Contains(fmt.Sprint(all["internal/provider/anthropic"]), "anthropic-sdk-go") {
		t.Error("the test does not see the libraries of providers")
	}
}

// The tour has one line for each package, and none for what is not there.
func TestTourNamesEveryPackageOnce(t *testing.T) {
	root := moduleRoot(t)
	tour, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ").FindAllStringSubmatch(string(tour), -1) {
		lines[row[1]]++
	}
	folders, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if n := lines[f.Name()]; n != 1 {
			t.Errorf("docs/architecture.md has %d lines about %s", n, f.Name())
		}
		delete(lines, f.Name())
	}
	for name := range lines {
		t.Errorf("docs/architecture.md tells of %s, which is not there", name)
	}
}

// formatWords match the names of formats in identifiers and strings.
var formatWords = regexp.MustCompile(`(?i:awf|agent_?flow|agent_?file|aiflow)|\bnof\b|NOF`)

// agnostic are the packages that work on programs and facts of every format.
// What a format needs is a property of the program, named for what it does.
var agnostic = []string{
	"internal/plan", "internal/engine", "internal/journal", "internal/report", "internal/check",
	"internal/contract", "internal/graph", "internal/api", "internal/server", "internal/web", "internal/client",
	"internal/tool", "internal/provider", "internal/stepkind", "internal/step", "internal/mcpserver",
	"internal/config", "internal/protected", "internal/manifest",
}

// namingFiles are the files of these packages that name a format, as docs/architecture.md lists them with the reasons.
var namingFiles = []string{
	"internal/step/artifact/stored.go", "internal/step/command/run.go", "internal/step/fill.go",
	"internal/config/models.go", "internal/config/triggers.go", "internal/protected/names.go",
}

// exporters may name a format: they write the records of the reference program
// of one format. The names of span attributes are those of a specification.
var exporters = []string{
	"internal/report/awfaudit", "internal/report/flowtrace", "internal/report/execution",
	"internal/report/otel/names.go",
}

// nameless are the packages that must not compare with the name of a format: what differs is in format.Conventions.
// Their texts for people may name formats.
var nameless = []string{"internal/app", "internal/registry", "internal/cli", "internal/project"}

// TestNoFormatNamesRightOfTheProgram parses the agnostic packages and rejects
// identifiers, imports and string literals that name a format. Comments may
// refer to a specification. In nameless packages it rejects literals that are
// the name of a format.
func TestNoFormatNamesRightOfTheProgram(t *testing.T) {
	root := moduleRoot(t)
	reject := func(pkg, advice string, named func(*ast.File) []ast.Node) {
		dir := filepath.Join(root, filepath.FromSlash(pkg))
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			if slices.Contains(exporters, path.Dir(rel)) || slices.Contains(exporters, rel) ||
				slices.Contains(namingFiles, rel) ||
				strings.HasSuffix(path.Dir(rel), "test") { // Only tests import suites.
				return nil
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, found := range named(file) {
				at := fset.Position(found.Pos())
				t.Errorf("%s:%d: a format is named here; make it a property of %s", rel, at.Line, advice)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, pkg := range agnostic {
		reject(pkg, "the program", formatNames)
	}
	for _, pkg := range nameless {
		reject(pkg, "the format, in format.Conventions", formatLiterals)
	}
}

// formatLiterals returns the string literals of a file that are the name of a format.
func formatLiterals(file *ast.File) (found []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if ok && slices.Contains([]string{`"agent-flow"`, `"awf"`, `"nof"`, `"agentfile"`, `"aiflow"`}, lit.Value) {
			found = append(found, lit)
		}
		return true
	})
	return found
}

// formatNames returns the identifiers and literals of a file that name a format.
func formatNames(file *ast.File) (found []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Ident:
			if formatWords.MatchString(x.Name) {
				found = append(found, x)
			}
		case *ast.BasicLit:
			if x.Kind == token.STRING && formatWords.MatchString(x.Value) {
				found = append(found, x)
			}
		}
		return true
	})
	return found
}

// The rule itself is tested: a pattern that matches nothing passes, too.
func TestFormatNamesAreFound(t *testing.T) {
	for code, want := range map[string]int{
		`package p; var x = expr.AWFLenient`:           1,
		`package p; import "a/internal/format/nof"`:    1,
		`package p; const f = "agentfile"`:             1,
		`package p; func agentFlowReason() {}`:         1,
		`package p; var isAIFLOW, isNOF bool`:          2,
		`package p; var enoFile, reportOffset = 1, 2`:  0,
		"package p\n// the Agent Flow specification\n": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(formatNames(file)); got != want {
			t.Errorf("%s: found %d names, want %d", code, got, want)
		}
	}
}

// TestStepsActOnTheMachineThroughOneInterface holds that step kinds start programs through
// step.Machine alone, which a simulated run replaces, and that what tools, steps
// and promotions write goes through the rule about names.
func TestStepsActOnTheMachineThroughOneInterface(t *testing.T) {
	root := moduleRoot(t)
	starts := regexp.MustCompile(`\b(process\.(Run|Start|NewLaunch)|exec\.(Command|CommandContext|LookPath)|os\.StartProcess|netguard\.Client|http\.(Get|Post|DefaultClient))\(?`)
	writes := regexp.MustCompile(`\b(os|root|dir|folder)\.(WriteFile|Create|OpenFile|Rename|Symlink|Link)\(`)
	for _, rule := range []struct {
		below   string
		found   *regexp.Regexp
		allowed []string
	}{
		{"internal/step", starts, []string{"internal/step/machine.go"}},
		{"internal/step", writes, nil},
		// It writes manifest.json and .gitignore.
		{"internal/manifest", writes, []string{"internal/manifest/manifest.go"}},
		// The file tools ask before each step of a path; notes have names of our own making.
		{"internal/tool", writes, []string{"internal/tool/builtin/place.go", "internal/tool/notebook/notebook.go"}},
	} {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(rule.below)),
			func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
					return err
				}
				rel, err := filepath.Rel(root, name)
				if err != nil {
					return err
				}
				raw, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				found := rule.found.Find(raw)
				if found != nil && !slices.Contains(rule.allowed, filepath.ToSlash(rel)) {
					t.Errorf("%s has %s: use step.Machine, or internal/protected", rel, found)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
}
