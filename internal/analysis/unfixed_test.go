package analysis_test

import (
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// exception is a code whose diagnostics have no fix, or not everywhere, although their help seems to name a text.
type exception struct {
	code diag.Code
	help string // how it begins, perhaps with … for any text; empty for all diagnostics with this code
}

// is reports whether the exception is for a diagnostic.
func (e exception) is(d *diag.Diagnostic) bool {
	start, later, _ := strings.Cut(e.help, "…")
	rest, ok := strings.CutPrefix(d.Help, start)
	return d.Code == e.code && ok && strings.Contains(rest, later)
}

// unfixed are the exceptions, each with its reason.
var unfixed = []exception{
	// Only the author knows the value that is missing or wrong: the text names only the key, or the form.
	{"AF001", "Add"},
	{"AF002", "Write description: and the string after it."},
	{"AF003", "Use a positive number"},
	{"AF003", "Write …: 0 or more"},
	{"AF003", "Write …: 1 or more"},
	{"AF008", "Use letters"},
	{"AF011", ""},
	{"AF023", "Use lines of"},
	{"AF043", "Add \"fallback\" with"},
	{"AF044", ""},
	{"AF046", ""},
	{"AF047", ""},
	{"AF060", "Add a ```bundle"},
	{"AF062", ""},
	{"AF064", ""},
	{"AF067", "Add \"roles\""},
	{"AF067", "Use a shorter"},
	{"AF067", "Use letters"},
	{"AF071", ""},
	{"AF082", ""},
	{"AFILE001", ""},
	{"AFILE004", ""},
	{"AFILE009", ""},
	{"AFILE012", ""},
	{"AGENT_INVALID", ""},
	{"AGENT_MISSING_ID", ""},
	{"AGENT_MODEL_INCOMPLETE", ""},
	{"AWF001", "Add a line with"},
	{"AWF010", ""},
	{"EXPR006", ""},
	{"INVALID_PROJECT", ""},
	{"LOGIC_MISSING_FROM", ""},
	{"LOGIC_MISSING_TO", ""},
	{"NOF002", ""},
	{"NOF003", ""},
	{"NOF006", ""},
	{"NOF007", ""},
	{"STEP002", ""},
	{"WF024", "Add"}, // the schema of the property
	// The text may be one of several, and nothing says which.
	{"AFILE013", ""},
	{"AIFLOW_BAD_VALUE", "Use json"},
	{"AF041", "Use both brackets"}, // the list is an example
	{"EXPR004", ""},                // a backslash, or another escape
	{"EXPR020", ""},                // a condition that always holds may be a slip
	{"TOOL_INVALID", ""},
	{"WF026", ""},
	{"WF027", ""}, // the value that the reply is compared with, or what is declared about it, may be wrong instead
	{"YAML006", "Put …, as before the key above"},
	{"YAML006", "Put …spaces or more before"},
	{"YAML006", "Remove the spaces before it, or"},
	{"YAML007", "Put the value in quotes: \"?"}, // the text may belong to the value
	{"YAML007", "Put the value in quotes: \"|"},
	{"YAML007", "Put the whole value in quotes"},
	{"YAML007", "Remove it, or"},
	{"YAML010", ""},
	{"YAML011", ""},
	{"YAML013", ""}, // without !, a condition has the opposite meaning
	{"YAML016", ""},
	{"YAML018", "Write …; or indent the line"}, // the line may continue the text above
	{"YAML018", "Write … and its value."},
	// It is not certain where the text belongs.
	{"AF015", ""},
	{"YAML004", ""}, // where a text or list ends is a guess, and the opening mark may be the mistake
	{"YAML005", ""},
	{"AIFLOW_NOT_EXHAUSTIVE", ""},
	{"AWF006", ""},
	{"EXPR007", ""},
	{"EXPR023", ""},
	{"JSON004", ""},
	{"MD002", ""},
	{"MMD002", ""},
	{"MMD004", ""},
	{"NOF018", "Add"}, // the place of an agent in the list is the order in which agents run
	{"NOF029", ""},
	{"NOF031", ""},
	{"NOF033", ""},
	{"NOF036", ""},
	{"WF023", ""}, // the step is not known
	{"YAML003", "Put the value in quotes: d: \"three: four #"}, // some values continue below, or have a comment
	{"YAML003", "Put the value in quotes: description: \"Reads: files\""},
	{"YAML003", "Put the whole value in quotes"},
	// The edit would delete the author's work or allow more than before.
	{"AF020", ""},
	{"AF048", ""}, // the other keys may be needed in an earlier step
	{"AF061", ""},
	{"AFILE014", ""}, // it is removed only for the sake of other programs
	{"FMT003", ""},
	{"UNREACHABLE_AGENT", ""},
	{"WF013", "Add"},    // only the author knows the step
	{"WF014", "Add"},    // only the author may allow a tool
	{"WF014", "Remove"}, // without the denylist, the tool may be allowed
	{"YAML009", ""},
	// The edit would change what other places mean, or the kind of the whole file.
	{"AF008", "Use \""}, // other places refer to the id
	{"AF009", "Use"},    // other places refer to the id
	{"AF030", ""},       // the file becomes a workflow
	{"AF033", "Add the heading \"## Agents\""}, // blocks of other kinds follow, which would be under the heading
	{"AF033", "Add the heading \"## Bundles\""},
	{"AF033", "Add the heading \"## Runtime\""},
	{"AF033", "Add the heading \"## Steps\""},
	{"AWF019", "Add the transition"},
	{"NOF026", ""},
	{"PY002", ""},
	// The name of a file or folder changes, and an edit changes only texts.
	{"AF025", ""},
	{"AFILE015", ""},
	{"NOF009", ""},
	{"PRJ001", ""},
	// There is no other key or entry beside it, so what remains would not be a map or a list.
	{"AF012", ""},
	{"AF014", "Add a value after allowlist:"},
	{"AF014", "Add a value after max_steps:"},
	{"AF014", "Add a value after schema_ref:"},
	{"AF024", "Add \"name: empty-frontmatter\""},
	{"AWF017", ""},
	{"TOOL_UNUSED", ""},
}

// counted are the exceptions whose help other diagnostics with a fix have, too, with the number of samples without one.
var counted = map[exception]int{
	{"AF012", ""}:       2,
	{"AWF017", ""}:      1,
	{"TOOL_UNUSED", ""}: 2,
	{"AF009", "Use"}:    3,
	{"AF033", "Add the heading \"## Runtime\""}: 1,
	{"AF033", "Add the heading \"## Steps\""}:   3,
}
