package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// earlier lists the commits of the restructuring that lack the trailer, one per line: id and subject.
//
//go:embed commits.txt
var earlier string

// cpython replaces our evaluator of Python; see the package comment.
const cpython = "1821cc5b"

// base is the last commit before the restructuring.
const base = "639fc5b9"

func main() {
	all := len(os.Args) > 1 && os.Args[1] == "-all"
	if err := report(os.Stdout, all); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

// report prints the size of every package, and how much every commit of the restructuring (or with all, every commit
// since its start) has added or removed.
func report(out io.Writer, all bool) error {
	repo, err := openRepository()
	if err != nil {
		return err
	}
	defer repo.close()
	files, err := repo.files("HEAD")
	if err != nil {
		return err
	}
	packages, total := map[string]size{}, size{}
	for name, id := range files {
		s, err := repo.size(name, id)
		if err != nil {
			return err
		}
		total.add(s, 1)
		s.add(packages[path.Dir(name)], 1)
		packages[path.Dir(name)] = s
	}
	fmt.Fprintln(out, "  lines  tokens")
	for _, dir := range slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(packages[b].lines-packages[a].lines, strings.Compare(a, b))
	}) {
		fmt.Fprintf(out, "%7d %7d %s\n", packages[dir].lines, packages[dir].tokens, dir)
	}
	fmt.Fprintf(out, "%7d %7d in total\n\n", total.lines, total.tokens)

	commits, err := repo.commits(base + "..HEAD")
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for line := range strings.Lines(earlier) {
		id, _, _ := strings.Cut(line, " ")
		listed[id] = true
	}
	sum, other, count := size{}, size{}, 0
	for _, commit := range commits {
		if !all && !commit.marked && !listed[commit.id[:8]] {
			continue
		}
		var delta size
		for _, change := range commit.changes {
			s, err := repo.size(change.name, change.id)
			if err != nil {
				return err
			}
			delta.add(s, change.sign)
		}
		fmt.Fprintf(out, "%+7d %+7d %s %s\n", delta.lines, delta.tokens, commit.id[:8], commit.subject)
		sum.add(delta, 1)
		if commit.id[:8] != cpython {
			other.add(delta, 1)
		}
		count++
	}
	fmt.Fprintf(out, "%+7d %+7d by %d commits\n", sum.lines, sum.tokens, count)
	fmt.Fprintf(out, "%+7d %+7d without %s, which also changes behavior\n", other.lines, other.tokens, cpython)
	return nil
}
