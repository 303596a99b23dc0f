package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kindsOfChanges are the headings of a version, in the order of Keep a Changelog.
var kindsOfChanges = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

var (
	versionHeading = regexp.MustCompile(`^## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})$`)
	versionLink    = regexp.MustCompile(`(?m)^\[([^\]]+)\]: https://\S+$`)
)

// The changelog has the form of Keep a Changelog: the newest version first, known headings in their order, every entry
// once, and a link for each version.
func TestChangelogHasTheForm(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(moduleRoot(t), "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range changelogProblems(string(raw)) {
		t.Errorf("CHANGELOG.md: %s", problem)
	}
}

func TestChangelogProblemsAreFound(t *testing.T) {
	const next = "## [Unreleased]\n\n"
	const first = "\n## [0.1.0] - 2026-01-01\n\n### Added\n\n- A.\n"
	for above, want := range map[string]string{
		next: "",
		next + "### Added\n\n- B.\n\n### Security\n\n- C.\n": "",
		"":                                 "Unreleased is not the first version",
		next + "## [0.0.9] - 2026-02-01\n": "0.1.0 is below an older version",
		next + "## [0.2.0] - 2025-01-01\n": "0.1.0 is younger than the version above it",
		next + "## 0.2.0\n":                "this is not the heading of a version: ## 0.2.0",
		next + "### News\n\n- B.\n":        "Unreleased has News where no such heading belongs",
		next + "### Fixed\n\n- B.\n\n### Added\n\n- C.\n": "Unreleased has Added where no such heading belongs",
		next + "### Fixed\n\n- B.\n\n### Fixed\n\n- C.\n": "Unreleased has Fixed where no such heading belongs",
		next + "### Fixed\n":                              "Fixed of Unreleased has no entries",
		next + "### Fixed\n\n- A\n  b.\n- A b.\n":         `Unreleased has "A b." twice`,
		next + "- B.\n":                                   `Unreleased has "B." below no heading`,
		next + "## [0.3.0] - 2026-02-01\n":                "0.3.0 has no link",
	} {
		const links = "\n[Unreleased]: https://a.example/main\n[0.2.0]: https://a.example/2\n" +
			"[0.1.0]: https://a.example/1\n[0.0.9]: https://a.example/0\n"
		if got := strings.Join(changelogProblems(above+first+links), "\n"); got != want {
			t.Errorf("%q: %q, want %q", above, got, want)
		}
	}
}

// changelogProblems returns what is wrong with the form of a changelog.
func changelogProblems(text string) []string {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	linked := map[string]bool{}
	for _, m := range versionLink.FindAllStringSubmatch(text, -1) {
		linked[m[1]] = true
	}
	version, kind, date, number := "", "", "", []int(nil)
	entries, seen := 0, map[string]bool{}
	closeKind := func() {
		if kind != "" && entries == 0 {
			problem("%s of %s has no entries", kind, version)
		}
		kind, entries = "", 0
	}
	for _, line := range paragraphs(text) {
		heading, isKind := strings.CutPrefix(line, "### ")
		entry, isEntry := strings.CutPrefix(line, "- ")
		switch {
		case strings.HasPrefix(line, "## "):
			closeKind()
			seen = map[string]bool{}
			before := version
			m := versionHeading.FindStringSubmatch(line)
			switch {
			case line == "## [Unreleased]":
				version = "Unreleased"
			case m == nil:
				problem("this is not the heading of a version: %s", line)
				continue
			default:
				version = strings.Join(m[1:4], ".")
				next := make([]int, 3)
				for i := range next {
					next[i], _ = strconv.Atoi(m[i+1])
				}
				if number != nil && slices.Compare(next, number) >= 0 {
					problem("%s is below an older version", version)
				} else if date != "" && m[4] > date {
					problem("%s is younger than the version above it", version)
				}
				number, date = next, m[4]
			}
			if (before == "") != (version == "Unreleased") {
				problem("Unreleased is not the first version")
			}
			if !linked[version] {
				problem("%s has no link", version)
			}
		case isKind:
			before := slices.Index(kindsOfChanges, kind)
			closeKind()
			if kind = heading; slices.Index(kindsOfChanges, kind) <= before {
				problem("%s has %s where no such heading belongs", version, kind)
			}
		case isEntry && kind == "":
			problem("%s has %q below no heading", version, entry)
		case isEntry:
			if entries++; seen[entry] {
				problem("%s has %q twice", version, entry)
			}
			seen[entry] = true
		}
	}
	closeKind()
	return problems
}

// paragraphs returns the lines of a text, with the lines of a list item that continue it as one.
func paragraphs(text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if more := strings.TrimLeft(line, " "); more != line && more != "" && len(out) > 0 {
			out[len(out)-1] += " " + more
			continue
		}
		out = append(out, line)
	}
	return out
}
