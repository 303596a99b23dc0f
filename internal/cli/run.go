package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/builtin"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/source"
)

func (a *app) runCommand() *cobra.Command {
	var (
		inputs               []string
		inputFile, script    string
		simulate, noRecord   bool
		seed                 uint64
		detach, dryRun       bool
		durability, givenRun string
		force                bool
	)
	cmd := &cobra.Command{
		Use:   "run WORKFLOW [--input NAME=VALUE]… [--simulate|--script FILE]",
		Short: "Run a workflow",
		Long: `Run a workflow. Every step is durable: stop the program wherever you like, and
"espalier resume" goes on from there. The output goes to stdout, progress to
stderr. --simulate makes up the replies of models, the same ones for the same
--seed; --script plays replies from a file. Both are labelled as such wherever
they appear.`,
		Example: `  espalier run flow.md --simulate --input question="What do roses cost?"
  espalier run flow.md --simulate --input orders=@orders.json
  espalier run flow.md --script replies.script.yaml --input-file in.json`,
		Args:              takes(1, 1, "one workflow"),
		ValidArgsFunction: a.completeWorkflow,
		RunE: func(cmd *cobra.Command, args []string) error {
			an, err := a.usable(args[0])
			if err != nil {
				return err
			}
			if offDemand(an.program) && !force {
				return usage("Use --force to run it all the same.", "the workflow says \"manual: false\": it is not meant to be run by hand")
			}
			input, err := a.input(an.program, inputs, inputFile)
			if err != nil {
				return err
			}
			options := builtin.RunOptions{Simulate: simulate, Seed: seed, NoTranscript: noRecord}
			if script != "" {
				if err := a.readScript(&options, script, an.program); err != nil {
					return err
				}
			}
			if err := ready(an.program, options); err != nil {
				return err
			}
			space, err := a.workspace()
			if err != nil {
				return err
			}
			project, _, err := space.File(an.file.Path)
			if err != nil {
				return err
			}
			if dryRun {
				a.note("%s is ready to run. Nothing was started.", an.name())
				return nil
			}
			id := journal.RunID(uuid.NewString())
			if givenRun != "" {
				id = journal.RunID(givenRun)
			}
			r, err := a.runtime(project.Root, builtin.RuntimeOptions{Relaxed: durability == "relaxed"})
			if err != nil {
				return err
			}
			defer r.Close()
			def := definition(&an, project.Root)
			begin := func(ctx context.Context) error {
				return r.Engine.Start(ctx, id, def, input, options.Encode(), actor(""))
			}
			if detach {
				return a.detach(r, id, begin)
			}
			return a.drive(r, id, begin)
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringArrayVarP(&inputs, "input", "i", nil, "`NAME=VALUE`, or NAME=@FILE to read the value from a file; may be repeated")
	flags.StringVar(&inputFile, "input-file", "", "read the whole input from this JSON `FILE`")
	flags.BoolVar(&simulate, "simulate", false, "make up the replies of models and tools")
	flags.Uint64Var(&seed, "seed", 0, "which replies are made up")
	flags.StringVar(&script, "script", "", "play replies from this `FILE`")
	flags.BoolVar(&detach, "detach", false, "begin the run and leave it to \"espalier work\"")
	flags.BoolVar(&dryRun, "dry-run", false, "check that everything is ready, and start nothing")
	flags.BoolVar(&noRecord, "no-transcript", false, "write no transcript")
	flags.BoolVar(&force, "force", false, "run a workflow that is not meant to be run by hand")
	flags.StringVar(&durability, "durability", "full", "full: every step survives a power cut; relaxed: the last moments may not")
	flags.StringVar(&givenRun, "run-id", "", "the id of the new run: a UUID")
	cmd.MarkFlagsMutuallyExclusive("simulate", "script")
	cmd.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"full", "relaxed"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if durability != "full" && durability != "relaxed" {
			return usage(diag.DidYouMean(durability, []string{"full", "relaxed"}), "there is no durability %q", durability)
		}
		if givenRun != "" {
			if parsed, err := uuid.Parse(givenRun); err != nil || parsed.String() != givenRun {
				return usage("Leave it out to have one made.", "--run-id %q is not a UUID in lower case", givenRun)
			}
		}
		return nil
	}
	return cmd
}

// detach begins a run and leaves it where the next process finds it.
func (a *app) detach(r *builtin.Runtime, id journal.RunID, begin func(context.Context) error) error {
	r.Engine.Hold()
	if err := begin(context.Background()); err != nil {
		return a.runTrouble(r, err)
	}
	letGo(r)
	if a.json {
		return a.writeJSON(map[string]any{"run_id": id, "outcome": "detached"})
	}
	fmt.Fprintln(a.stdout, id)
	a.note("Begun. \"espalier work\" carries it on; so does \"espalier resume %s\".", short(id))
	return nil
}

func offDemand(p *ir.Program) bool {
	return slices.ContainsFunc(p.Triggers, func(t ir.Trigger) bool { return t.Kind == ir.OnDemand && t.Off })
}

// definition is what the run pins.
func definition(an *analysis, root string) *engine.Definition {
	path := an.file.Path
	if rel, err := filepath.Rel(root, an.file.Abs); err == nil {
		path = filepath.ToSlash(rel)
	}
	sum := sha256.Sum256([]byte(an.file.Text))
	sources := []ir.File{{Path: path, Role: "workflow", SHA256: hex.EncodeToString(sum[:])}}
	return &engine.Definition{Program: an.program, Path: path, Sources: append(sources, an.program.Files...)}
}

// ready finds out before anything starts what a run would lack.
func ready(p *ir.Program, o builtin.RunOptions) error {
	if o.Simulate || o.ScriptName != "" {
		return nil
	}
	steps := builtin.ModelSteps(p)
	if len(steps) == 0 {
		return nil
	}
	return &failure{
		code:    exitNotReady,
		message: fmt.Sprintf("no model is configured, and %s one: %s", needs(len(steps)), strings.Join(steps, ", ")),
		help:    "Nothing was started. --simulate makes up the replies, --script FILE plays them from a file.",
	}
}

func needs(n int) string {
	if n == 1 {
		return "a step needs"
	}
	return plural(n, "step") + " need"
}

// input puts the input together and holds it against its schema.
func (a *app) input(p *ir.Program, given []string, file string) (json.RawMessage, error) {
	var contract *schema.Schema
	if p.Input != nil && len(p.Input.Schema) > 0 {
		compiled, err := schema.Compile(p.Input.Schema)
		if err != nil {
			return nil, err
		}
		contract = compiled
	}
	object := map[string]json.RawMessage{}
	var whole json.RawMessage
	if file != "" {
		raw, err := a.readInput(file)
		if err != nil {
			return nil, err
		}
		if !json.Valid(raw) {
			return nil, usage("Use --input text=@FILE for a file that is plain text.", "%q is not JSON", file)
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			whole = raw
		}
	}
	for _, one := range given {
		name, text, ok := strings.Cut(one, "=")
		if !ok {
			if len(given) == 1 && file == "" && contract == nil {
				// A skill is given text, not fields.
				raw, err := json.Marshal(one)
				return raw, err
			}
			return nil, usage("Write --input NAME=VALUE.", "--input %q has no \"=\"", one)
		}
		if path, isFile := strings.CutPrefix(text, "@"); isFile {
			raw, err := a.readInput(path)
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		object[name] = valueOf(contract, name, text)
	}
	if whole == nil {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		whole = raw
	}
	if contract == nil {
		return whole, nil
	}
	whole = contract.Fill(whole)
	problems, err := contract.Check(whole)
	if err != nil {
		return nil, err
	}
	if len(problems) == 0 {
		return whole, nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = "  " + p.String()
	}
	return nil, usage("Give inputs with --input NAME=VALUE; \"espalier show\" lists them.",
		"the input does not fit:\n%s\n", strings.Join(lines, "\n"))
}

// valueOf reads the text of an input as its schema has it: as text, unless
// something else is wanted and it is that.
func valueOf(contract *schema.Schema, name, text string) json.RawMessage {
	if contract != nil {
		types := contract.Types(name)
		if len(types) > 0 && !slices.Contains(types, "string") && json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("null") // text always encodes
	}
	return raw
}

func (a *app) readInput(path string) ([]byte, error) {
	raw, err := os.ReadFile(a.inDir(path))
	if err != nil {
		return nil, usage("Check the path.", "%q cannot be read: %v", path, bareReason(err))
	}
	return raw, nil
}

func (a *app) readScript(o *builtin.RunOptions, path string, p *ir.Program) error {
	raw, err := a.readInput(path)
	if err != nil {
		return err
	}
	f := source.NewFile(path, string(raw))
	script, problems := builtin.Script(f)
	if script != nil {
		problems = append(problems, script.Check(p)...)
	}
	if len(problems) > 0 {
		files := source.Set{}
		files.Add(f)
		if err := (diag.Printer{Files: files, Color: a.colorErr}).Print(a.stderr, problems.Sorted()); err != nil {
			return err
		}
	}
	if problems.Errors() {
		return &failure{code: exitUsage, message: fmt.Sprintf("the script %q cannot be used", path)}
	}
	o.Script, o.ScriptName = string(raw), path
	return nil
}
