package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/otel"
)

// flushSeconds is how long closing waits for a collector.
const flushSeconds = 5

// observedStore reports appends to telemetry, before and after them. The report before an append lets a later process
// deliver its spans if this one dies; a last fact of 0 after it means that the append has failed.
type observedStore struct {
	journal.Store
	by *otel.Exporter
}

func (s observedStore) Append(b journal.Batch, done func(error)) {
	run, last := b.Run, b.LastSeq()
	s.by.Appending(run)
	s.Store.Append(b, func(err error) {
		if err != nil {
			last = 0
		}
		s.by.Appended(run, last)
		done(err)
	})
}

// telemetryDir has the progress of the export of each run.
func (r *Runtime) telemetryDir() string { return filepath.Join(r.records(), "telemetry") }

// observed returns the store that the engine writes to. It reports appends to telemetry, if that is configured.
func (r *Runtime) observed(store journal.Store, o RuntimeOptions) journal.Store {
	if !otel.MayBeEnabled(o.Getenv) || r.copied != "" {
		return store
	}
	r.telemetry = otel.New(otel.Options{
		Settings: otel.FromEnvironment(o.Getenv), Dir: r.telemetryDir(), Source: store, Program: r.Program,
		Process: r.Process.ID(), Gone: r.Process.Dead, Version: o.Version,
		Lock: func() (otel.Lock, error) { return filelock.Open(filepath.Join(r.telemetryDir(), ".lock")) },
		Origin: func(s journal.RunStarted) (otel.Link, bool) {
			var options RunOptions
			if json.Unmarshal(s.Options, &options) != nil {
				return otel.Link{}, false
			}
			return otel.ParseTraceParent(options.TraceParent)
		},
	})
	return observedStore{store, r.telemetry}
}

// DeliverTelemetry starts the delivery of data that killed processes have left. In a process that drives runs, the
// first append starts it.
func (r *Runtime) DeliverTelemetry() {
	if r.telemetry != nil {
		r.telemetry.Start()
	}
}

// endTelemetry delivers what is left, and reports once what could not be delivered.
func (r *Runtime) endTelemetry() {
	if r.telemetry == nil {
		return
	}
	s := r.telemetry.Close(flushSeconds * time.Second)
	for _, p := range s.Problems {
		r.notice(fmt.Sprintf("Telemetry: %s. %s", p, p.Help))
	}
	if s.Unreadable != nil {
		r.notice(fmt.Sprintf("Telemetry: the spans of a run could not be created: %v.", s.Unreadable))
	}
	at := ""
	if s.Problem != "" {
		at = " (" + s.To + ": " + s.Problem + ")"
	}
	switch {
	case s.Waiting > 0:
		r.notice(fmt.Sprintf("Telemetry: %s could not be delivered%s. They are kept, and delivered with the next run "+
			"here.", spans(s.Waiting), at))
	case s.Refused > 0:
		r.notice(fmt.Sprintf("Telemetry: the collector refused %s%s.", spans(s.Refused), at))
	case s.Unmeasured:
		r.notice(fmt.Sprintf("Telemetry: the collector does not accept metrics%s. Set OTEL_METRICS_EXPORTER=none to "+
			"send none.", at))
	case s.Measured:
		r.notice(fmt.Sprintf("Telemetry: metrics could not be delivered%s. They are kept, and delivered with the "+
			"next run here.", at))
	}
}

func spans(n int) string {
	if n == 1 {
		return "1 span"
	}
	return fmt.Sprintf("%d spans", n)
}

// TelemetryMayBeEnabled reports whether telemetry may be enabled. It is cheap.
func TelemetryMayBeEnabled(getenv func(string) string) bool { return otel.MayBeEnabled(getenv) }

// ExamineTelemetry returns where traces and metrics go. With reach, it sends each collector an empty request.
func ExamineTelemetry(ctx context.Context, getenv func(string) string, reach bool) []Component {
	if !otel.MayBeEnabled(getenv) {
		return []Component{{
			What: "telemetry", Name: "OpenTelemetry", State: ComponentUnset,
			About: "nothing is exported; " + otel.VariableEndpoint + " is not set",
		}}
	}
	s := otel.FromEnvironment(getenv)
	var out []Component
	for _, p := range s.Problems {
		out = append(out, Component{
			What: "telemetry", Name: p.Variable, State: ComponentBroken, About: p.Why, Fix: p.Help,
		})
	}
	signals := []struct {
		name string
		to   *otel.Endpoint
	}{{"traces", s.Traces}, {"metrics", s.Metrics}}
	found := make([]Component, len(signals))
	var all sync.WaitGroup
	for i, signal := range signals {
		all.Go(func() { found[i] = examineSignal(ctx, signal.name, signal.to, s.Content, reach) })
	}
	all.Wait()
	return append(out, found...)
}

// portHint returns advice if the port is the usual one for gRPC.
func portHint(to *otel.Endpoint) string {
	if u, err := url.Parse(to.URL); err == nil && u.Port() == "4317" {
		return "Port 4317 is usually for gRPC; try 4318, which is for HTTP. "
	}
	return ""
}

// examineSignal returns where one signal goes; with reach, whether the collector accepts it.
func examineSignal(ctx context.Context, name string, to *otel.Endpoint, content, reach bool) Component {
	f := Component{What: "telemetry", Name: name, State: ComponentUnset, About: "not exported"}
	if to == nil {
		return f
	}
	f.State, f.About = ComponentOK, "to "+to.Shown()
	if reach {
		limited, stop := context.WithTimeout(ctx, reachSeconds*time.Second)
		defer stop()
		if err := to.Reach(limited); err != nil {
			f.State, f.About = ComponentBroken, f.About+", but "+err.Error()
			f.Fix = portHint(to) +
				"Check that a collector accepts OTLP over HTTP there, and the headers in " +
				"OTEL_EXPORTER_OTLP_HEADERS. Runs continue without it."
			return f
		}
		f.About += ", reachable"
	}
	if content && name == "traces" {
		f.About += "; with prompts and replies"
	}
	return f
}
