package registry

import (
	"strings"

	"github.com/espalier-run/espalier/internal/config"
)

// TemporalVariable names the environment variable with the address of the
// Temporal server that drives runs: host:port or host:port/namespace. It
// overrides the project's configuration.
const TemporalVariable = "ESPALIER_TEMPORAL"

// onTemporal reports whether Temporal drives the runs.
func onTemporal(o RuntimeOptions) bool {
	return o.Getenv(TemporalVariable) != "" || o.Config.Engine == config.EngineTemporal
}

// temporalServer returns how the Temporal server is reached.
func temporalServer(o RuntimeOptions) (*config.Temporal, error) {
	c := o.Config.Temporal
	if chosen := o.Getenv(TemporalVariable); chosen != "" {
		if address, namespace, ok := strings.Cut(chosen, "/"); ok {
			c.Address.Value, c.Namespace.Value = address, namespace
		} else {
			c.Address.Value = chosen
		}
	} else if c.Withheld {
		return nil, StoreError(config.NotApproved("the Temporal server in "+config.FileName) + ". " + config.Approval)
	}
	return &c, nil
}
