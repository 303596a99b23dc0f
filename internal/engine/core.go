package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/step"
)

// Core is what engines share. It is safe for concurrent use.
type Core struct {
	Config
	reader journal.Reader
	// Launch makes the start of a run durable and drives the run. An engine sets it before it is used.
	Launch func(ctx context.Context, id journal.RunID, b *RunStart) error

	mu       sync.Mutex
	compiled map[string]*loadOnce // by the definition's hash; guarded by mu
}

// NewCore returns the core of an engine whose runs are in a journal.
func NewCore(c Config, reader journal.Reader) *Core {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &Core{Config: c, reader: reader, compiled: map[string]*loadOnce{}}
}

// Runner returns the runner of a step kind; nil if there is none.
func (c *Core) Runner(kind string) step.Runner { return c.Runners[kind] }

// Compiled is a definition that has been decoded and compiled.
type Compiled struct {
	Definition *Definition
	program    *plan.Program
	hasSecrets bool // its text contains marks of secrets
	capsMoney  bool // it has a budget of money
}

// decodeCompiled decodes and compiles the stored form of a definition.
func decodeCompiled(raw []byte) (*Compiled, error) {
	def, err := decodeDefinition(raw)
	if err != nil {
		return nil, err
	}
	return &Compiled{
		Definition: def, program: plan.Compile(def.Program), hasSecrets: secret.Hides(raw),
		capsMoney: def.Program.CapsMoney(),
	}, nil
}

// loadOnce is a definition that is compiled at most once.
type loadOnce struct {
	once sync.Once
	*Compiled
	err error
}

// once returns a compiled definition. Concurrent callers share one call of
// load. An error is not kept: the next caller tries again.
func (c *Core) once(hash string, load func() (*Compiled, error)) (*Compiled, error) {
	// Only the lookup is under c.mu: load reads the store, and other definitions must not wait for it.
	c.mu.Lock()
	p := c.compiled[hash]
	if p == nil {
		p = &loadOnce{}
		c.compiled[hash] = p
	}
	c.mu.Unlock()
	p.once.Do(func() { p.Compiled, p.err = load() })
	if p.err == nil {
		return p.Compiled, nil
	}
	c.mu.Lock()
	// Another caller may have replaced the failed entry already.
	if c.compiled[hash] == p {
		delete(c.compiled, hash)
	}
	c.mu.Unlock()
	return nil, p.err
}

// Compiled returns a definition that the journal has, by its hash.
func (c *Core) Compiled(ctx context.Context, hash string) (*Compiled, error) {
	return c.once(hash, func() (*Compiled, error) {
		raw, err := c.reader.Blob(ctx, hash)
		if err != nil {
			return nil, err
		}
		return decodeCompiled(raw)
	})
}

// Program returns the program of a definition with access to large values. The compiled form is shared. The result is
// the caller's own, which may replace its functions.
func (c *Core) Program(def *Compiled) *plan.Program {
	p := *def.program
	p.CheckOutput, p.CheckVariable, p.FillInput = c.CheckOutput, c.CheckVariable, c.FillInput
	p.Blobs = c.blob
	p.Instant = c.instant
	return &p
}

// instant reports whether a task neither waits nor acts outside of the run.
func (c *Core) instant(t *ir.Task) bool {
	runner, ok := c.Runner(t.Kind).(step.Instant)
	return ok && runner.Instant(t)
}

// RunStart is how a run starts: its definition, its first fact, and the blobs
// that the fact refers to.
type RunStart struct {
	Definition *Compiled
	Started    journal.RunStarted
	Blobs      []journal.Blob
	Edits      []plan.Edit // of variables, before the first step
}

// Start implements Driver.
func (c *Core) Start(
	ctx context.Context, id journal.RunID, def *Definition, input, options json.RawMessage, by journal.Actor,
) error {
	b, err := c.newRunStart(def, input, options, by)
	if err != nil {
		return err
	}
	return c.Launch(ctx, id, b)
}

// StartFrom implements Driver.
func (c *Core) StartFrom(
	ctx context.Context, id, old journal.RunID, step string, by journal.Actor, edits ...plan.Edit,
) error {
	b, err := c.newRunStartFrom(ctx, old, step, by, edits...)
	if err != nil {
		return err
	}
	return c.Launch(ctx, id, b)
}

// newRunStart returns the start of a run of a definition, with all secrets masked.
func (c *Core) newRunStart(def *Definition, input, options json.RawMessage, by journal.Actor) (*RunStart, error) {
	raw, hash, err := def.Encode()
	if err != nil {
		return nil, err
	}
	// If the text contains secrets, the run gets the masked text, and is compiled from it: what executes equals what is
	// stored.
	load := func() (*Compiled, error) { return def.compiled, nil }
	if hidden := c.Secrets.Hide(raw); !bytes.Equal(hidden, raw) {
		raw, hash = hidden, hashOf(hidden)
		load = func() (*Compiled, error) { return decodeCompiled(hidden) }
	}
	compiled, err := c.once(hash, load)
	if err != nil {
		return nil, err
	}
	b := &RunStart{Definition: compiled, Blobs: []journal.Blob{{Hash: hash, Data: raw}}}
	value, blob := KeepValue(c.Secrets.Hide(input))
	if blob != nil {
		b.Blobs = append(b.Blobs, *blob)
	}
	p := compiled.Definition.Program
	b.Started = journal.RunStarted{
		Name: p.Name, Format: p.Format, Definition: hash, Input: value, Options: c.Secrets.Hide(options), By: by,
		Vars: c.initialVars(p), Budget: plan.LimitsOf(p),
	}
	return b, nil
}

// newRunStartFrom returns the start of a run that continues from a step of another one, with the same definition and
// options and the values of that time, except for the edits.
func (c *Core) newRunStartFrom(
	ctx context.Context, old journal.RunID, step string, by journal.Actor, edits ...plan.Edit,
) (*RunStart, error) {
	_, program, def, err := c.Load(ctx, old)
	if err != nil {
		return nil, err
	}
	if err := program.CheckReturn(step); err != nil {
		return nil, err
	}
	// The values at the step, which the edits must fit.
	was, err := c.inherited(ctx, old, step)
	if err != nil {
		return nil, err
	}
	for i := range edits {
		if err := was.CheckEdit(program, &edits[i]); err != nil {
			return nil, err
		}
	}
	// The first fact of the old run has its input and options.
	var started journal.RunStarted
	for event, err := range c.reader.Events(ctx, old, 0) {
		if err != nil {
			return nil, err
		}
		started, _ = event.Fact.(journal.RunStarted)
		break
	}
	// Folders for the files of the run are made before anything is stored. A crash leaves an unused folder.
	vars, err := c.renewFolders(def.Program, was.Vars)
	if err != nil {
		return nil, err
	}
	if err := c.inheritFiles(ctx, def.Program, step, started.Input, was.Vars, vars, edits); err != nil {
		return nil, err
	}
	raw, hash, err := def.Encode()
	if err != nil {
		return nil, err
	}
	compiled, err := c.once(hash, func() (*Compiled, error) { return def.compiled, nil })
	if err != nil {
		return nil, err
	}
	b := &RunStart{
		Definition: compiled, Blobs: []journal.Blob{{Hash: hash, Data: raw}}, Edits: edits, Started: started,
	}
	b.Started.Definition, b.Started.Vars, b.Started.By = hash, vars, by
	b.Started.Budget, b.Started.Approved = plan.LimitsOf(def.Program), was.Approved
	b.Started.From = &journal.Origin{Run: old, Step: step}
	// A store keeps a blob as long as a run uses it. The new run has to bring its blobs, so that removing the old run
	// does not remove them.
	values := []journal.Value{b.Started.Input}
	for _, v := range vars {
		values = append(values, v)
	}
	for _, v := range values {
		known := func(blob journal.Blob) bool { return blob.Hash == v.Hash }
		if v.Hash == "" || slices.ContainsFunc(b.Blobs, known) {
			continue
		}
		data, err := c.reader.Blob(ctx, v.Hash)
		if err != nil {
			return nil, err
		}
		b.Blobs = append(b.Blobs, journal.Blob{Hash: v.Hash, Data: data})
	}
	return b, nil
}

// renewFolders returns the variables of a run for one that continues it, which
// has folders of its own.
func (c *Core) renewFolders(p *ir.Program, was map[string]journal.Value) (map[string]journal.Value, error) {
	renewed := map[string]bool{}
	fresh := c.fromMachine(p, func(v *ir.Var) bool {
		if _, had := was[v.Path]; had && v.NewFolder() {
			renewed[v.Path] = true
		}
		return renewed[v.Path]
	})
	if len(fresh) < len(renewed) {
		return nil, errors.New("cannot create a folder for the files of the run")
	}
	vars := maps.Clone(was)
	maps.Copy(vars, fresh)
	return vars, nil
}

// inheritFiles copies the files of a run to the folder of one that continues it
// from a step.
func (c *Core) inheritFiles(
	ctx context.Context, p *ir.Program, step string, input journal.Value, was, now map[string]journal.Value,
	edits []plan.Edit,
) error {
	if c.Inherit == nil || !slices.ContainsFunc(p.Vars, func(v ir.Var) bool { return v.NewFolder() }) {
		return nil
	}
	var failed error
	raw := func(v journal.Value) json.RawMessage {
		if v.Hash == "" {
			return v.JSON
		}
		data, err := c.reader.Blob(ctx, v.Hash)
		failed = errors.Join(failed, err)
		return data
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(raw(input), &given) // other inputs have no parts
	// Settings of formats name files by variables or by inputs; both runs have the same input.
	reader := func(vars map[string]journal.Value) func(path string) json.RawMessage {
		return func(path string) json.RawMessage {
			if name, ok := strings.CutPrefix(path, "input."); ok {
				return given[name]
			}
			return raw(vars[path])
		}
	}
	edited := maps.Clone(now)
	for _, edit := range edits {
		edited[edit.Path] = journal.Value{JSON: c.Secrets.Hide(edit.Value)}
	}
	err := c.Inherit(p, step, reader(was), reader(edited))
	return errors.Join(failed, err)
}

// initialVars returns the variables that a run starts with. Those that its
// children take from the machine are included: a child may start much later,
// on another machine.
func (c *Core) initialVars(p *ir.Program) map[string]journal.Value {
	vars := plan.InitialVars(p)
	maps.Copy(vars, c.fromMachine(p, func(*ir.Var) bool { return true }))
	return vars
}

// fromMachine returns the wanted variables that a program and its children take
// from the machine.
func (c *Core) fromMachine(p *ir.Program, wanted func(*ir.Var) bool) map[string]journal.Value {
	vars := map[string]journal.Value{}
	for one := range p.All() {
		for i := range one.Vars {
			v := &one.Vars[i]
			if v.From == "" || c.Machine == nil || !wanted(v) {
				continue
			}
			if text, ok := c.Machine(v.From); ok {
				raw, err := step.Encode(text)
				if err == nil { // a string always encodes
					vars[v.Path] = journal.Value{JSON: c.Secrets.Hide(raw)}
				}
			}
		}
	}
	return vars
}

// largeValue is the size in bytes above which a value is stored as a blob.
const largeValue = 256 << 10

// KeepValue returns the value for JSON, and its blob if it is large.
func KeepValue(raw json.RawMessage) (journal.Value, *journal.Blob) {
	if len(raw) <= largeValue {
		return journal.Value{JSON: raw}, nil
	}
	hash := hashOf(raw)
	return journal.Value{Hash: hash, Size: len(raw)}, &journal.Blob{Hash: hash, Data: raw}
}
