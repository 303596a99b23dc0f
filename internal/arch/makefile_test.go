package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every pattern of tests in the Makefile matches tests of the packages that it is for: "go test" succeeds if there are
// none.
func TestPatternsOfTheMakefileMatchTests(t *testing.T) {
	root := moduleRoot(t)
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), "\\\n", " ")
	variables := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+) *[:?]?= *(.*)$`).FindAllStringSubmatch(text, -1) {
		variables[m[1]] = m[2]
	}
	text = regexp.MustCompile(`\$\(\w+\)`).ReplaceAllStringFunc(text, func(use string) string {
		if value, ok := variables[use[2:len(use)-1]]; ok && use != "$(GO)" {
			return value
		}
		return use
	})
	seen := 0
	for line := range strings.Lines(text) {
		run := regexp.MustCompile(`\$\(GO\) test .*-run '?([^' ]+)'?`).FindStringSubmatch(line)
		if run == nil {
			continue
		}
		seen++
		names := ""
		for _, dir := range regexp.MustCompile(`\s\./[\w/]+`).FindAllString(line, -1) {
			names += testNames(t, filepath.Join(root, dir[1:]))
		}
		pattern := strings.Trim(strings.ReplaceAll(run[1], "$$", "\n"), "^()")
		for one := range strings.SplitSeq(pattern, "|") {
			if !strings.Contains(names, one) {
				t.Errorf("no test matches %q of the line %s", one, strings.TrimSpace(line))
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d patterns were found", seen)
	}
}

// testNames returns the names of the tests in a folder, one per line, under any build constraint.
func testNames(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	var names strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(raw), -1) {
			names.WriteString(m[1] + "\n")
		}
	}
	return names.String()
}

// "make help" has a column for the longest target, and says what CI runs besides "make check".
func TestMakeHelpIsAligned(t *testing.T) {
	root := moduleRoot(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	column := regexp.MustCompile(`printf "  make %-(\d+)s`).FindStringSubmatch(string(makefile))
	if column == nil {
		t.Fatal("the Makefile prints no table")
	}
	width, _ := strconv.Atoi(column[1])
	check := ""
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):.*## .*`).FindAllStringSubmatch(string(makefile), -1) {
		if len(m[1]) > width {
			t.Errorf("%s is longer than the column of %d", m[1], width)
		}
		if m[1] == "check" {
			check = m[0]
		}
	}
	ci, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^make ([a-z-]+)$`).FindAllStringSubmatch(string(ci), -1) {
		if !regexp.MustCompile(`[: ]` + m[1] + `( |$)`).MatchString(check) {
			t.Errorf("CI runs make %s, which the help of make check does not mention", m[1])
		}
	}
}
