package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/tool"
)

// Limits of the file tools.
const (
	maxRead    = 16 << 20  // bytes of a file that is read, edited or searched
	maxShown   = 256 << 10 // bytes of text in one result
	maxWrite   = 16 << 20
	maxFound   = 1000    // files
	maxMatches = 200     // lines
	maxLine    = 500     // bytes of a line that matches
	maxVisited = 200_000 // files and folders
)

// function is a tool that is implemented by a function of its decoded input. The input has been checked against the
// schema of the tool.
type function[In any] struct {
	spec       tool.Spec
	call       func(ctx context.Context, call tool.Call, in In) (any, error)
	repeatable func(in In) bool
	path       func(in In) string // the path in the input; nil if there is none
}

func (f function[In]) Spec() tool.Spec { return f.spec }

// Repeatable reports whether a call may be repeated, if the function defines it.
func (f function[In]) Repeatable(input json.RawMessage) bool {
	var in In
	return f.repeatable != nil && json.Unmarshal(input, &in) == nil && f.repeatable(in)
}

// resultWithLog is a result with a line for the log of the run.
type resultWithLog struct {
	value any
	line  string
}

// toolFailure is the error of a call that ran and failed. Its value is the output of the call.
type toolFailure struct {
	value   any
	summary string // for values that are too large to show; may be empty
}

func (toolFailure) Error() string { return "the tool reports a failure" }

func (f function[In]) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in In
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{}, &tool.Error{Class: ir.ClassInput, Message: err.Error()}
	}
	value, err := f.call(ctx, call, in)
	if failed, ok := errors.AsType[toolFailure](err); ok {
		raw, err := jsonfast.Marshal(failed.value)
		return tool.Result{Output: raw, IsError: true, LogLine: failed.summary, Media: mediaOf(failed.value)}, err
	}
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		path := ""
		if f.path != nil {
			path = f.path(in)
		}
		return tool.Result{}, forModel(err, path)
	}
	line := ""
	if r, ok := value.(resultWithLog); ok {
		value, line = r.value, r.line
	}
	raw, err := jsonfast.Marshal(value)
	return tool.Result{Output: raw, LogLine: line, Media: mediaOf(value)}, err
}

// mediaOf returns the binary body of a response.
func mediaOf(value any) []tool.Media {
	if answer, ok := value.(*tool.Answer); ok {
		return answer.Media
	}
	return nil
}

// forModel returns an error whose message helps a model and contains no paths of this machine: an error of a file names
// the path in the input, or if there is none, as for commands, only the last element of its own.
func forModel(err error, path string) error {
	var ours *tool.Error
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &at):
		path, err = cmp.Or(path, filepath.Base(at.Path)), at.Err
	case errors.As(err, &link):
		path, err = cmp.Or(path, filepath.Base(link.New)), link.Err
	default:
		return &tool.Error{Class: ir.ClassTool, Message: err.Error()}
	}
	return tool.Errorf(ir.ClassTool, "%q: %v", filepath.ToSlash(path), err)
}

// Options configures what the tools may access.
type Options struct {
	// Root is the project's folder; empty if there is none.
	Root string
	// Readable are additional folders, which are read-only.
	Readable []string
	// See the types Shell and Network.
	Shell   Shell
	Network Network

	// Set for each call; see area.
	may  func(path string, linked bool) bool
	keep protected.Files
}

// Tools returns all built-in tools.
func Tools(o Options) []tool.Tool {
	return []tool.Tool{
		o.readTool(), o.writeTool(), o.editTool(), o.globTool(), o.grepTool(), o.bashTool(),
		o.requestTool(), o.notifyTool(),
	}
}

const pathHelp = "Path relative to the run's folder, or to the project if the run's folder has no such file"

func schemaOf(text string) json.RawMessage { return json.RawMessage(text) }

// readTool returns the tool that reads a text file. Lines are counted in the whole file, whatever part of it is
// returned; truncated is set if the part is larger than maxShown.
func (o Options) readTool() tool.Tool {
	type input struct {
		Path   string `json:"path"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
	}
	return function[input]{
		path: func(in input) string { return in.Path },
		spec: tool.Spec{
			Name: "Read", Description: "Read a text file from the project or the run's folder.", Target: "files",
			Schema: schemaOf(`{"type":"object","properties":{
				"path":{"type":"string","minLength":1,"description":"` + pathHelp + `"},
				"offset":{"type":"integer","minimum":1,"description":"First line to return, from 1"},
				"limit":{"type":"integer","minimum":1,"description":"Number of lines to return"}},
				"required":["path"],"additionalProperties":false}`),
			Returns: schemaOf(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},` +
				`"lines":{"type":"integer","minimum":0}},"required":["path","content","lines"]}`),
		},
		call: func(_ context.Context, call tool.Call, in input) (any, error) {
			s, err := o.of(call).find(call.Dir, in.Path, false, false)
			if err != nil {
				return nil, err
			}
			defer s.close()
			raw, err := s.read()
			if err != nil {
				return nil, err
			}
			if !isText(raw) {
				return nil, tool.Errorf(ir.ClassInput, "%q is not a text file", in.Path)
			}
			lines := strings.SplitAfter(string(raw), "\n")
			if lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			}
			total := len(lines)
			first := min(max(in.Offset, 1)-1, total)
			lines = lines[first:]
			if in.Limit > 0 {
				lines = lines[:min(in.Limit, len(lines))]
			}
			text, cut := strings.Join(lines, ""), false
			if len(text) > maxShown {
				text, cut = strings.ToValidUTF8(text[:maxShown], ""), true
			}
			out := map[string]any{"path": s.rel, "content": text, "lines": total}
			if cut {
				out["truncated"] = true
			}
			return out, nil
		},
	}
}

func isText(raw []byte) bool { return utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 }

// writeTool returns the tool that writes a whole file. Writing the same content twice has the same result, so a call
// may be repeated after a crash (TakesKey).
func (o Options) writeTool() tool.Tool {
	type input struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	return function[input]{
		path: func(in input) string { return in.Path },
		spec: tool.Spec{
			Name:        "Write",
			Description: "Write a text file, replacing it if it exists. A relative path is in the run's folder.",
			Target:      "files", SideEffects: true, TakesKey: true,
			Schema: schemaOf(`{"type":"object","properties":{
				"path":{"type":"string","minLength":1,` +
				`"description":"Path relative to the run's folder, or an absolute path in the project"},
				"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}`),
			Returns: schemaOf(`{"type":"object","properties":{"path":{"type":"string"},"bytes":{"type":"integer",` +
				`"minimum":0}},"required":["path","bytes"]}`),
		},
		call: func(_ context.Context, call tool.Call, in input) (any, error) {
			if len(in.Content) > maxWrite {
				return nil, tool.Errorf(ir.ClassInput, "the content is larger than %d bytes", maxWrite)
			}
			s, err := o.of(call).find(call.Dir, in.Path, true, true)
			if err != nil {
				return nil, err
			}
			defer s.close()
			if err := s.write([]byte(in.Content)); err != nil {
				return nil, err
			}
			return map[string]any{"path": s.rel, "bytes": len(in.Content)}, nil
		},
	}
}

// editTool returns the tool that replaces a piece of text. A second call would not find the text any more, or would
// replace another occurrence, so a call is not repeated automatically. A text that does not occur is a result for the
// model, not an error.
func (o Options) editTool() tool.Tool {
	type input struct {
		Path string `json:"path"`
		Old  string `json:"old_string"`
		New  string `json:"new_string"`
		All  bool   `json:"replace_all"`
	}
	return function[input]{
		path: func(in input) string { return in.Path },
		spec: tool.Spec{
			Name: "Edit",
			Description: "Replace a piece of text in a file. The piece must occur exactly once, unless replace_all " +
				"is set.",
			Target: "files", SideEffects: true,
			Schema: schemaOf(`{"type":"object","properties":{
				"path":{"type":"string","minLength":1,"description":"` + pathHelp + `"},
				"old_string":{"type":"string","minLength":1},"new_string":{"type":"string"},
				"replace_all":{"type":"boolean"}},"required":["path","old_string","new_string"],` +
				`"additionalProperties":false}`),
			Returns: schemaOf(`{"type":"object","properties":{"path":{"type":"string"},"replaced":{"type":"integer",` +
				`"minimum":1}},"required":["path","replaced"]}`),
		},
		call: func(_ context.Context, call tool.Call, in input) (any, error) {
			s, err := o.of(call).find(call.Dir, in.Path, true, false)
			if err != nil {
				return nil, err
			}
			defer s.close()
			raw, err := s.read()
			if err != nil {
				return nil, err
			}
			n := strings.Count(string(raw), in.Old)
			switch {
			case n == 0:
				return nil, toolFailure{value: fmt.Sprintf("old_string is not in %q", in.Path)}
			case n > 1 && !in.All:
				return nil, toolFailure{value: fmt.Sprintf(
					"old_string occurs in %q %d times; extend it, or set replace_all", in.Path, n)}
			}
			text := strings.ReplaceAll(string(raw), in.Old, in.New)
			if len(text) > maxWrite {
				return nil, tool.Errorf(ir.ClassInput, "the file would be larger than %d bytes", maxWrite)
			}
			if err := s.write([]byte(text)); err != nil {
				return nil, err
			}
			return map[string]any{"path": s.rel, "replaced": n}, nil
		},
	}
}

// globTool returns the tool that lists files by a pattern. A name that exists in the run's folder and in the project is
// listed twice.
func (o Options) globTool() tool.Tool {
	type input struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	return function[input]{
		path: func(in input) string { return in.Path },
		spec: tool.Spec{
			Name:        "Glob",
			Description: "List the files that match a pattern such as **/*.md, in the project and the run's folder.",
			Target:      "files",
			Schema: schemaOf(`{"type":"object","properties":{
				"pattern":{"type":"string","minLength":1},"path":{"type":"string","description":"Folder to search"}},
				"required":["pattern"],"additionalProperties":false}`),
			Returns: schemaOf(`{"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}}},` +
				`"required":["files"]}`),
		},
		call: func(ctx context.Context, call tool.Call, in input) (any, error) {
			match, err := globMatcher(in.Pattern)
			if err != nil {
				return nil, err
			}
			found, more := []string{}, false
			err = o.of(call).files(ctx, call.Dir, in.Path, func(_ area, name, below string) error {
				if !match(below) {
					return nil
				}
				if more = len(found) == maxFound; more {
					return fs.SkipAll
				}
				found = append(found, name)
				return nil
			})
			out := map[string]any{"files": found}
			if more {
				out["truncated"] = true
			}
			return out, err
		},
	}
}

// grepTool returns the tool that searches lines. Patterns use RE2, which takes time linear in the text, so a model
// cannot write a pattern that never ends. Each file is resolved again by walk: it may have been replaced since it was
// listed.
func (o Options) grepTool() tool.Tool {
	type input struct {
		Pattern    string `json:"pattern"`
		Path       string `json:"path"`
		Glob       string `json:"glob"`
		IgnoreCase bool   `json:"ignore_case"`
	}
	type hit struct {
		Path string `json:"path"`
		Line int    `json:"line"`
		Text string `json:"text"`
	}
	return function[input]{
		path: func(in input) string { return in.Path },
		spec: tool.Spec{
			Name:        "Grep",
			Description: "Find the lines that match a regular expression (RE2), in the project and the run's folder.",
			Target:      "files",
			Schema: schemaOf(`{"type":"object","properties":{
				"pattern":{"type":"string","minLength":1},` +
				`"path":{"type":"string","description":"File or folder to search"},
				"glob":{"type":"string","description":"Only files whose names match, such as *.go"},
				"ignore_case":{"type":"boolean"}},"required":["pattern"],"additionalProperties":false}`),
			Returns: schemaOf(`{"type":"object","properties":{"matches":{"type":"array","items":{"type":"object",` +
				`"properties":{"path":{"type":"string"},"line":{"type":"integer","minimum":1},` +
				`"text":{"type":"string"}},"required":["path","line","text"]}}},"required":["matches"]}`),
		},
		call: func(ctx context.Context, call tool.Call, in input) (any, error) {
			pattern := in.Pattern
			if in.IgnoreCase {
				pattern = "(?i)" + pattern
			}
			re, err := regexp.Compile(pattern)
			if err != nil {
				return nil, &tool.Error{Class: ir.ClassInput, Message: err.Error()}
			}
			match := func(string) bool { return true }
			if in.Glob != "" {
				if match, err = globMatcher(in.Glob); err != nil {
					return nil, err
				}
			}
			hits, more := []hit{}, false
			err = o.of(call).files(ctx, call.Dir, in.Path, func(a area, name, below string) error {
				if !match(below) && !match(path.Base(below)) {
					return nil
				}
				s, err := a.walk(name, false, false)
				if err != nil {
					return nil // the file was removed, or is a link to a forbidden place
				}
				defer s.close()
				raw, err := s.read()
				if err != nil || !isText(raw) {
					return nil // binary files have no lines
				}
				n := 0
				for line := range strings.Lines(string(raw)) {
					n++
					line = strings.TrimRight(line, "\r\n")
					if !re.MatchString(line) {
						continue
					}
					if more = len(hits) == maxMatches; more {
						return fs.SkipAll
					}
					if len(line) > maxLine {
						line = strings.ToValidUTF8(line[:maxLine], "") + "…"
					}
					hits = append(hits, hit{name, n, line})
				}
				return nil
			})
			out := map[string]any{"matches": hits}
			if more {
				out["truncated"] = true
			}
			return out, err
		},
	}
}

// files visits the files below a folder, or in all areas, each area in the order of names. Links are skipped: their
// targets are visited at their own path, or are outside the permitted areas. visit returns fs.SkipAll to end the search
// without an error.
func (o Options) files(ctx context.Context, dir, below string, visit func(a area, name, below string) error) error {
	var spots []*spot
	if below != "" {
		s, err := o.find(dir, below, false, false)
		if err != nil {
			return err
		}
		spots = append(spots, s)
	} else {
		for _, a := range o.areas(dir) {
			s, err := a.walk(".", false, false)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			spots = append(spots, s)
		}
	}
	visited := 0
	for _, s := range spots {
		err := s.visit(ctx, &visited, visit)
		s.close()
		if errors.Is(err, fs.SkipAll) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visit visits the files below a folder, or the file itself. visited counts over all areas, so that a search ends in a
// project with very many files. Folders named .git are left out.
func (s *spot) visit(ctx context.Context, visited *int, visit func(a area, name, below string) error) error {
	if !s.info.IsDir() {
		return visit(s.area, s.rel, path.Base(s.rel))
	}
	start := s.rel
	return fs.WalkDir(s.dir.FS(), s.base, func(at string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		below := at
		if s.base != "." {
			below = strings.TrimPrefix(strings.TrimPrefix(at, s.base), "/")
		}
		name := path.Join(start, below)
		if *visited++; *visited > maxVisited {
			return &tool.Error{Class: ir.ClassInput, Message: "too many files; search a smaller folder"}
		}
		parts := splitPath(name)
		switch {
		case err != nil:
			if d != nil && d.IsDir() {
				return fs.SkipDir // a folder that must not be read
			}
			return nil
		case s.area.forbidden(parts, false) != "" || len(parts) > 0 && parts[len(parts)-1] == ".git":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		return visit(s.area, name, below)
	})
}

// globMatcher compiles a pattern in which ** matches any number of folders. A pattern without a slash matches names in
// any folder.
func globMatcher(pattern string) (func(name string) bool, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	for p := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(p, ""); err != nil {
			return nil, tool.Errorf(ir.ClassInput, "the pattern %q is not well-formed", pattern)
		}
	}
	return func(name string) bool { return tool.MatchPath(pattern, name) }, nil
}
