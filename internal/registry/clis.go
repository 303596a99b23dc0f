package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/cliagent"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// knownCLI is the built-in knowledge about an agent CLI that can be used as a model.
type knownCLI struct {
	speaks  string // its protocol
	program string
	install string   // the command that installs it
	keys    []string // environment variables with its keys
	env     []string // other environment variables that it reads
	prices  string   // the provider whose prices its models have
	// projectSettings is the folder of a project whose settings can make the program start commands. Whether it reads
	// them depends on its version and on its user's settings; no argument prevents it.
	projectSettings string
	// args are the arguments of a plain-text program; modelArgs follow them if a model is named.
	args, modelArgs []string
}

var knownCLIs = map[string]knownCLI{
	config.ClaudeCode: {
		speaks: config.ClaudeCode, program: "claude", install: "npm install -g @anthropic-ai/claude-code",
		prices: config.Anthropic,
		keys:   []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
		env: []string{
			"ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX",
			"DISABLE_TELEMETRY",
		},
	},
	config.Codex: {
		speaks: config.Codex, program: "codex", install: "npm install -g @openai/codex", prices: config.OpenAI,
		keys: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, env: []string{"OPENAI_BASE_URL", "CODEX_HOME"},
	},
	config.GeminiCLI: {
		speaks: config.GeminiCLI, program: "gemini", install: "npm install -g @google/gemini-cli",
		prices: config.Gemini,
		keys:   []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		env: []string{
			"GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
			"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS", "GEMINI_CLI_HOME",
		},
		projectSettings: ".gemini",
	},
	config.Copilot: {
		speaks: config.Copilot, program: "copilot", install: "npm install -g @github/copilot",
		keys: []string{"COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"},
		env: []string{
			"GH_HOST", "COPILOT_HOME", "COPILOT_MODEL", "COPILOT_PROVIDER_BASE_URL",
			"COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API",
		},
	},
	config.OpenCode: {
		speaks: config.PlainText, program: "opencode", install: "npm install -g opencode-ai", args: []string{"run"},
		modelArgs: []string{"--model", cliagent.ModelPlace},
	},
	config.Vibe: {
		speaks: config.PlainText, program: "vibe", install: "pip install mistral-vibe",
		args: []string{"--prompt", cliagent.PromptPlace},
	},
}

// otherNames maps the names of programs in AWF workflows to their names here. "gemini" is not among them: it is a
// provider, which needs no program.
var otherNames = map[string]string{
	"claude": config.ClaudeCode, "github_copilot": config.Copilot,
	"mistral_vibe": config.Vibe,
}

// commonEnv are environment variables that every program may need to reach its server.
var commonEnv = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
}

// cli is a program that can be used as a model in this project.
type cli struct {
	name     string
	asked    string // the name in the workflow
	known    knownCLI
	settings config.CLI
	declared bool
}

// cli returns the program with a name of Espalier or AWF; nil if there is none.
func (m *Models) cli(name string) *cli {
	for _, one := range []string{name, otherNames[name]} {
		entry := m.config.Models.CLI(one)
		known, ok := knownCLIs[one]
		if entry == nil && !ok {
			continue
		}
		c := &cli{name: one, asked: name, known: known}
		if entry != nil {
			c.settings, c.declared = *entry, true
		}
		c.known.speaks = cmp.Or(c.settings.Speaks, c.known.speaks)
		if !ok { // a program of the project with the protocol of a known one needs the same variables
			c.known = like(c.settings.Speaks)
		}
		return c
	}
	return nil
}

// like returns the knowledge about the program that defines a protocol.
func like(speaks string) knownCLI {
	known := knownCLIs[speaks]
	known.speaks = speaks
	return known
}

// find returns the path of the program and its first arguments. A relative path is relative to the project; a bare name
// is looked up on the PATH.
func (c *cli) find(root string) (path string, first []string, err error) {
	program := c.known.program
	if len(c.settings.Command) > 0 {
		program = c.settings.Command[0].Value
		first = text.Values(c.settings.Command[1:])
		if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) {
			program = filepath.Join(root, program)
		}
	}
	if len(first) == 0 && c.known.speaks == config.PlainText { // an entry may have only the path
		first = c.known.args
	}
	path, err = exec.LookPath(program)
	if err != nil {
		return program, first, err
	}
	path, err = filepath.Abs(path)
	return path, first, err
}

// lacksProgram returns what is missing before a program can be used; nil if nothing is.
func (m *Models) lacksProgram(c *cli) *Problem {
	if c.known.speaks == config.PlainText && !c.declared {
		return problemf("Add models: {clis: {"+c.name+": {}}} to "+config.FileName+
			". The program then does what its own settings allow.",
			"Espalier cannot enforce tool permissions on %s; declare it in %s to allow it", c.name, config.FileName)
	}
	program, _, err := c.find(m.root)
	if err == nil {
		return nil
	}
	if len(c.settings.Command) > 0 {
		return problemf(fmt.Sprintf("Install it, or change the command of %s in %s.", c.name, config.FileName),
			"the program %q of %s is not installed", program, c.name)
	}
	help := fmt.Sprintf("Install it (%s), or set its path in %s: models: {clis: {%s: {command: …}}}.",
		c.known.install, config.FileName, c.name)
	if instead := directProviders[c.asked]; instead != "" {
		help += fmt.Sprintf(" If %s is set, the model's API is used instead.", c.known.keys[0])
	}
	return problemf(help, "the program %q, which %s needs, is not on the PATH", program, c.name)
}

// lacksConsent returns why a program is not started in this project unless a person has consented to commands; nil if
// nothing is missing.
func (m *Models) lacksConsent(c *cli, consented bool) *Problem {
	folder := c.known.projectSettings
	if folder == "" || consented || m.config.Allow.Shell {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(m.root, folder)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return problemf("Review them; then use --allow-shell, or add allow: {shell: true} to "+config.FileName+
		" and run \"espalier trust\".",
		"the project has settings for %s in %s, which can start commands and need your consent", c.name, folder)
}

// cliMinutes is the default time limit of a program for one step.
const cliMinutes = 30

// agent returns the agent that runs a program.
func (m *Models) agent(c *cli) (*cliagent.Agent, error) {
	if t := m.lacksProgram(c); t != nil {
		return nil, t
	}
	path, first, err := c.find(m.root)
	if err != nil {
		return nil, err
	}
	a := &cliagent.Agent{
		Name: c.name, Dialect: c.dialect(first), Program: path, Dir: m.root,
		Env: func(ctx context.Context) ([]string, error) { return m.cliEnv(ctx, c) }, Timeout: cliMinutes * time.Minute,
		Limits: m.config.Commands.Or(process.DefaultLimits), Args: text.Values(c.settings.Args),
	}
	if c.known.speaks != config.PlainText {
		a.First = first
	}
	if c.settings.Timeout > 0 {
		a.Timeout = c.settings.Timeout
	}
	return a, nil
}

func (c *cli) dialect(first []string) cliagent.Dialect {
	switch c.known.speaks {
	case config.ClaudeCode:
		return cliagent.Claude{}
	case config.Codex:
		return cliagent.Codex{}
	case config.GeminiCLI:
		return cliagent.Gemini{}
	case config.Copilot:
		return cliagent.Copilot{}
	}
	return cliagent.Plain{Args: first, ModelArgs: c.known.modelArgs}
}

// cliEnv returns the environment of a program: the variables of this process that never hold secrets, those that the
// program needs to reach its server, and those that its entry names. Other secrets of this process are not passed on.
func (m *Models) cliEnv(ctx context.Context, c *cli) ([]string, error) {
	out := process.Environment(os.Environ())
	for _, name := range slices.Concat(commonEnv, c.known.keys, c.known.env, text.Values(c.settings.PassEnv)) {
		if value := m.getenv(name); value != "" {
			out = append(out, name+"="+value)
		}
	}
	for _, h := range c.settings.Env {
		value, err := m.resolve(ctx, h.Value.Value)
		if err == nil {
			value, err = config.Expand(value, m.getenv)
		}
		if err != nil {
			return nil, fmt.Errorf("the variable %s of %s is not available: %w", h.Name, c.name, err)
		}
		out = append(out, h.Name+"="+value)
	}
	return out, nil
}

// agentInfo returns what a program can do in this project.
func (m *Models) agentInfo(c *cli, sandbox bool) *provider.AgentInfo {
	info := (&cliagent.Agent{Name: c.name, Dialect: c.dialect(nil)}).Info()
	info.Denied = map[string]string{}
	info.Tools = slices.DeleteFunc(slices.Clone(info.Tools), func(name string) bool {
		why := m.toolDenial(name, sandbox && c.known.speaks != config.Codex)
		if why != "" {
			info.Denied[name] = why
		}
		return why != ""
	})
	return info
}

// toolDenial returns why a program must not use its own tool of a name; "" if it may. Calls of its own tools do not
// pass through Espalier, so rules of the configuration could not be enforced.
func (m *Models) toolDenial(name string, sandbox bool) string {
	if sandbox && name == "Bash" {
		return "commands must run in the sandbox, which does not confine those of programs"
	}
	switch set := m.config.Tool(name); {
	case set == nil:
	case set.Off:
		return "it is disabled in " + config.FileName
	case set.RequiresApproval:
		return "its calls require approval, for which the program does not wait"
	case set.URL.Value != "" || set.Use.Value != "" && set.Use.Value != name:
		return config.FileName + " binds the name to something else"
	}
	return ""
}

// cliPrice returns the price of a program's model, which is that of its provider; false if it is unknown.
func cliPrice(c *cli, model string) (price.Price, bool) {
	if c.known.prices == "" || model == "" {
		return price.Price{}, false
	}
	if full, ok := modelAliases[model]; ok {
		_, model, _ = strings.Cut(full, "/")
	}
	return price.Known(c.known.prices, model, time.Now())
}

// cliNames returns the programs that can be used: those that need no entry in the configuration, and those that have
// one.
func (m *Models) cliNames() []string {
	out := xslices.Filter(config.BuiltInCLIs(), func(name string) bool {
		return knownCLIs[name].speaks != config.PlainText
	})
	return xslices.AppendNew(out, config.Names(m.config.Models.CLIs)...)
}

// examineCLIs returns the state of the programs that are installed or declared.
func (m *Models) examineCLIs(ctx context.Context) []Component {
	names := m.cliNames()
	found := make([]*Component, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { found[i] = m.examineCLI(ctx, m.cli(name)) })
	}
	all.Wait()
	var out []Component
	var missing []string
	for i, f := range found {
		if f == nil {
			missing = append(missing, names[i])
			continue
		}
		out = append(out, *f)
	}
	if len(out) == 0 {
		out = append(out, Component{What: "cli", Name: "none", State: ComponentUnset, About: "searched for " +
			strings.Join(missing, ", ")})
	}
	return out
}

// examineCLI asks a program for its version. It returns nil if the program is neither installed nor declared.
func (m *Models) examineCLI(ctx context.Context, c *cli) *Component {
	f := &Component{What: "cli", Name: c.name, State: ComponentOK}
	t := (&server{name: c.name, cli: c}).unapproved()
	if t == nil {
		t = m.lacksProgram(c)
	}
	if t != nil {
		if !c.declared {
			return nil
		}
		f.State, f.About, f.Fix = ComponentMissing, t.Message, t.Help
		return f
	}
	path, first, err := c.find(m.root)
	if err != nil {
		return nil
	}
	f.About = path
	if c.known.speaks == config.PlainText {
		return f // it may not support --version
	}
	limited, stop := context.WithTimeout(ctx, versionSeconds*time.Second)
	defer stop()
	env, err := m.cliEnv(ctx, c)
	if err != nil {
		f.State, f.About, f.Fix = ComponentMissing, err.Error(), "Check the env of "+c.name+" in "+config.FileName+"."
		return f
	}
	outcome, err := process.Run(limited, process.Command{
		Path: path, Args: append(slices.Clone(first), "--version"),
		Dir: m.root, Env: env, MaxOutput: 64 << 10,
	})
	switch version := versionIn().FindString(string(outcome.Stdout)); {
	case limited.Err() != nil:
		f.About = path + ", version unknown: --version timed out"
	case err != nil || outcome.Exit != 0:
		f.State, f.Fix = ComponentBroken, "Run "+path+" --version and fix the error."
		f.About = path + ", which fails with --version"
	case version != "":
		f.About = "version " + version + ", " + path
	}
	return f
}

// versionSeconds is the time limit of --version. Some programs start slowly.
const versionSeconds = 30

var versionIn = lazyregexp.New(`[0-9]+(\.[0-9]+)+([-+.][0-9A-Za-z]+)*`)
