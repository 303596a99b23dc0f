package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/format/agentfile"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// provisioner provides the models, tools and folders of tasks. The engine has one for all runs, and calls Provision
// from many goroutines.
type provisioner struct {
	dir    string // the storage folder
	runs   string // folder of the runs' folders, with a trailing separator
	root   string // of the project
	config *config.Config
	getenv func(string) string
	models *Models
	tools  *Tools
	spends *spending // nil without limits

	concurrency *concurrency // nil without limits

	mu   sync.Mutex
	envs map[string]*runEnv // by the run's options
}

func newProvisioner(dir string, o RuntimeOptions) *provisioner {
	root := filepath.Dir(dir)
	return &provisioner{
		dir: dir, runs: filepath.Join(dir, "runs") + string(filepath.Separator), root: root, config: o.Config,
		getenv: o.Getenv, models: o.Models, tools: tools(root, o),
	}
}

// tools returns the given tools, or else the project's.
func tools(root string, o RuntimeOptions) *Tools {
	if o.Tools != nil {
		return o.Tools
	}
	return NewTools(root, o.Config, o.Getenv, o.Models.Secrets)
}

// maxRunEnvs bounds the cache of environments. Options contain a trace parent or a
// seed, so a server sees new ones with almost every run.
const maxRunEnvs = 256

// runEnv is shared by all tasks of runs with the same options. It is immutable.
type runEnv struct {
	model   provider.Model
	price   func(model string) (price.Price, bool)
	tools   toolbox // for any program
	options RunOptions
	script  *scripted.Script // nil when there is none
	stream  bool             // replies are recorded as they come
}

// Provision fills in a job's model, tools, machine and folder. Whether a person has consented to commands is looked up
// for each task, because files can change while a run waits. Real models are wrapped from the inside out: spending
// limits, then limits of concurrent calls.
func (p *provisioner) Provision(job *step.Job, options json.RawMessage) error {
	o, err := p.runEnv(options)
	if err != nil {
		return err
	}
	job.Dir, job.Project = p.runs+string(job.Run), p.root
	box, consented := o.tools, p.tools.Consented(o.options, job.Dir)
	box.program, box.noShell = job.Workflow, !consented
	job.Model, job.Price, job.Tools = o.model, o.price, box
	stated := o.script != nil && o.script.StatesUsage()
	if _, real := o.model.(router); !real && !job.CapsMoney && !stated {
		job.Price = nil // there is no budget to test
	}
	if answers, real := o.model.(router); real {
		if p.spends != nil {
			by := spender{job.Workflow.Name, o.options.User, o.options.Token}
			job.Model = spendingModel{answers, p.spends, o.price, by}
		}
		if p.concurrency.limitsCalls() {
			job.Model = limitedModel{answers, job.Model, p.concurrency, job.Run, job.Workflow.Name}
		}
	}
	job.Limits, job.Consents, job.Draft = p.tools.limits, consents, agentfile.Draft
	job.RecordWrite = func(content []byte) error { return recordWrite(p.dir, content) }
	job.RecordStream, job.Untrusted = o.stream, o.options.Untrusted
	if box.simulate { // no command is started, so none needs consent or a sandbox
		job.Machine, job.MayRunCommands = simulatedMachine{seed: o.options.Seed, script: o.script}, true
		job.Simulated = true
		if o.options.Simulate && o.options.Seed > 0 {
			box.job = job
			job.Model, job.Tools = failingModel{o.model, job, o.options.Seed}, box
		}
		return nil
	}
	job.Machine, job.MayRunCommands = step.LocalMachine{}, consented || coveredByName(job.Workflow, o.options.Named)
	if o.tools.confined {
		job.Sandbox = p.tools.sandbox
	}
	return nil
}

// runEnv returns the environment of runs with these options, as the journal has them. Secrets in them are marks, which
// are replaced here. A simulated run must not make a person enter a secret, so commands that print secrets are not run
// for it.
func (p *provisioner) runEnv(options json.RawMessage) (*runEnv, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.envs[string(options)]; o != nil {
		return o, nil
	}
	var asked RunOptions
	if len(options) > 0 {
		ctx := context.Background()
		if json.Unmarshal(options, &asked) == nil && Simulates(asked) {
			ctx = secret.WithoutAsking(ctx)
		}
		revealed, err := p.models.Secrets.Reveal(ctx, options)
		if err != nil {
			return nil, err
		}
		asked = RunOptions{}
		if err := json.Unmarshal(revealed, &asked); err != nil {
			return nil, fmt.Errorf("the run's options are invalid: %w", err)
		}
	}
	script, err := scriptOf(asked)
	if err != nil {
		return nil, err
	}
	o := &runEnv{options: asked, script: script, stream: asked.RecordStream, tools: p.tools.box(asked, script)}
	// Simulated and scripted models have the prices of the real ones, so that cost budgets can be tested. Without a
	// cost budget, only scripts that state usage have a cost.
	answers := router{
		models: p.models, override: asked.Model, fallback: asked.DefaultModel, sandbox: asked.Sandbox,
		consented: asked.AllowShell,
	}
	o.model, o.price = answers, answers.price
	if asked.Simulate {
		o.model = Simulated(asked.Seed)
	}
	if script != nil {
		o.model = provider.Deadline{
			Model: script.Model(scriptOptions(asked)), After: stepkind.ModelCallSeconds * time.Second,
		}
	}
	if p.envs == nil || len(p.envs) >= maxRunEnvs {
		p.envs = map[string]*runEnv{} // they are rebuilt when they are needed again
	}
	p.envs[string(options)] = o
	return o, nil
}

// scriptOf reads the script that a run was given; nil if there is none.
func scriptOf(o RunOptions) (*scripted.Script, error) {
	if o.ScriptName == "" {
		return nil, nil
	}
	script, problems := Script(source.NewFile(o.ScriptName, o.Script))
	if problems.Errors() {
		return nil, fmt.Errorf("%s: %s", o.ScriptName, problems[0].Message)
	}
	return script, nil
}

func scriptOptions(o RunOptions) scripted.Options {
	return scripted.Options{Simulate: Simulated(o.Seed)}
}

func joinProblems(problems []schema.Problem) string {
	return strings.Join(xslices.Map(problems, schema.Problem.String), "; ")
}
