package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Run asks the agent and writes its reply to the file or folder.
func (s Settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	ask, _ := s.Ask(job.Workflow)
	c, err := ask.Conversation(job)
	if err != nil {
		return step.Result{}, err
	}
	at := newPlace(job, where{s.Workflow, s.Folder, s.Runs})
	given, err := inputs(job, at, s.Inputs)
	if err != nil {
		return step.Result{}, err
	}
	c.System, c.Verbatim, c.Form.Plain = c.Agent.Instructions, true, true
	folder := isFolder(s.Produces)
	if folder {
		c.Form.Check = func(text string) []string {
			_, problems := split(text, s.Produces)
			return problems
		}
	}
	var draft string
	if make := drafts[s.Draft]; make != nil {
		draft = make(request{name: at.fill("{workflow_name}"), given: given})
		c.Sample = draft
	}
	c.Task = prompt(s, given, draft)
	result, err := c.Run(ctx, job)
	if err != nil {
		return result, err
	}
	var text string
	if err := json.Unmarshal(result.Value, &text); err != nil {
		return result, step.Errorf(step.ClassInvalid, "the reply of agent %q is not text", c.Agent.ID)
	}
	files := map[string]string{"": text}
	if folder {
		files, _ = split(text, s.Produces) // looked at when the reply came
	} else {
		files[""] = unfenced(s.Produces, text)
	}
	result.Value = valueAt(s.Produces, files)
	if s.Produces == "" {
		return result, nil
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := at.write(s.Produces+name, files[name]); err != nil {
			return result, step.Errorf(step.ClassMissing, "step %q cannot write %s: %v", job.Step.ID, s.Produces+name, err)
		}
	}
	return result, nil
}

// prompt is what the agent is asked: the skill, what to work on, and the goal.
func prompt(set Settings, given []material, draft string) string {
	var b strings.Builder
	if skill := strings.TrimSpace(set.Skill); skill != "" {
		b.WriteString(skill + "\n\n---\n\n")
	}
	for i, m := range given {
		if i > 0 {
			b.WriteString("\n\n")
		}
		if len(given) > 1 { // G3: each says what it is
			fmt.Fprintf(&b, "=== %s ===\n\n", m.name)
		}
		b.WriteString(strings.TrimRight(m.text, "\n"))
	}
	if goal := strings.TrimSpace(set.Goal); goal != "" {
		b.WriteString("\n\n---\n\nGoal: " + goal)
	}
	if isFolder(set.Produces) {
		b.WriteString("\n\nAnswer with one or several files, each of them in this form and nothing around them:\n\n##FILE: name.md##\nwhat the file holds\n##END##")
	}
	if draft != "" {
		b.WriteString("\n\nA draft follows that was made by rules. Keep its form, and make of it what the goal asks for:\n\n" + draft)
	}
	return b.String()
}

// material is something to work on.
type material struct{ name, text string }

func inputs(job *step.Job, at *place, list []Input) ([]material, error) {
	var out []material
	for _, in := range list {
		switch {
		case in.Read != "":
			text, err := valueOf(job, in)
			if err != nil {
				return nil, err
			}
			out = append(out, material{in.Name, text})
		case in.File != "":
			text, err := at.read(in.File)
			if errors.Is(err, fs.ErrNotExist) {
				if instead, ok := job.Machine.Absent(job, in.File); ok {
					text, err = instead, nil
				}
			}
			if err != nil {
				return nil, step.Errorf(step.ClassMissing, "step %q works on %s, which cannot be read: %v", job.Step.ID, in.File, err)
			}
			out = append(out, material{at.fill(in.Name), text})
		default:
			out = append(out, material{in.Name, in.Text})
		}
	}
	return out, nil
}

func valueOf(job *step.Job, in Input) (string, error) {
	i := slices.IndexFunc(job.Reads, func(r step.Read) bool { return r.Path == in.Read })
	if i < 0 || job.Reads[i].Missing {
		return "", step.Errorf(step.ClassInput, "step %q works on %s, and there is none", job.Step.ID, in.Name)
	}
	value := job.Reads[i].Value
	var files map[string]string
	switch {
	case json.Unmarshal(value, &files) != nil || files == nil:
		return ir.PlainText(value), nil
	case in.Part != "":
		text, ok := files[in.Part]
		if !ok {
			return "", step.Errorf(step.ClassInput, "step %q works on %s, and there is no such file among %q", job.Step.ID, in.Name, slices.Sorted(maps.Keys(files)))
		}
		return text, nil
	}
	return joined(in.Name, files), nil
}

// joined is the files of a folder, one after the other, each under its name.
func joined(folder string, files map[string]string) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "=== %s%s ===\n\n%s", strings.TrimSuffix(folder, "/")+"/", name, strings.TrimRight(files[name], "\n"))
	}
	return b.String()
}
