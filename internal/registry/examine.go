package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/secret"
)

// Component is the state of something that runs may need.
type Component struct {
	What  string `json:"what"`  // "provider", "secret", "model"
	Name  string `json:"name"`  // "anthropic"
	State string `json:"state"` // one of the states
	About string `json:"about"` // where it is, or what is wrong with it
	Fix   string `json:"fix,omitempty"`
}

// The states of a Component.
const (
	ComponentOK      = "ok"
	ComponentMissing = "missing" // needed by what is configured
	ComponentUnset   = "unset"   // not configured, and optional
	ComponentBroken  = "broken"  // configured, but it does not work
)

// reachSeconds is the time limit of a request that checks a server.
const reachSeconds = 10

// Examine returns the state of everything that is configured. With reach, it checks that the servers are reachable and
// accept the keys, which costs nothing: it lists models. Servers are asked in parallel. The built-in
// providers come before the others, which are in the order of the configuration.
func (m *Models) Examine(ctx context.Context, reach bool) []Component {
	var out []Component
	for _, s := range m.config.Secrets {
		out = append(out, m.examineSecret(ctx, s.Name.Value, s.Is))
	}
	out = append(out, m.examineDefault()) // before the providers, which may be the reason for its state
	names := m.Providers()
	found := make([]Component, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { found[i] = m.examineProvider(ctx, name, reach) })
	}
	all.Wait()
	out = append(out, found...)
	out = append(out, m.examineCLIs(ctx)...)
	for i := range out { // a server may quote the key that it rejects
		out[i].About, out[i].Fix = m.Secrets.Show(out[i].About), m.Secrets.Show(out[i].Fix)
	}
	return out
}

func (m *Models) examineSecret(ctx context.Context, name string, s config.Secret) Component {
	f := Component{What: "secret", Name: name, State: ComponentOK, About: "from " + s.Place()}
	if len(s.Command) > 0 {
		f.About += ", which is not run for this check"
		return f
	}
	value, err := s.Value(ctx, m.root, m.getenv)
	switch {
	case err != nil:
		f.State, f.About, f.Fix = ComponentMissing, err.Error(), "Put the secret into "+s.Place()+"."
	case !secret.Hideable(value):
		f.State, f.About = ComponentBroken, fmt.Sprintf("fewer than %d characters, so it cannot be hidden in records",
			secret.Least)
		f.Fix = "Use a longer secret."
	}
	return f
}

// examineProvider returns the state of a provider. A provider that is not declared and has no key is Unset and no
// fault; a declared one without its key is Missing. A server that answers 404 is reachable: not every server lists its
// models.
func (m *Models) examineProvider(ctx context.Context, name string, reach bool) Component {
	s, _ := m.server(name)
	declared := slices.ContainsFunc(m.config.Models.Providers,
		func(p config.Named[config.Provider]) bool { return p.Name.Value == name })
	f := Component{What: "provider", Name: name, State: ComponentOK, About: "ready"}
	if s.base != "" {
		f.About = "at " + s.base
	}
	place := m.keyPlace(s)
	found := "" // where the key was found, for other failures
	if place != "" {
		f.About += ", key in " + place
		found = "key in " + place + " found; "
	}
	if t := m.lacksKey(s); t != nil {
		f.State, f.About, f.Fix = ComponentUnset, t.Message, t.Help
		if declared {
			f.State = ComponentMissing
		}
		return f
	}
	if !declared && s.keyless && m.getenv("OLLAMA_HOST") == "" {
		// It is neither declared nor in the environment.
		f.State, f.About, f.Fix = ComponentUnset, "not checked (set OLLAMA_HOST to check)", ""
		return f
	}
	if !reach {
		return f
	}
	limited, stop := context.WithTimeout(ctx, reachSeconds*time.Second)
	defer stop()
	err := m.unwrappedModel(s).Reach(limited)
	var failed *provider.Error
	switch {
	case err == nil:
		f.About += ", reachable"
		if s.base == "" {
			f.About = "reachable, key accepted"
			if place != "" {
				f.About = "reachable, key in " + place + " accepted"
			}
		}
	case errors.As(err, &failed) && failed.Class == ir.ClassMissing:
		f.State, f.About, f.Fix = ComponentBroken, found+failed.Message, "Check the key of "+name+"."
		if place != "" {
			f.Fix = "Check the key in " + place + "."
		}
	case errors.As(err, &failed) && failed.Status == 404:
		f.About += ", reachable" // not every server lists its models
	case errors.As(err, &failed):
		f.State, f.About = ComponentBroken, found+failed.Message
		f.Fix = "Check the network and the address of " + name + "."
	default:
		f.State, f.About, f.Fix = ComponentBroken, found+err.Error(), "Check the network and the address of "+name+"."
	}
	return f
}

// keyPlace returns where the key of a server is found; empty if it has none.
func (m *Models) keyPlace(s server) string {
	if name, ok := config.Reference(s.settings.Key.Value); ok {
		return "secret " + name
	}
	if env := s.settings.KeyEnv.Value; env != "" {
		return env
	}
	if i := slices.IndexFunc(s.ambient, func(env string) bool { return m.getenv(env) != "" }); i >= 0 {
		return s.ambient[i]
	}
	return ""
}

func (m *Models) examineDefault() Component {
	f := Component{What: "model", Name: "default", State: ComponentOK}
	choice, problem := m.Choose("")
	if problem != nil {
		f.State, f.About, f.Fix = ComponentMissing, problem.Message, problem.Help
		return f
	}
	f.About = choice.String()
	if place := m.keyPlace(choice.server); place != "" {
		f.About += ", key in " + place
	}
	if t := m.lacksKey(choice.server); t != nil {
		f.State, f.About, f.Fix = ComponentMissing, choice.String()+": "+t.Message, t.Help
	}
	if _, known := m.Price(choice); !known {
		f.About += "; its price is not known"
	}
	return f
}

// ExamineStore returns the state of the store of a project whose storage folder is dir. With reach, it asks a database
// whether it can be used, which changes nothing. The error says why it cannot.
func ExamineStore(
	ctx context.Context, dir string, c *config.Config, getenv func(string) string, reach bool,
) (Component, error) {
	f := Component{What: "store", Name: "SQLite", State: ComponentOK}
	url, err := StoreURL(c, getenv)
	if url == "" && err == nil {
		return examineFile(f, filepath.Join(dir, JournalFile))
	}
	f.Name, f.State = "PostgreSQL", ComponentBroken
	if c.Store.Unapproved && getenv(StoreVariable) == "" {
		f.State, f.About, f.Fix = ComponentMissing, config.NotApproved("the store in "+config.FileName), config.Approval
		return f, nil
	}
	if err != nil {
		return f, err
	}
	var info postgres.Info
	if reach {
		info, err = postgres.Inspect(ctx, url)
	} else {
		info, err = postgres.Describe(url)
	}
	if info.Address != "" {
		f.About = fmt.Sprintf("at %s, database %s, schema %s, role %s",
			info.Address, info.Database, info.Schema, info.Role)
	}
	if err != nil {
		return f, err
	}
	f.State = ComponentOK
	if !reach {
		f.About += ", not contacted"
		return f, nil
	}
	f.About += fmt.Sprintf(", version %s, answers in %.1f ms", info.Server, info.Latency.Seconds()*1e3)
	if info.Pooled {
		f.About += ", behind a pooler"
	}
	switch {
	case info.Version == 0:
		f.About += "; the first run creates the schema"
	case info.Version < info.Latest:
		f.About += fmt.Sprintf("; the next command migrates the schema from version %d to %d", info.Version,
			info.Latest)
	default:
		f.About += ", migrated"
	}
	return f, nil
}

// examineFile completes the finding of a journal in a file. It reads only the header, as the SQLite file format defines
// it: opening the database would create files beside it. An empty file is a new database.
func examineFile(f Component, path string) (Component, error) {
	const magic = "SQLite format 3\x00"
	f.About = path
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.About += ", which the first run creates"
		return f, nil
	}
	if err == nil {
		defer file.Close()
		start := make([]byte, len(magic))
		_, err = io.ReadFull(file, start)
		switch {
		case errors.Is(err, io.EOF): // empty
			err = nil
		case err == nil && string(start) != magic, errors.Is(err, io.ErrUnexpectedEOF):
			err = journal.ErrNotJournal
		}
	}
	if err != nil {
		f.State = ComponentBroken
	}
	return f, err
}

// ExamineEngine returns the state of the engine. With reach, it checks that a Temporal server is reachable.
func (m *Models) ExamineEngine(ctx context.Context, reach bool) Component {
	o := RuntimeOptions{Config: m.config, Getenv: m.getenv, Models: m}
	if !onTemporal(o) {
		return Component{What: "engine", Name: config.EngineEmbedded, State: ComponentOK, About: "part of Espalier"}
	}
	f := Component{What: "engine", Name: config.EngineTemporal, State: ComponentMissing}
	c, err := temporalServer(o)
	if err != nil && m.getenv(TemporalVariable) != "" {
		f.State, f.About = ComponentBroken, err.Error()
		f.Fix = "Set " + TemporalVariable + " to host:port or host:port/namespace."
		return f
	}
	if err != nil {
		f.About, f.Fix = config.NotApproved("the Temporal server in "+config.FileName), config.Approval
		return f
	}
	f.About = fmt.Sprintf("at %s, namespace %s", c.Shown(), cmp.Or(c.Namespace.Value, "default"))
	if !reach {
		f.State = ComponentOK
		f.About += ", not contacted"
		return f
	}
	brief, stop := context.WithTimeout(ctx, reachSeconds*time.Second)
	defer stop()
	version, limited, err := reachTemporal(brief, m.root, c, m)
	_, unbuilt := errors.AsType[StoreError](err)
	switch {
	case unbuilt:
		f.State, f.About = ComponentBroken, f.About+": "+err.Error()
		f.Fix = "Install a build of Espalier with Temporal."
	case err != nil:
		f.State, f.About = ComponentBroken, f.About+": "+m.Secrets.Show(err.Error())
		f.Fix = "Check that the Temporal server is running, and its address, namespace and credentials."
	default:
		f.State = ComponentOK
		f.About += ", version " + version + ", reachable"
		if limited != "" {
			f.About += "; " + limited
			f.Fix = "Use another namespace, or remove these search attributes from it: Espalier adds its own."
		}
	}
	return f
}

// ExamineCommands returns how commands are confined and limited on this
// machine, and what the kernel does not enforce.
func ExamineCommands(c *config.Config, confined func() (process.Confinement, error)) []Component {
	sandbox := Component{What: "sandbox", Name: "commands", State: ComponentOK}
	if is, err := confined(); err == nil {
		sandbox.About = is.String()
	} else {
		sandbox.State, sandbox.About = ComponentUnset, err.Error()
		if c.Sandbox {
			sandbox.State, sandbox.Fix = ComponentMissing, "Install bubblewrap, or remove \"sandbox: true\" from the "+
				"configuration."
		}
	}
	l := c.Commands.Or(process.DefaultLimits)
	limits := Component{What: "limits", Name: "commands", State: ComponentOK}
	limits.About = fmt.Sprintf("%d processes, %d MiB of memory, %s of processor time", l.Processes, l.Memory>>20,
		ir.Millis(l.CPU.Milliseconds()).Words())
	if os.Geteuid() == 0 {
		limits.About += "; not limited for root: processes"
	}
	if err := process.Cgroups(); err == nil {
		limits.About += "; also by cgroup v2 (untested)"
	} else {
		limits.About += fmt.Sprintf("; cgroup v2 is not used: %v", err)
	}
	return []Component{sandbox, limits}
}
