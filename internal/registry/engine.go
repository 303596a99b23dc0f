package registry

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/journal"
)

// TemporalVariable names the environment variable with the address of the
// Temporal server that drives runs: host:port or host:port/namespace. Without a
// port, it is 7233. It overrides the project's configuration.
const TemporalVariable = "ESPALIER_TEMPORAL"

// temporalPort is the port of a Temporal server if none is given.
const temporalPort = "7233"

// onTemporal reports whether Temporal drives the runs.
func onTemporal(o RuntimeOptions) bool {
	return o.Getenv(TemporalVariable) != "" || o.Config.Engine == config.EngineTemporal
}

// temporalServer returns how the Temporal server is reached.
func temporalServer(o RuntimeOptions) (*config.Temporal, error) {
	c := o.Config.Temporal
	if chosen := o.Getenv(TemporalVariable); chosen != "" {
		if strings.Contains(chosen, "://") {
			return nil, StoreError(fmt.Sprintf("%s is %q, and takes no scheme: write host:port or host:port/namespace",
				TemporalVariable, chosen))
		}
		address, namespace, named := strings.Cut(chosen, "/")
		if named {
			c.Namespace.Value = namespace
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), temporalPort)
		}
		c.Address.Value = address
	} else if c.Unapproved {
		return nil, StoreError(config.NotApproved("the Temporal server in "+config.FileName) + ". " + config.Approval)
	}
	return &c, nil
}

// OnTemporal reports whether Temporal drives the runs that this process starts.
func (r *Runtime) OnTemporal() bool {
	_, ok := r.Engine.(temporalEngine)
	return ok
}

// temporalEngine is an engine that knows which processes drive runs.
type temporalEngine interface {
	Drivers(context.Context) (map[journal.RunID][]journal.Owner, error)
	Driven(context.Context, journal.Entry) bool
}

// Drivers returns the processes that run tasks of runs on Temporal.
func (r *Runtime) Drivers(ctx context.Context) (map[journal.RunID][]journal.Owner, error) {
	if engine, ok := r.Engine.(temporalEngine); ok {
		return engine.Drivers(ctx)
	}
	return nil, nil
}

// Idle reports whether no process drives a run.
func (r *Runtime) Idle(e journal.Entry) bool {
	if e.Owner == journal.Temporal {
		return !r.Driven(e)
	}
	return e.Owner == "" || r.Process.Dead(e.Owner)
}

// Driven reports whether another process drives a run.
func (r *Runtime) Driven(e journal.Entry) bool {
	if e.Owner != journal.Temporal {
		return e.Owner != "" && r.Process.Drives(e.Owner)
	}
	engine, ok := r.Engine.(temporalEngine)
	return ok && e.Status == journal.Running && engine.Driven(context.Background(), e)
}
