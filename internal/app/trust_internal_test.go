package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/trust"
)

// An approval covers the programs of a command, however the command spells their paths.
func TestApprovalCoversProgramsInEverySpelling(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"scripts/tool.sh", "scripts/deep/tool", "scripts/a tool.sh", "data.txt"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte("#!/bin/sh\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const tool, deep = "scripts/tool.sh", "scripts/deep/tool"
	for command, want := range map[string]string{
		"./scripts/tool.sh":                                  tool,
		"sh scripts/tool.sh -x":                              tool,
		filepath.Join(root, tool) + " -x":                    tool,
		"sh '" + filepath.Join(root, tool) + "'":             tool,
		`"$PWD/scripts/tool.sh"`:                             tool,
		"${PWD}/scripts/tool.sh":                             tool,
		"$HOME/scripts/tool.sh":                              tool,
		`sh "$ESPALIER_PROJECT"/scripts/tool.sh`:             tool,
		"sh ../../../scripts/tool.sh":                        tool,
		"cd scripts && ./tool.sh":                            tool,
		"cd scripts; cd deep; ./tool":                        deep,
		`cd "$PWD/scripts/deep" && ./tool`:                   deep,
		"(cd ../../../scripts && exec sh ./tool.sh)":         tool,
		"cd " + filepath.Join(root, "scripts") + "; tool.sh": tool,
		"X=scripts/tool.sh; sh $X":                           tool,
		"sh -c 'cd scripts && sh tool.sh'":                   tool,
		"sh < scripts/tool.sh":                               tool,
		"sh 'scripts/a tool.sh'":                             "scripts/a tool.sh",
		"env -C scripts ./tool.sh":                           tool,
		"env --chdir=scripts/deep ./tool":                    deep,
	} {
		found := namedFiles(root, entered(root, []string{root}, command), command)
		if !slices.ContainsFunc(found, func(f trust.File) bool { return f.Path == want }) {
			t.Errorf("%s: %v", command, found)
		}
	}
}

// What an interpreter executes is a program, whatever its name is. Data is not.
func TestFilesOfInterpretersArePrograms(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"scripts/tool", "scripts/a.sh", "scripts/b.sh", "data.txt"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte("echo\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string][]string{
		"sh scripts/tool":                {"scripts/tool"},
		"/bin/bash -eu scripts/tool -x":  {"scripts/tool"},
		`python3.12 "$PWD/scripts/tool"`: {"scripts/tool"},
		"cd scripts && . ./tool":         {"scripts/tool"},
		"sh scripts/*.sh":                {"scripts/a.sh", "scripts/b.sh"},
		"ls; source scripts/[a-z].sh":    {"scripts/a.sh", "scripts/b.sh"},
		"sh ../../../scripts/to?l":       {"scripts/tool"},
		"cat data.txt":                   nil,
		"sh -c 'cat data.txt'":           nil,
		"docker build . -f data.txt":     nil,
		"awk '{print}' data.txt":         nil,
		"sh: sort data.txt scripts/*":    nil,
		"ls *.txt scripts/*.sh":          nil,
	} {
		var got []string
		for _, f := range interpretedFiles(root, entered(root, []string{root}, command), command) {
			got = append(got, f.Path)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// Programs that do not exist are noted, and files that a command writes are not.
func TestMissingProgramsAreThoseThatCommandsRun(t *testing.T) {
	root := t.TempDir()
	for command, want := range map[string][]string{
		"./new.sh":                                  {"new.sh"},
		"sh new":                                    {"new"},
		"sh: python3 -u new.py out.py":              {"new.py"},
		"LANG=C nice -n 5 ./new > out.sh":           {"5", "new"},
		"echo x > new.sh && sh new.sh":              {"new.sh"},
		"cd sub && ./new":                           {"new", "sub/new"},
		`if true; then "$PWD/new.sh"; fi`:           {"new.sh"},
		"echo $(./new.sh) | tee out.sh":             {"new.sh"},
		"cp a.py b.py; gcc -o out main.c":           nil,
		"if test -f out/a.sh; then rm out/a.sh; fi": nil,
		"make test && npm run build":                nil,
		"bash -c './new.sh'":                        {"new.sh"},
		"2> out.sh ./new.sh < in.sh":                {"new.sh"},
		". ./new.env":                               {"new.env"},
		"sh: cp ../../../a.txt ../b.txt":            nil,
		filepath.Join(root, "new") + " out.sh":      {"new"},
	} {
		var got []string
		for _, f := range missingPrograms(root, entered(root, []string{root}, command), command) {
			got = append(got, f.Path)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// What a command only writes changes with every run, so an approval does not cover it, unless it is a program.
func TestApprovalLeavesOutWhatCommandsWrite(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"log.txt": "x\n", "my log.txt": "x\n", "list": "x\n", "tool.sh": "echo\n", "script": "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("tool.sh", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	log := []string{"log.txt"}
	for command, want := range map[string][]string{
		"date > log.txt":                          nil,
		"date >> log.txt 2>&1":                    nil,
		"date >>log.txt":                          nil,
		"date &> 'log.txt'":                       nil,
		`date >| "my log.txt"`:                    nil,
		"date | tee -a log.txt list":              nil,
		"date | tee log.txt | sort > list":        nil,
		"{ date; sh tool.sh; } >> log.txt":        {"tool.sh"},
		"cat log.txt >> log.txt":                  log,
		"date >> log.txt; sh log.txt":             log,
		"date >> log.txt && . ./log.txt":          log,
		"sort < log.txt > list":                   log,
		"date > list; xargs sh < log.txt":         log,
		"date >> tool.sh":                         {"tool.sh"},
		"date >> script":                          {"script"},
		"date >> link":                            {"link"},
		"date | tee tool.sh":                      {"tool.sh"},
		"tee list\ncat log.txt":                   log,
		"sh <> log.txt":                           log,
		`cat \> log.txt`:                          log,
		`grep '>' log.txt`:                        log,
		`sh -c "cat '>' log.txt"`:                 log,
		"./tee log.txt":                           log,
		"grep tee log.txt":                        log,
		"for f in list; do sh $f; done > log.txt": {"list"},
	} {
		var got []string
		folders := entered(root, []string{root}, command)
		for _, f := range slices.Concat(namedFiles(root, folders, command), interpretedFiles(root, folders, command)) {
			if !slices.Contains(got, f.Path) {
				got = append(got, f.Path)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
