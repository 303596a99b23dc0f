package temporal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/journal"
)

// workflowVersion is the version of the code that decides in workflows. Workers of
// the same version can replay each other's histories, so they share task queues,
// whatever build they are. Increase it when a stored history in testdata/histories
// cannot be replayed anymore, and store histories of the new version.
//
// Every version has task queues of its own. So a workflow is pinned to the version
// that it started with until it continues as a new one, from a snapshot, which all
// later versions read. Worker Deployments of Temporal would do the same, but every
// project needs one, and a namespace can have 100.
const workflowVersion = 1

// queue is the task queue of the workflows of this engine's version and of their
// tasks.
func (e *Engine) queue() string { return queueOf(e.c.TaskQueue, e.c.Version) }

// queueOf returns the task queue of a version. The queue of the first one has the
// name that is configured.
func queueOf(name string, version int) string {
	if version == 1 {
		return name
	}
	return fmt.Sprintf("%s-v%d", name, version)
}

// versionOf is the inverse of queueOf. It returns 0 for other names.
func versionOf(name, queue string) int {
	if queue == name {
		return 1
	}
	version, err := strconv.Atoi(strings.TrimPrefix(queue, name+"-v"))
	if err != nil || queueOf(name, version) != queue {
		return 0
	}
	return version
}

// VersionError means that another version of Espalier has to drive a run.
type VersionError struct {
	Run     journal.RunID
	Version int // of the workflow
	This    int
}

func (e *VersionError) Error() string {
	if e.Version > e.This {
		return fmt.Sprintf("run %s is driven by workers of a later version of Espalier: upgrade this one", e.Run)
	}
	return fmt.Sprintf("run %s was started by an earlier version of Espalier that has to hand it over, and no worker "+
		"of that version answers: start \"espalier work\" of the earlier version, and stop it when the run has "+
		"continued", e.Run)
}

// handOver makes workers of a later version continue the run as soon as no task
// runs.
func (d *driver) handOver(_ workflow.Context, version int) error {
	if version > d.e.c.Version {
		d.successor = max(d.successor, version)
	}
	d.woken = true
	return nil
}

// handOverTime is how long workers of an earlier version have to answer.
const handOverTime = 10 * time.Second

// takeOver asks workers of an earlier version to hand a run over, if they drive it.
// It returns when they have agreed.
func (e *Engine) takeOver(ctx context.Context, id journal.RunID) error {
	found, err := e.client.DescribeWorkflowExecution(ctx, e.workflowID(id), "")
	switch {
	case isNotFound(err):
		return nil // it is yet to start
	case err != nil:
		return err
	case found.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return nil
	}
	if err := e.readable(found); err != nil {
		return err
	}
	if ended, err := e.endReset(ctx, found); ended || err != nil {
		return err
	}
	// The task queue of an execution never changes, so its name tells the version.
	version := versionOf(e.c.TaskQueue, found.GetExecutionConfig().GetTaskQueue().GetName())
	switch {
	case version == e.c.Version || version == 0:
		return nil
	case version > e.c.Version:
		return &VersionError{Run: id, Version: version, This: e.c.Version}
	}
	limit, stop := context.WithTimeout(ctx, handOverTime)
	defer stop()
	err = e.update(limit, id, handOverName, nil, e.c.Version)
	if limit.Err() != nil && ctx.Err() == nil {
		return &VersionError{Run: id, Version: version, This: e.c.Version}
	}
	if errors.Is(err, errEnded) {
		return nil // it has finished since
	}
	return err
}

// takeOverAll asks workers of earlier versions for all their runs, again and again:
// they may start new ones as long as they work.
func (e *Engine) takeOverAll(ctx context.Context) {
	for again := true; again; again = pause(ctx, takeOverInterval) {
		for version := 1; version < e.c.Version; version++ {
			if err := e.takeOverFrom(ctx, version); err != nil && ctx.Err() == nil {
				e.Log.Warn("runs of an earlier version not taken over", "version", version, "error", err)
			}
		}
	}
}

// takeOverInterval is how often a worker looks for runs of earlier versions.
const takeOverInterval = 30 * time.Second

// takeOverFrom asks the workers of one version for all open runs of this project. The task queue names project and
// version.
func (e *Engine) takeOverFrom(ctx context.Context, version int) error {
	query := fmt.Sprintf("TaskQueue = %q AND ExecutionStatus = 'Running'", queueOf(e.c.TaskQueue, version))
	for token, more := []byte(nil), true; more; more = len(token) > 0 {
		found, err := e.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: e.c.Namespace, Query: query, NextPageToken: token,
		})
		if err != nil {
			return err
		}
		token = found.GetNextPageToken()
		for _, one := range found.GetExecutions() {
			id := one.GetExecution().GetWorkflowId()
			if err := e.takeOver(ctx, journal.RunID(id[strings.LastIndexByte(id, '/')+1:])); err != nil {
				return err // probably for all others, too
			}
		}
	}
	return nil
}
