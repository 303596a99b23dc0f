package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
)

// unreachable returns the error of a server that does not answer.
func (e *Engine) unreachable(err error) error {
	return &engine.UnavailableError{
		What: "the Temporal server cannot be reached", Err: fmt.Errorf("%s: %w", e.c.Address, err),
		Temporary: isDown(err),
	}
}

// isDown reports whether a request has failed because the server did not answer.
func isDown(err error) bool {
	var (
		down   *serviceerror.Unavailable
		slow   *serviceerror.DeadlineExceeded
		waited *client.WorkflowUpdateServiceTimeoutOrCanceledError
	)
	return errors.As(err, &down) || errors.As(err, &slow) || errors.As(err, &waited) ||
		errors.Is(err, context.DeadlineExceeded)
}

// explain returns the error of a request to the server. It says so if the server does not answer or cannot be used as
// it is configured.
func (e *Engine) explain(ctx context.Context, err error) error {
	var (
		unknown *serviceerror.NamespaceNotFound
		failing *serviceerror.WorkflowNotReady
		known   *engine.UnavailableError
	)
	switch {
	case err == nil, errors.As(err, &known), ctx.Err() != nil:
		return err
	case isDown(err):
		return e.unreachable(err)
	case errors.As(err, &unknown):
		return &engine.UnavailableError{
			What: fmt.Sprintf("the Temporal server has no namespace %q", e.c.Namespace),
			Err:  fmt.Errorf("%s: %w", e.c.Address, err),
		}
	case errors.As(err, &failing):
		return &engine.UnavailableError{
			What: "the Temporal workflow of the run keeps failing", Err: err,
			Help: "See the workflow's history in Temporal. A worker may not have the secret under \"encryption\" " +
				"that the run was started with.",
		}
	}
	return err
}

// readable returns an error if this process cannot decrypt what Temporal has of a workflow.
func (e *Engine) readable(w *workflowservice.DescribeWorkflowExecutionResponse) error {
	summary := w.GetExecutionConfig().GetUserMetadata().GetSummary()
	if summary == nil {
		return nil
	}
	var text string
	if err := e.payloads.FromPayload(summary, &text); err != nil {
		return &engine.UnavailableError{
			What: "the run cannot be read in Temporal", Err: err,
			Help: "It was started with another secret under \"encryption\". Add that secret, and restart workers " +
				"that do not have it.",
		}
	}
	return nil
}

// outage is what is known about the server at an address.
type outage struct {
	down   atomic.Bool  // requests have failed because it did not answer
	failed atomic.Int64 // when the last one has, in nanoseconds
}

// begin notes that the server does not answer. The log says so once.
func (o *outage) begin(log *slog.Logger, address string, err error) {
	o.failed.Store(time.Now().UnixNano())
	if !o.down.Swap(true) {
		log.Warn("the Temporal server cannot be reached; runs wait for it", "address", address, "error", err)
	}
}

// outages are those of all servers, by address. The engines of a process share them, so that the log says it once.
var outages sync.Map

// outageOf returns what is known about the server at an address, shared with other engines.
func outageOf(address string) *outage {
	found, _ := outages.LoadOrStore(address, &outage{})
	return found.(*outage)
}

// watch is an interceptor that notices whether the server answers. The log says so once per outage.
func (e *Engine) watch(
	ctx context.Context, method string, in, out any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	err := invoke(ctx, method, in, out, c, o...)
	switch code := serviceerror.ToStatus(err).Code(); { // the library may have converted the error
	case code == codes.Unavailable:
		e.outage.begin(e.Log, e.c.Address, err)
	case code == codes.Canceled || code == codes.DeadlineExceeded: // it says nothing about the server
	case e.outage.down.Load() && time.Since(time.Unix(0, e.outage.failed.Load())) > steadyTime &&
		e.outage.down.Swap(false):
		e.Log.Info("the Temporal server can be reached again", "address", e.c.Address)
	}
	return err
}

const (
	// probeTime is how long the server may take to say that it is there, if the caller does not say that.
	probeTime = time.Second
	// steadyTime is how long requests must not fail until an outage is over: a server that starts refuses some.
	steadyTime = 2 * time.Second
)

// Ready implements engine.Remote.
func (e *Engine) Ready(ctx context.Context) error {
	if err := e.connect(ctx); err != nil {
		return err
	}
	limit := probeTime
	if p := journal.WaitLimitOf(ctx); p != nil {
		limit = p.Limit
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	_, err := e.client.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return e.unreachable(err)
	}
	return nil
}

var _ engine.Remote = (*Engine)(nil)

// explaining is a client whose errors say that the server cannot be reached. Requests that may not wait for long fail
// soon while that is so.
type explaining struct {
	client.Client
	e *Engine
}

// soon returns an error if the server is known not to answer and the caller may not wait for it.
func (c explaining) soon(ctx context.Context) error {
	if journal.WaitLimitOf(ctx) == nil || !c.e.outage.down.Load() {
		return nil
	}
	return c.e.Ready(ctx)
}

// ExecuteWorkflow implements client.Client.
func (c explaining) ExecuteWorkflow(
	ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any,
) (client.WorkflowRun, error) {
	if err := c.soon(ctx); err != nil {
		return nil, err
	}
	run, err := c.Client.ExecuteWorkflow(ctx, o, workflow, args...)
	return run, c.e.explain(ctx, err)
}

// UpdateWorkflow implements client.Client.
func (c explaining) UpdateWorkflow(
	ctx context.Context, o client.UpdateWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	if err := c.soon(ctx); err != nil {
		return nil, err
	}
	handle, err := c.Client.UpdateWorkflow(ctx, o)
	return handle, c.e.explain(ctx, err)
}

// DescribeWorkflowExecution implements client.Client.
func (c explaining) DescribeWorkflowExecution(
	ctx context.Context, id, run string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if err := c.soon(ctx); err != nil {
		return nil, err
	}
	found, err := c.Client.DescribeWorkflowExecution(ctx, id, run)
	return found, c.e.explain(ctx, err)
}
