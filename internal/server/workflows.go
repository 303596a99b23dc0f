package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/xslices"
)

// WorkflowPath names a workflow in an address.
type WorkflowPath struct {
	Workflow string `path:"workflow" doc:"Name or path of the workflow; a slash in it is written %2F"`
}

// body is a response of JSON.
type body[T any] struct{ Body T }

// bytesBody is a response of another media type.
type bytesBody struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// produces describes a response that is not JSON.
func produces(mediaType string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		op.Responses = map[string]*huma.Response{"200": {
			Description: "OK",
			Content:     map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: "string"}}},
		}}
	}
}

type workflowList struct {
	Workflows []api.Workflow `json:"workflows"`
}

type workflowDetail struct {
	api.Workflow
	InputSchema  json.RawMessage    `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage    `json:"output_schema,omitempty"`
	Triggers     []api.Trigger      `json:"triggers,omitempty"`
	Steps        []workflowStep     `json:"steps"`
	Diagnostics  []diag.ReportEntry `json:"diagnostics"`
}

type workflowStep struct {
	ID          string `json:"step"`
	Kind        string `json:"kind"`
	Description string `json:"description,omitempty"`
}

type stepContract struct {
	Step     string `json:"step"`
	Kind     string `json:"kind"`
	Contract any    `json:"contract,omitempty" doc:"What the reply of the model must be"`
}

type validateBody struct {
	Path string `json:"path" doc:"Under which name the text is checked; it need not exist"`
	Text string `json:"text"`
}

// registerWorkflows registers the routes of workflows. They read the files of the project with each request.
func (s *Server) registerWorkflows() {
	const tag = "Workflows"
	handleJSON(s, http.MethodGet, "/workflows", identity.Read, "List workflows", tag,
		func(ctx context.Context, _ *struct{}) (*workflowList, error) {
			found, err := s.o.App.Workflows(ctx, catalog.ReadOptions{})
			if err != nil {
				return nil, err
			}
			list := append([]api.Workflow{}, xslices.Map(found.Workflows, api.NewWorkflow)...)
			return &workflowList{Workflows: list}, nil
		})
	handleJSON(s, http.MethodGet, "/workflows/{workflow}", identity.Read, "Describe a workflow", tag,
		ofWorkflow(s.analyze, func(an *app.Analysis) (*workflowDetail, error) {
			return describe(an), nil
		}))
	handle(s, http.MethodGet, "/workflows/{workflow}/source", identity.Read, "Get the source of a workflow", tag,
		ofWorkflow(s.analyze, func(an *app.Analysis) (*bytesBody, error) {
			return &bytesBody{"text/plain; charset=utf-8", []byte(an.File.Text)}, nil
		}), produces("text/plain"))
	handleJSON(s, http.MethodGet, "/workflows/{workflow}/cost", identity.Read,
		"Compute the worst-case cost of a workflow", tag, func(ctx context.Context, in *struct {
			WorkflowPath
			Model string `query:"model" doc:"Replaces the models that the steps name"`
		},
		) (*any, error) {
			an, err := s.usable(ctx, in.Workflow)
			if err != nil {
				return nil, err
			}
			var cost any
			cost, err = s.o.App.Cost(an, in.Model)
			return &cost, err
		})
	handle(s, http.MethodGet, "/workflows/{workflow}/graph", identity.Read, "Draw a workflow", tag,
		ofWorkflow(s.usable, func(an *app.Analysis) (*bytesBody, error) {
			svg, err := drawSVG(an.Graph(graph.Options{}))
			return &bytesBody{"image/svg+xml", svg}, err
		}), produces("image/svg+xml"))
	handleJSON(s, http.MethodGet, "/workflows/{workflow}/steps/{step}", identity.Read, "Describe a step", tag,
		func(ctx context.Context, in *struct {
			WorkflowPath
			Step string `path:"step"`
		},
		) (*stepContract, error) {
			an, err := s.usable(ctx, in.Workflow)
			if err != nil {
				return nil, err
			}
			step := an.Program.Step(ir.Body, in.Step)
			if step == nil {
				return nil, &Problem{
					Status: http.StatusNotFound, Code: "no-step", Detail: "The workflow has no such step.",
				}
			}
			out := &stepContract{Step: step.ID, Kind: step.Type}
			if c, ok := an.Contract(step); ok {
				out.Contract = c
			}
			return out, nil
		})
	handleJSON(s, http.MethodPost, "/validate", identity.Read, "Check the text of a workflow", tag,
		func(ctx context.Context, in *struct{ Body validateBody }) (*workflowDetail, error) {
			an, err := s.o.App.Analyze(ctx, app.AnalyzeRequest{
				Workflow: in.Body.Path, Unsaved: map[string]string{in.Body.Path: in.Body.Text}, Listed: true,
			})
			if err != nil {
				return nil, err
			}
			return describe(an), nil
		})
}

// ofWorkflow returns a handler of requests about one workflow.
func ofWorkflow[Out any](
	analyze func(ctx context.Context, workflow string) (*app.Analysis, error), do func(*app.Analysis) (*Out, error),
) func(context.Context, *WorkflowPath) (*Out, error) {
	return func(ctx context.Context, in *WorkflowPath) (*Out, error) {
		an, err := analyze(ctx, in.Workflow)
		if err != nil {
			return nil, err
		}
		return do(an)
	}
}

// analyze reads a workflow of the project. Listed keeps a request from reading other files by their paths.
func (s *Server) analyze(ctx context.Context, workflow string) (*app.Analysis, error) {
	return s.o.App.Analyze(ctx, app.AnalyzeRequest{Workflow: workflow, Listed: true})
}

// usable returns a workflow without errors.
func (s *Server) usable(ctx context.Context, workflow string) (*app.Analysis, error) {
	an, err := s.analyze(ctx, workflow)
	if err != nil {
		return nil, err
	}
	return an, an.Err()
}

// describe returns the description of a workflow in the API. If the file cannot be compiled, that is its name and its
// diagnostics. Steps that a format adds (Implied) are left out.
func describe(an *app.Analysis) *workflowDetail {
	counts := an.Counts()
	out := &workflowDetail{
		Workflow: api.Workflow{
			Name: an.Name(), Path: an.File.Path, Format: an.Format,
			Errors: counts["errors"], Warnings: counts["warnings"],
		},
		Steps:       []workflowStep{},
		Diagnostics: diag.NewReport(an.Files, an.Diagnostics).Diagnostics,
	}
	p := an.Program
	if p == nil {
		return out
	}
	out.Description, out.Level, out.Triggers = p.Description, p.Level, api.Triggers(p)
	if p.Input != nil {
		out.InputSchema = p.Input.Schema
	}
	if p.Output != nil {
		out.OutputSchema = p.Output.Schema
	}
	for _, block := range p.Blocks {
		for _, step := range block.Steps {
			if !step.Implied {
				out.Steps = append(out.Steps, workflowStep{ID: step.ID, Kind: step.Type, Description: step.Description})
			}
		}
	}
	return out
}
