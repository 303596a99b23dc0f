package step

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/redact"
)

// Finish handles the files that a step declares, after its task has ended: a file that the task did not
// write is written from the result if the result has its content, and missing files are noted. history is
// everything that this attempt has noted. Files never lie outside of the run's folder.
func (j *Job) Finish(history []journal.TaskNoted, r Result, failed error) Result {
	if j.Dir == "" || len(j.Step.Produces) == 0 && j.Step.AuditFile == "" {
		return r
	}
	missing := func(file string, err error) {
		r.Notes = append(r.Notes,
			Note{Kind: journal.NoteMissingFile, Data: journal.MissingFile{Path: file, Why: err.Error()}})
	}
	var root *os.Root
	err := j.MakeDir()
	if err == nil {
		root, err = os.OpenRoot(j.Dir)
	}
	if err == nil {
		defer root.Close()
	}
	// A failed task writes no files. The audit file is written in any case.
	for _, file := range j.Step.Produces {
		switch {
		case failed != nil:
		case err != nil:
			missing(file.Name, err)
		default:
			if err := j.produce(root, file.Name, history, r); err != nil {
				missing(file.Name, err)
			}
		}
	}
	if file := j.Step.AuditFile; file != "" {
		failure := err
		if failure == nil {
			failure = replace(root, file, j.audit(history, r, failed))
		}
		if failure != nil {
			missing(file, failure)
		}
	}
	return r
}

// Why a file is missing.
var (
	errNotMade = errors.New("the step did not create it")
	errNotText = errors.New(
		"the step did not create it, and its result cannot be written to a file that is not text")
	errNotAFile = errors.New("a directory or link has that name")
)

// produce creates one declared file if the task did not.
func (j *Job) produce(root *os.Root, name string, history []journal.TaskNoted, r Result) error {
	// A file that exists was written by this attempt, unless it may be from an earlier one and this attempt has done
	// nothing that writes files.
	info, err := root.Stat(filepath.FromSlash(name))
	switch {
	case err == nil && !info.Mode().IsRegular():
		return errNotAFile
	case err == nil && !(j.mayHaveRunBefore() && !mayHaveWritten(history, r.Notes)):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	there := err == nil
	if !there {
		if content := j.handedOver(name); content != nil {
			return replace(root, name, content)
		}
	}
	content, err := contentOf(name, r.Value)
	if err != nil {
		if there {
			return nil
		}
		return err
	}
	return replace(root, name, content)
}

// handedOver returns a file of that name that a child run wrote to its own folder; nil if there is none.
func (j *Job) handedOver(name string) []byte {
	for _, b := range j.Branches {
		if b.Run == "" {
			continue
		}
		root, err := os.OpenRoot(filepath.Join(filepath.Dir(j.Dir), string(b.Run)))
		if err != nil {
			continue // it has written no files
		}
		content, err := root.ReadFile(filepath.FromSlash(name))
		root.Close() // only read from
		if err == nil {
			return content
		}
	}
	return nil
}

// mayHaveRunBefore reports whether the step may have run before, so that an existing file may be from then.
func (j *Job) mayHaveRunBefore() bool {
	return j.Visit > 0 || j.Iteration > 0 || j.Attempt > 0 || j.Rerun > 0
}

// mayHaveWritten reports whether the attempt can have written files itself.
func mayHaveWritten(history []journal.TaskNoted, last []Note) bool {
	acts := []string{journal.NoteCommand, journal.NoteToolCall}
	return slices.ContainsFunc(history, func(n journal.TaskNoted) bool { return slices.Contains(acts, n.Kind) }) ||
		slices.ContainsFunc(last, func(n Note) bool { return slices.Contains(acts, n.Kind) })
}

// contentOf returns the content of a file: the part of the result with the file's name, else the whole result.
// Text goes into any text file; other values only into files that can hold JSON, because a wrong file is worse
// than a missing one.
func contentOf(name string, value json.RawMessage) ([]byte, error) {
	ext := strings.ToLower(path.Ext(name))
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) == nil {
		base := path.Base(name)
		for _, key := range []string{base, strings.TrimSuffix(base, path.Ext(base))} {
			if part, ok := object[key]; ok {
				value = part
				break
			}
		}
	}
	var text *string
	if json.Unmarshal(value, &text) != nil {
		text = nil
	}
	// Text into text files, and into .json only if it is JSON itself; other values into files that can hold JSON.
	switch {
	case len(value) == 0 || string(value) == "null":
		return nil, errNotMade
	case text != nil && ext == ".json" && json.Valid([]byte(*text)),
		text != nil && ext != ".json" && slices.Contains(textTypes, ext):
		return line(*text), nil
	case ext == ".json" || text == nil && slices.Contains(jsonToo, ext):
		var b bytes.Buffer
		if err := json.Indent(&b, value, "", "  "); err != nil {
			return nil, err
		}
		return line(b.String()), nil
	}
	return nil, errNotText
}

// The extensions of text files, and of those that can hold JSON.
var (
	textTypes = []string{
		".adoc", ".css", ".csv", ".htm", ".html", ".js", ".jsonl", ".log", ".markdown", ".md", ".mmd", ".ndjson", ".py",
		".rst", ".sh", ".sql", ".srt", ".svg", ".tex", ".text", ".toml", ".tsv", ".txt", ".xml", ".yaml", ".yml",
	}
	jsonToo = []string{".log", ".markdown", ".md", ".text", ".txt", ".yaml", ".yml"}
)

// line returns a text that ends with a line break.
func line(text string) []byte {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}

// replace writes a file atomically.
func replace(root *os.Root, name string, content []byte) error {
	return protected.WriteFile(root, name, content, protected.Options{File: 0o600, Folder: 0o700})
}

// audit returns the step's audit record: its reads, result and usage.
func (j *Job) audit(history []journal.TaskNoted, r Result, failed error) []byte {
	type read struct {
		Path    string          `json:"path"`
		Value   json.RawMessage `json:"value"`
		Missing bool            `json:"missing,omitempty"`
	}
	type branch struct {
		Worker  string          `json:"worker"`
		Outcome string          `json:"outcome"`
		Error   string          `json:"error,omitempty"`
		Value   json.RawMessage `json:"value,omitempty"`
		Usage   journal.Usage   `json:"usage,omitzero"`
	}
	out := struct {
		Workflow string            `json:"workflow"`
		Run      journal.RunID     `json:"run"`
		Step     string            `json:"step"`
		Attempt  int               `json:"attempt"` // from 1
		Reads    []read            `json:"reads"`
		Result   json.RawMessage   `json:"result,omitempty"`
		Error    string            `json:"error,omitempty"`
		Class    ir.Class          `json:"class,omitempty"`
		Reason   string            `json:"reason,omitempty"`
		Workers  []branch          `json:"workers,omitempty"`
		Merges   []json.RawMessage `json:"merge_decisions,omitempty"`
		Usage    journal.Usage     `json:"usage"`
	}{
		Workflow: j.Workflow.Name, Run: j.Run, Step: j.Step.ID, Attempt: j.Attempt + 1,
		Reads: []read{}, Reason: cmp.Or(j.Step.ReasonOK, "COMPLETED"),
	}
	// The file is a record for people, so it is redacted like the audit log.
	rules := redact.ForAudits(false, j.Audits...)
	hide := func(raw json.RawMessage) json.RawMessage {
		hidden, _, err := rules.JSON(raw)
		if err != nil {
			return nil // only JSON can be redacted
		}
		return hidden
	}
	hideText := func(text string) string {
		hidden, _ := rules.Text(text)
		return hidden
	}
	for _, one := range j.Reads {
		one.Value = hide(one.Value)
		out.Reads = append(out.Reads, read(one))
	}
	for _, b := range j.Branches {
		out.Usage = out.Usage.Plus(b.Used)
		out.Workers = append(out.Workers, branch{
			b.Name, string(b.Outcome), hideText(b.Error), hide(b.Value), b.Used,
		})
	}
	count := func(kind string, data json.RawMessage, u journal.Usage) {
		if kind == journal.NoteMerge {
			out.Merges = append(out.Merges, hide(data))
		}
		out.Usage = out.Usage.Plus(u)
	}
	for _, n := range history {
		count(n.Kind, n.Data, n.Usage)
	}
	for _, n := range r.Notes {
		count(n.Kind, JSON(n.Data), n.Usage)
	}
	out.Usage = out.Usage.Plus(r.Usage)
	if failed == nil {
		out.Result = hide(r.Value)
	} else {
		var f *Error
		out.Error, out.Reason = hideText(failed.Error()), j.Step.ReasonFail
		if errors.As(failed, &f) {
			out.Class = f.Class
		}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, JSON(out), "", "  "); err != nil {
		return line(string(JSON(out)))
	}
	return line(b.String())
}
