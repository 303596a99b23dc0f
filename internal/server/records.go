package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/terminal"
	"github.com/espalier-run/espalier/internal/xslices"
)

const jsonLines = "application/x-ndjson"

type artifact struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

type artifactList struct {
	Artifacts []artifact `json:"artifacts"`
}

type verification struct {
	Verified bool              `json:"verified"`
	Logs     []app.AuditReport `json:"logs"`
}

// streamedBody is a response that is written while it is read: records can be larger than memory.
type streamedBody struct {
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

// registerRecords registers the routes of what happened in a run. Records are streamed line by line; everything else is
// buffered and has an ETag.
func (s *Server) registerRecords() {
	const tag = "Records"
	// record registers a route that streams a record of a run.
	record := func(
		name, summary string, open func(context.Context, *app.Run) (io.ReadCloser, error),
		escape func(io.Writer) io.Writer,
	) {
		handle(s, http.MethodGet, "/runs/{run}/"+name, identity.Read, summary, tag,
			ofRun(s, func(ctx context.Context, r *app.Run) (*streamedBody, error) {
				lines, err := open(ctx, r)
				if err != nil {
					return nil, err
				}
				return &streamedBody{jsonLines, func(out huma.Context) {
					defer lines.Close()
					// The status is sent already: aborting the connection is the only way to report the error.
					if _, err := io.Copy(escape(out.BodyWriter()), lines); err != nil {
						panic(http.ErrAbortHandler) // the client must not mistake a part for the whole
					}
				}}, nil
			}), produces(jsonLines))
	}
	record("transcript", "Get the transcript of a run", func(ctx context.Context, r *app.Run) (io.ReadCloser, error) {
		// The transcript is written in the background.
		if err := s.o.App.Flush(ctx); err != nil {
			return nil, err
		}
		return s.o.App.Transcript(ctx, r, nil)
	}, terminal.JSON)
	// The hash of a record is the hash of its line, so the lines of the audit log are sent as they are.
	record("audit", "Get the audit log of a run", s.o.App.AuditLog, func(w io.Writer) io.Writer { return w })
	handle(s, http.MethodGet, "/runs/{run}/graph", identity.Read, "Draw a run", tag,
		ofRun(s, func(ctx context.Context, r *app.Run) (*bytesBody, error) {
			g, err := s.o.App.Graph(ctx, r, graph.Options{})
			if err != nil {
				return nil, err
			}
			svg, err := drawSVG(g)
			return &bytesBody{"image/svg+xml", svg}, err
		}), produces("image/svg+xml"))
	handleJSON(s, http.MethodGet, "/runs/{run}/audit/verify", identity.Read, "Verify the audit log of a run", tag,
		ofRun(s, func(ctx context.Context, r *app.Run) (*verification, error) {
			logs, err := s.o.App.VerifyAudit(ctx, r)
			if err != nil {
				return nil, err
			}
			out := &verification{Verified: true, Logs: logs}
			for i := range logs {
				out.Verified = out.Verified && logs[i].OK
			}
			return out, nil
		}))
	handleJSON(s, http.MethodGet, "/runs/{run}/steps/{step}", identity.Read, "Show the executions of a step", tag,
		func(ctx context.Context, in *struct {
			RunPath
			Step string `path:"step"`
		},
		) (*[]api.Execution, error) {
			r, err := s.find(ctx, in.Run)
			if err != nil {
				return nil, err
			}
			found, err := s.o.App.Executions(ctx, r.ID, in.Step)
			if err != nil {
				return nil, err
			}
			out := append([]api.Execution{}, xslices.Map(found, api.NewExecution)...)
			return &out, nil
		})
	handleJSON(s, http.MethodGet, "/runs/{run}/artifacts", identity.Read, "List the files of a run", tag,
		func(ctx context.Context, in *RunPath) (*artifactList, error) {
			list := &artifactList{Artifacts: []artifact{}}
			files, err := s.artifacts(ctx, in.Run)
			if errors.Is(err, fs.ErrNotExist) {
				return list, nil // the run has written nothing
			}
			if err != nil {
				return nil, err
			}
			defer files.Close()
			err = fs.WalkDir(files.FS(), ".", func(name string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				list.Artifacts = append(list.Artifacts, artifact{Path: name, Size: info.Size()})
				return nil
			})
			return list, err
		})
	s.mux.Handle("GET /api/v1/runs/{run}/artifacts/{path...}", s.needs(identity.Read, endpoint(s.artifact)))
	text := &huma.Schema{Type: huma.TypeString}
	s.describe(huma.Operation{
		Method: http.MethodGet, Path: "/api/v1/runs/{run}/artifacts/{path}",
		Summary: "Get a file of a run", Tags: []string{tag},
		Parameters: []*huma.Param{
			{Name: "run", In: "path", Required: true, Schema: text},
			{Name: "path", In: "path", Required: true, Schema: text},
		},
		Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: text}},
		}},
	}, identity.Read)
}

// artifact sends a file of a run. A browser must not interpret what a run has written, so it is offered as a download
// of bytes. The folder is an os.Root: links that a run has made do not lead out of it.
func (s *Server) artifact(w http.ResponseWriter, r *http.Request) error {
	missing := &Problem{Status: http.StatusNotFound, Code: "no-artifact", Detail: "The run has no such file."}
	files, err := s.artifacts(r.Context(), r.PathValue("run"))
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	if err != nil {
		return err
	}
	defer files.Close()
	raw, err := readArtifact(files.FS(), r.PathValue("path"))
	if err != nil {
		return missing
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", "attachment")
	w.Write(raw)
	return nil
}

// maxArtifact is the maximum size in bytes of a file that is returned, because it is read into memory. Larger files are
// reported as missing.
const maxArtifact = 64 << 20

// readArtifact reads a regular file of at most maxArtifact bytes. The size is checked while reading, because a run that
// is still working can extend the file.
func readArtifact(files fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) || path.Clean(name) != name {
		return nil, fs.ErrNotExist
	}
	// Before it is opened: opening a named pipe waits for a writer.
	if info, err := fs.Stat(files, name); err != nil || !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxArtifact+1))
	if err == nil && len(raw) > maxArtifact {
		err = fs.ErrInvalid
	}
	return raw, err
}

func (s *Server) artifacts(ctx context.Context, run string) (*os.Root, error) {
	r, err := s.find(ctx, run)
	if err != nil {
		return nil, err
	}
	return s.o.App.Artifacts(ctx, r)
}

func drawSVG(g *graph.Graph) ([]byte, error) {
	var out bytes.Buffer
	err := g.SVG(&out)
	return out.Bytes(), err
}
