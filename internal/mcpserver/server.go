package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/terminal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Options configures the server of one client.
type Options struct {
	App     *app.App
	Version string
	By      journal.Actor // the client, in the records of runs
	// Token is the id of the token that the client presents, for spending limits; empty if it presents none.
	Token string
}

// maxWait limits how long a call of a workflow waits for its run. A longer run continues, and the client asks for its
// status.
const maxWait = 45 * time.Second

// New returns a server with the tools of the project as it is now.
func New(ctx context.Context, o Options) (*mcp.Server, error) {
	found, err := o.App.Workflows(ctx, catalog.ReadOptions{})
	if err != nil {
		return nil, err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "espalier", Version: o.Version}, &mcp.ServerOptions{
		Instructions: "Each workflow of the project is a tool. A call starts a run and returns its ID and, if the " +
			"run ends soon, its output. For a long run, call start_run, which returns at once, and then run_status. " +
			"A run that waits for a person cannot be continued here; ask the person to decide.",
	})
	h := &handlers{o}
	h.general(s)
	names := map[string]bool{"run_status": true, "run_output": true}
	for _, w := range found.Workflows {
		if offered(&w) {
			h.workflow(s, toolName(w.Name, names), &w)
		}
	}
	return s, nil
}

// offered reports whether a workflow allows agents to start it.
func offered(w *app.Workflow) bool {
	p := w.Analysis.Program
	return p != nil && w.ShadowedBy == "" && w.Analysis.Err() == nil && inputSchema(p) != nil &&
		p.StartedBy(ir.OnMention, ir.OnAPI)
}

// inputSchema returns the schema of the arguments of a workflow's tool; nil if the input of the workflow cannot be an
// object. Arguments are objects, and the library panics if a schema does not say so.
func inputSchema(p *ir.Program) map[string]any {
	schema := map[string]any{}
	if p.Input != nil && len(p.Input.Schema) > 0 && json.Unmarshal(p.Input.Schema, &schema) != nil {
		return nil
	}
	const object = "object"
	switch kind := schema["type"].(type) {
	case nil:
	case string:
		if kind != object {
			return nil
		}
	case []any:
		if !slices.Contains(kind, any(object)) {
			return nil
		}
	}
	schema["type"] = object
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		properties[name] = schemaObject(property)
	}
	return schema
}

// schemaObject returns a schema as an object. Clients with the TypeScript SDK reject the whole list of tools if a
// property has the schema true or false.
func schemaObject(schema any) any {
	switch schema {
	case true:
		return map[string]any{}
	case false:
		return map[string]any{"not": map[string]any{}}
	}
	return schema
}

// outputSchema returns the schema of what a workflow's tool returns. References of the workflow's own schema would
// point elsewhere inside of another schema, so the output is unrestricted then.
func outputSchema(p *ir.Program) map[string]any {
	output := map[string]any{}
	if p.Output != nil && !bytes.Contains(p.Output.Schema, []byte(`"$ref"`)) {
		_ = json.Unmarshal(p.Output.Schema, &output) // a schema that is not an object restricts nothing here
		delete(output, "$schema")
		delete(output, "$id")
	}
	text := map[string]any{"type": "string"}
	return map[string]any{
		"type": "object", "required": []string{"run_id", "state"},
		"properties": map[string]any{
			"run_id": text, "state": text, "waiting_for": text, "outcome": text, "error": text, "output": output,
		},
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// toolName returns a name for the tool of a workflow that is not among the names in use, and adds it to them.
func toolName(workflow string, used map[string]bool) string {
	const longest = 64
	base := "run_" + notInNames.ReplaceAllString(workflow, "_")
	name := base[:min(len(base), longest)]
	for n := 2; used[name]; n++ {
		suffix := "_" + strconv.Itoa(n)
		name = base[:min(len(base), longest-len(suffix))] + suffix
	}
	used[name] = true
	return name
}

type handlers struct{ Options }

type noInput struct{}

type workflowName struct {
	Workflow string `json:"workflow" jsonschema:"name or path of the workflow"`
}

type startRequest struct {
	Workflow string         `json:"workflow" jsonschema:"name or path of the workflow"`
	Input    map[string]any `json:"input,omitempty" jsonschema:"input of the workflow"`
}

type runName struct {
	Run string `json:"run" jsonschema:"id of the run, or a unique prefix of it"`
}

// addTool adds a tool to a server. do returns what the tool returns, as an object of JSON.
func addTool[In any](
	s *mcp.Server, h *handlers, name, description string, hints *mcp.ToolAnnotations,
	do func(context.Context, In) (any, error),
) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: description, Annotations: hints},
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			out, err := do(ctx, in)
			if err != nil {
				return h.failed(err), nil, nil
			}
			return nil, out, nil
		})
}

// general adds the tools that do not depend on the workflows.
func (h *handlers) general(s *mcp.Server) {
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	addTool(s, h, "list_workflows", "List the workflows of the project.", reads,
		func(ctx context.Context, _ noInput) (any, error) {
			found, err := h.App.Workflows(ctx, catalog.ReadOptions{})
			if err != nil {
				return nil, err
			}
			list := append([]api.Workflow{}, xslices.Map(found.Workflows, api.NewWorkflow)...)
			return map[string]any{"workflows": list}, nil
		})
	addTool(s, h, "validate_workflow", "Check a workflow and list its mistakes with their places.", reads,
		func(ctx context.Context, in workflowName) (any, error) {
			an, err := h.App.Analyze(ctx, app.AnalyzeRequest{Workflow: in.Workflow, Listed: true})
			if err != nil {
				return nil, err
			}
			return diag.NewReport(an.Files, an.Diagnostics), nil
		})
	type code struct {
		Code string `json:"code"`
	}
	addTool(s, h, "explain_code", "Explain a diagnostic code such as AF001.", reads,
		func(_ context.Context, in code) (any, error) {
			page, ok := explain.Lookup(in.Code)
			if !ok {
				return nil, fmt.Errorf("unknown code %q", in.Code)
			}
			return page, nil
		})
	addTool(s, h, "start_run", "Start a run of a workflow and return its ID at once. Use it for long runs, and "+
		"run_status to see how far the run is.", nil, h.startRun)
	addTool(s, h, "run_status", "Show the state of a run, and what it waits for.", reads,
		func(ctx context.Context, in runName) (any, error) {
			r, err := h.App.Find(ctx, in.Run)
			if err != nil {
				return nil, err
			}
			return h.state(ctx, r.ID)
		})
	addTool(s, h, "run_output", "Get the output of a finished run.", reads,
		func(ctx context.Context, in runName) (any, error) {
			r, err := h.App.Find(ctx, in.Run)
			if err != nil {
				return nil, err
			}
			end, err := h.App.Ending(ctx, r)
			if err != nil {
				return nil, err
			}
			return &runState{
				Run: string(r.ID), State: string(journal.StateFinished), Outcome: string(end.Outcome), Error: end.Error,
				Output: end.Output,
			}, nil
		})
}

// startRun starts a run of a workflow that agents may start, by its name or path.
func (h *handlers) startRun(ctx context.Context, in startRequest) (any, error) {
	found, err := h.App.Workflows(ctx, catalog.ReadOptions{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found.Workflows, func(w app.Workflow) bool {
		return offered(&w) && (w.Name == in.Workflow || w.Path == in.Workflow)
	})
	if i < 0 {
		return nil, errors.New("no workflow of this name or path can be started by agents; list_workflows " +
			"lists the workflows, and each that can be started has a tool")
	}
	input, err := json.Marshal(in.Input)
	if err != nil {
		return nil, err
	}
	id, err := h.start(ctx, found.Workflows[i].Path, input)
	if err != nil {
		return nil, err
	}
	return h.state(ctx, id)
}

// runState is the state of a run as clients see it. It has no digest of a gate, because agents cannot decide gates.
type runState struct {
	Run     string          `json:"run_id"`
	State   string          `json:"state"`
	Waiting string          `json:"waiting_for,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
	Error   string          `json:"error,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
}

func (h *handlers) state(ctx context.Context, id journal.RunID) (*runState, error) {
	status, err := h.App.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	s := api.NewStatus(status)
	out := &runState{
		Run: s.ID, State: string(s.State), Waiting: s.WaitingFor, Outcome: string(s.Outcome), Error: s.Error,
	}
	if status.Status == journal.Finished {
		end, err := h.App.Ending(ctx, &status.Run)
		if err != nil {
			return nil, err
		}
		if end.Outcome == journal.OutcomeOK { // any other output need not fit the schema; run_output has it
			out.Output = end.Output
		}
	}
	return out, nil
}

// workflow adds the tool of a workflow.
func (h *handlers) workflow(s *mcp.Server, name string, w *app.Workflow) {
	path := w.Path
	s.AddTool(&mcp.Tool{
		Name: name, Title: w.Name,
		InputSchema: inputSchema(w.Analysis.Program), OutputSchema: outputSchema(w.Analysis.Program),
		Description: strings.TrimSpace(w.Description + "\nStarts a run of the workflow " + w.Name + "."),
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		id, err := h.start(ctx, path, req.Params.Arguments)
		if err != nil {
			return h.failed(err), nil
		}
		h.wait(ctx, id, req)
		out, err := h.state(context.WithoutCancel(ctx), id)
		if err != nil {
			return h.failed(err), nil
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{
			Content: []mcp.Content{&mcp.TextContent{Text: string(raw)}}, StructuredContent: out,
		}, nil
	})
}

// start starts a run. Its input is untrusted, because an agent may repeat what it has read.
func (h *handlers) start(ctx context.Context, path string, input json.RawMessage) (journal.RunID, error) {
	an, err := h.App.Analyze(ctx, app.AnalyzeRequest{Workflow: path, Reading: catalog.ReadOptions{Run: true}})
	if err != nil {
		return "", err
	}
	options := h.App.TriggerOptions(ctx, an.Name())
	options.Token = h.Token
	p, err := h.App.Prepare(ctx, app.PrepareRequest{Workflow: an, Input: input, Unattended: true, Options: options})
	if err != nil {
		return "", err
	}
	return h.App.Start(context.WithoutCancel(ctx), p, "", h.By)
}

// wait reports the progress of a run until the run rests, the client disconnects or maxWait has passed. The run
// continues in any case.
func (h *handlers) wait(ctx context.Context, id journal.RunID, req *mcp.CallToolRequest) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if token := req.Params.GetProgressToken(); token != nil {
		go func() {
			n := 0.0
			for e, err := range h.App.Watch(ctx, app.WatchRequest{Run: id}) {
				if err != nil {
					return
				}
				n++
				text := string(e.Type)
				if e.Step != nil {
					text += " " + e.Step.Name
				}
				// Progress is optional, so errors are ignored.
				_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: token, Progress: n, Message: text,
				})
			}
		}()
	}
	_, _ = h.App.Wait(ctx, id) // the state is read afterwards
}

// failed returns an error as a result, which agents can act on.
func (h *handlers) failed(err error) *mcp.CallToolResult {
	text := err.Error()
	if e, ok := errors.AsType[*app.Error](err); ok && e.Advice != "" {
		text += "\n" + e.Advice
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: h.App.Redact(text)}}}
}

// ServeStdio serves one client on a pair of streams until it closes them.
func ServeStdio(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	s, err := New(ctx, o)
	if err != nil {
		return err
	}
	return s.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{terminal.JSON(out)}})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Handler serves clients over HTTP. options returns those of a request.
func Handler(options func(*http.Request) Options) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		s, err := New(r.Context(), options(r))
		if err != nil {
			return nil // the client gets a 400
		}
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true})
}
