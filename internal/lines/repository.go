package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// A repository reads the objects of the Git repository in the current folder.
type repository struct {
	cat   *exec.Cmd
	ask   io.WriteCloser
	reply *bufio.Reader
	known map[string]size // by file kind and blob id
}

// A commit is one change of the tree.
type commit struct {
	id, subject string
	marked      bool // it has the trailer "House: yes"
	changes     []change
}

// A change adds (sign 1) or removes (sign -1) one version of a file.
type change struct {
	name, id string
	sign     int
}

func openRepository() (*repository, error) {
	r := &repository{cat: exec.Command("git", "cat-file", "--batch"), known: map[string]size{}}
	var err error
	if r.ask, err = r.cat.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cat.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.reply = bufio.NewReader(out)
	return r, r.cat.Start()
}

func (r *repository) close() {
	r.ask.Close()
	_ = r.cat.Wait()
}

// size returns the size of one version of a file.
func (r *repository) size(name, id string) (size, error) {
	key := name[strings.LastIndexByte(name, '.'):] + id
	if s, ok := r.known[key]; ok {
		return s, nil
	}
	fmt.Fprintln(r.ask, id)
	var echo, kind string
	var length int
	if _, err := fmt.Fscanf(r.reply, "%s %s %d\n", &echo, &kind, &length); err != nil {
		return size{}, fmt.Errorf("read %s of %s: %w", id, name, err)
	}
	text := make([]byte, length+1) // and a newline
	if _, err := io.ReadFull(r.reply, text); err != nil {
		return size{}, err
	}
	s := measure(name, text[:length])
	r.known[key] = s
	return s, nil
}

// files returns the product files of a revision with their blob ids.
func (r *repository) files(revision string) (map[string]string, error) {
	out, err := exec.Command("git", "ls-tree", "-r", "--full-tree", revision).Output()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		meta, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if isProduct(name) {
			files[name] = strings.Fields(meta)[2]
		}
	}
	return files, nil
}

// commits returns the commits of a range, oldest first, without merges.
func (r *repository) commits(revisions string) ([]commit, error) {
	out, err := exec.Command("git", "log", "--no-merges", "--reverse", "--topo-order", "--raw", "--no-abbrev",
		"--no-renames", "--format=commit %H%n%(trailers:key=House,valueonly,separator=%x2C)%n%s", revisions).Output()
	if err != nil {
		return nil, err
	}
	var commits []commit
	lines := strings.Split(string(out), "\n")
	for i := 0; i < len(lines); i++ {
		if id, ok := strings.CutPrefix(lines[i], "commit "); ok {
			commits = append(commits, commit{id: id, marked: strings.Contains(lines[i+1], "yes"), subject: lines[i+2]})
			i += 2
			continue
		}
		meta, name, ok := strings.Cut(lines[i], "\t")
		if !ok || !isProduct(name) {
			continue
		}
		ids := strings.Fields(meta)
		last := &commits[len(commits)-1]
		if strings.Trim(ids[2], "0") != "" {
			last.changes = append(last.changes, change{name, ids[2], -1})
		}
		if strings.Trim(ids[3], "0") != "" {
			last.changes = append(last.changes, change{name, ids[3], 1})
		}
	}
	return commits, nil
}
