package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/anthropic"
	"github.com/espalier-run/espalier/internal/provider/gemini"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
	"github.com/espalier-run/espalier/internal/provider/openai"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Models selects models by name and knows their prices. It is safe for concurrent use.
type Models struct {
	root   string // of the project
	config *config.Config
	getenv func(string) string
	// Secrets has the keys.
	Secrets *secret.Registry

	mu sync.Mutex
	// open has the models that are in use, by server.id. Calls of all runs to one provider share its model, and with it
	// the limit of concurrent calls.
	open map[string]provider.Model
}

// NewModels returns the models of a configuration and an environment.
func NewModels(root string, c *config.Config, getenv func(string) string) *Models {
	c = cmp.Or(c, &config.Config{})
	return &Models{
		root: root, config: c, getenv: getenv, Secrets: Secrets(root, c, getenv),
		open: map[string]provider.Model{},
	}
}

// server is a provider of models, or a program.
type server struct {
	name, api string
	base      string   // base URL; empty is the provider's own
	ambient   []string // environment variables that usually hold the key
	model     string   // default model
	settings  config.Provider
	keyless   bool   // no key is needed
	cli       *cli   // the program; nil for a provider
	named     bool   // an agent's options name the server
	given     string // the key in these options
}

// modelAliases are short names of models.
var modelAliases = map[string]string{
	"opus": "anthropic/claude-opus-5-5", "sonnet": "anthropic/claude-sonnet-5-5",
	"haiku": "anthropic/claude-haiku-5-5",
}

// server returns the provider or program with a name; false if there is none. The first of these is used: a provider
// of the configuration, a program of the configuration, a built-in provider, a built-in program.
func (m *Models) server(name string) (server, bool) {
	s := server{name: name}
	declared := false
	for _, p := range m.config.Models.Providers {
		if p.Name.Value == name {
			s.settings, declared = p.Is, true
		}
	}
	known := config.BuiltIn(name)
	if !declared && (m.config.Models.CLI(name) != nil || known == nil) {
		if c := m.cli(name); c != nil {
			if direct, ok := m.direct(name, c); ok {
				return direct, true
			}
			return server{name: c.name, cli: c, model: c.settings.Model.Value}, true
		}
	}
	if known == nil && !declared {
		return s, false
	}
	if known != nil {
		s.api, s.ambient, s.base, s.model = known.API, known.Keys, m.getenv(known.Address), known.Model
		s.keyless = known.Keys == nil
	}
	if name == config.Ollama {
		s.base = ollama(s.base)
	}
	// Most servers have the API of OpenAI. An entry without an API is an error of the configuration.
	s.api = cmp.Or(s.settings.API, s.api, config.OpenAI)
	if s.settings.BaseURL.Value != "" {
		// The address comes from a file of the project, so keys in the
		// environment are not sent there.
		s.base, s.ambient, s.keyless = s.settings.BaseURL.Value, nil, true
	}
	if name == config.OpenAI && s.settings.API == "" && s.base == "" {
		// OpenAI's newer models accept no tools in Chat Completions. Most compatible servers have only that API.
		s.api = config.OpenAIResponses
	}
	s.model = cmp.Or(s.settings.Model.Value, s.model)
	return s, true
}

// api is an implementation of one of config.APIs.
type api struct {
	baseURL string
	model   func(httptransport.Options) reachable
	// optionNames returns the names that the API has for the common options. own means the vendor's server.
	optionNames func(own bool, model string) httptransport.OptionNames
}

var apis = map[string]api{
	config.Anthropic: {
		anthropic.BaseURL,
		func(o httptransport.Options) reachable { return anthropic.New(o) },
		func(_ bool, model string) httptransport.OptionNames { return anthropic.OptionNames(model) },
	},
	config.OpenAI: {
		openai.BaseURL,
		func(o httptransport.Options) reachable { return openai.NewChat(o) },
		openai.ChatOptionNames,
	},
	config.OpenAIResponses: {
		openai.BaseURL,
		func(o httptransport.Options) reachable { return openai.NewResponses(o) },
		openai.ResponsesOptionNames,
	},
	config.Gemini: {
		gemini.BaseURL,
		func(o httptransport.Options) reachable { return gemini.New(o) },
		func(bool, string) httptransport.OptionNames { return gemini.OptionNames() },
	},
}

// optionNames returns the names that the API of the choice, which is no program, has for the common options.
func (c *Choice) optionNames() httptransport.OptionNames {
	return apis[c.server.api].optionNames(c.server.base == "", c.Model)
}

// directProviders maps programs, by their names in AWF workflows, to the providers of their models.
var directProviders = map[string]string{"claude": config.Anthropic, config.Codex: config.OpenAI}

// direct returns the provider that replaces a program that is not installed, if there is a key for the provider.
func (m *Models) direct(name string, c *cli) (server, bool) {
	instead := directProviders[name]
	if instead == "" || c.declared || m.lacksProgram(c) == nil {
		return server{}, false
	}
	s, ok := m.server(instead)
	return s, ok && m.lacksKey(s) == nil
}

// ollama returns the base URL for the value of OLLAMA_HOST, which may lack scheme, host or port.
func ollama(host string) string {
	host = cmp.Or(host, "127.0.0.1:11434")
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return host
	}
	if u.Port() == "" && u.Scheme == "http" {
		u.Host += ":11434"
	}
	if u.Hostname() == "0.0.0.0" {
		u.Host = "127.0.0.1:" + u.Port()
	}
	return strings.TrimSuffix(u.String(), "/") + "/v1"
}

// Choice is a selected model.
type Choice struct {
	Provider, Model string
	server          server
}

func (c Choice) String() string {
	if c.Model == "" { // the program chooses
		return c.Provider
	}
	return c.Provider + "/" + c.Model
}

// Program returns the name of the external agent, or "" if the choice is a model.
func (c Choice) Program() string {
	if c.server.cli == nil {
		return ""
	}
	return c.Provider
}

// Retries returns how often a call is repeated after failures of the provider.
func (c Choice) Retries() int {
	switch n := c.server.settings.MaxRetries; {
	case c.server.cli != nil:
		return 0
	case n != nil:
		return int(*n)
	}
	return usualRetries
}

// Problem explains why something cannot be used, and how to fix it.
type Problem struct {
	Message string `json:"message"`
	Help    string `json:"help"`
}

func (t *Problem) Error() string { return t.Message }

func problemf(help, format string, args ...any) *Problem {
	return &Problem{Message: fmt.Sprintf(format, args...), Help: help}
}

// notApproved returns the problem that something in the configuration needs an approval.
func notApproved(format string, args ...any) *Problem {
	return problemf(config.Approval, "%s", config.NotApproved(fmt.Sprintf(format, args...)))
}

// Choose returns the model of a name: PROVIDER/MODEL, a model name that implies its provider, an alias, or a provider.
// The empty name is the default model. It does not require a key, except to find the default model and the provider
// that replaces a missing program.
//
// The name is looked up in this order: aliases of the configuration, built-in short names, PROVIDER/MODEL, a provider
// or program alone, patterns of declared providers, families of built-in providers. A name with a slash whose first
// part is no provider can still match a pattern.
func (m *Models) Choose(name string) (Choice, *Problem) {
	if name == "" || name == "inherit" {
		name = m.Default()
		if name == "" {
			return Choice{}, problemf("Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, use --model, "+
				"or add models: {default: …} to "+config.FileName+".",
				"no model is named, and none is configured")
		}
	}
	for _, alias := range m.config.Models.Aliases {
		if alias.Name == name {
			name = alias.Value.Value
			break
		}
	}
	if full, ok := modelAliases[name]; ok {
		name = full
	}
	if before, after, ok := strings.Cut(name, "/"); ok {
		if s, known := m.server(before); known {
			if after == "" {
				return Choice{}, withoutModel(before)
			}
			// The model is an argument of the program, which would parse it as an option.
			if s.cli != nil && strings.HasPrefix(after, "-") {
				return Choice{}, problemf(
					fmt.Sprintf("Write %s/MODEL; other arguments go into %s, as args.", s.name, config.FileName),
					"%q is not a model of %s", after, s.name)
			}
			if by, full, ok := strings.Cut(modelAliases[after], "/"); ok && by == s.name {
				after = full
			}
			return Choice{Provider: s.name, Model: after, server: s}, nil
		}
	}
	if s, known := m.server(name); known {
		if s.model == "" && s.cli == nil {
			return Choice{}, withoutModel(name)
		}
		return Choice{Provider: s.name, Model: s.model, server: s}, nil
	}
	for _, p := range m.config.Models.Providers {
		if slices.ContainsFunc(p.Is.Models, func(t text.Text) bool { return matches(t.Value, name) }) {
			s, _ := m.server(p.Name.Value)
			return Choice{Provider: s.name, Model: name, server: s}, nil
		}
	}
	for _, p := range config.BuiltInProviders {
		if slices.ContainsFunc(p.Families, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			s, _ := m.server(p.Name)
			return Choice{Provider: s.name, Model: name, server: s}, nil
		}
	}
	if provider, _, ok := strings.Cut(name, "/"); ok {
		return Choice{}, problemf(
			"Declare it in "+config.FileName+", under models: providers:, or use --model with one of: "+
				strings.Join(m.names(), ", ")+".",
			"unknown provider %q of the model %q", provider, name)
	}
	return Choice{}, problemf(fmt.Sprintf("Write PROVIDER/%s, with one of: %s.", name, strings.Join(m.names(), ", ")),
		"no provider is known for the model %q", name)
}

func withoutModel(provider string) *Problem {
	return problemf(fmt.Sprintf("Write %s/MODEL, or give the provider a model in %s.", provider, config.FileName),
		"the provider %q is named without a model", provider)
}

// matches reports whether a name matches a pattern in which * matches any text.
func matches(pattern, name string) bool {
	// Unlike in path.Match, * also matches slashes.
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// Default returns the model of steps that name none: the configured one, or that of the first provider that has a key;
// "" if there is neither.
func (m *Models) Default() string {
	if d := m.config.Models.Default.Value; d != "" {
		return d
	}
	for _, p := range m.config.Models.Providers {
		if s, _ := m.server(p.Name.Value); s.model != "" && m.lacksKey(s) == nil {
			return s.name
		}
	}
	for _, name := range config.BuiltInNames() {
		if s, _ := m.server(name); len(s.ambient) > 0 && m.lacksKey(s) == nil {
			return s.name + "/" + s.model
		}
	}
	return ""
}

// names returns all providers and programs.
func (m *Models) names() []string { return slices.Concat(m.Providers(), m.cliNames()) }

// Providers returns the names of the providers that are reached over the network.
func (m *Models) Providers() []string {
	return xslices.AppendNew(config.BuiltInNames(), config.Names(m.config.Models.Providers)...)
}

// unapproved returns a problem if the entry of a provider or program needs approval and has none; nil otherwise.
func (s *server) unapproved() *Problem {
	if s.settings.Unapproved || s.cli != nil && s.cli.settings.Unapproved {
		return notApproved("the entry of %q under models in %s", s.name, config.FileName)
	}
	return nil
}

// lacksKey returns what is missing before a provider can be used; nil if nothing is.
func (m *Models) lacksKey(s server) *Problem {
	if t := s.unapproved(); t != nil {
		return t
	}
	if s.cli != nil {
		return m.lacksProgram(s.cli)
	}
	if s.given != "" {
		return m.lacksGiven(s)
	}
	if name, ok := config.Reference(s.settings.Key.Value); ok {
		if t := m.lacksSecret(s, "the key", name); t != nil {
			return t
		}
	} else if t := m.lacksVariable(s); t != nil {
		return t
	}
	return m.lacksHeader(s)
}

// lacksHeader is lacksKey for secrets in headers.
func (m *Models) lacksHeader(s server) *Problem {
	for _, h := range s.settings.Headers {
		if name, ok := config.Reference(h.Value.Value); ok {
			if t := m.lacksSecret(s, "the header "+h.Name, name); t != nil {
				return t
			}
		}
	}
	return nil
}

// lacksSecret returns why a secret that is sent to a provider is not available; nil if it is.
func (m *Models) lacksSecret(s server, what, name string) *Problem {
	if declared := m.config.Secret(name); declared != nil {
		if t := m.ownKey(s, declared.Env); t != nil {
			return t
		}
	}
	return lacksSecret(m.config, m.root, m.getenv, what+" of "+s.name, name)
}

// lacksVariable returns why the key of a provider is not in the environment; nil if it is, or is not needed.
func (m *Models) lacksVariable(s server) *Problem {
	if env := s.settings.KeyEnv.Value; env != "" {
		if t := m.ownKey(s, env); t != nil {
			return t
		}
		if m.getenv(env) == "" {
			return problemf(fmt.Sprintf("Set %s.", env), "there is no key for %s: %s is not set", s.name, env)
		}
		return nil
	}
	switch {
	case s.keyless || slices.ContainsFunc(s.ambient, func(env string) bool { return m.getenv(env) != "" }):
		return nil
	case len(s.ambient) == 0: // the configuration has errors
		return problemf(fmt.Sprintf("Set its base_url in %s.", config.FileName), "there is no address for %s", s.name)
	}
	return problemf(fmt.Sprintf("Set %s.", strings.Join(s.ambient, " or ")),
		"there is no key for %s: %s is not set", s.name, s.ambient[0])
}

// usualKeys returns the environment variables that hold the keys of the built-in providers.
func usualKeys() (names []string) {
	for _, p := range config.BuiltInProviders {
		names = append(names, p.Keys...)
	}
	return names
}

// ownKey refuses to send a provider's usual key to an address that a file of the project names, because the file may
// not be the user's own.
func (m *Models) ownKey(s server, env string) *Problem {
	address, help := s.settings.BaseURL.Value, "and name it with key_env."
	if s.named {
		address, help = s.base, "and name it in the secret."
	}
	if address == "" || !slices.Contains(usualKeys(), env) {
		return nil
	}
	return problemf("Give the key for that server a variable of its own, "+help,
		"the key in %s is not sent to %s", env, address)
}

// key returns a function that reads a provider's key when it is used; nil if none is sent. Reading late lets a key be
// replaced while a server runs, and repeats the checks of lacksKey, which a run that has been started with --unready
// has not passed.
func (m *Models) key(s server) func(context.Context) (string, error) {
	read := func(env string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			if value := m.getenv(env); value != "" {
				return value, nil
			}
			return "", fmt.Errorf("%s is not set", env)
		}
	}
	if s.given != "" {
		return m.givenKey(s)
	}
	if name, ok := config.Reference(s.settings.Key.Value); ok {
		return func(ctx context.Context) (string, error) {
			if t := m.lacksSecret(s, "the key", name); t != nil {
				return "", t
			}
			return m.Secrets.Value(ctx, name)
		}
	}
	if env := s.settings.KeyEnv.Value; env != "" {
		return func(ctx context.Context) (string, error) {
			if t := m.ownKey(s, env); t != nil {
				return "", t
			}
			return read(env)(ctx)
		}
	}
	for _, env := range s.ambient {
		if m.getenv(env) != "" {
			return read(env)
		}
	}
	if len(s.ambient) > 0 && !s.keyless {
		return read(s.ambient[0]) // fails and names the variable
	}
	return nil
}

// resolve returns the value of a secret if value is a reference to one, and otherwise value itself.
func (m *Models) resolve(ctx context.Context, value string) (string, error) {
	name, ok := config.Reference(value)
	if !ok {
		return value, nil
	}
	return m.Secrets.Value(ctx, name)
}

// The usual limits of a provider.
const (
	usualAtOnce   = 10
	usualRetries  = 4
	usualPrograms = 4 // at the same time
)

// provider returns the model of a provider or program. Later calls return the same one.
func (m *Models) provider(s server) (provider.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.open[s.id()]; found != nil {
		return found, nil
	}
	if t := s.unapproved(); t != nil {
		return nil, t
	}
	if s.cli != nil {
		return m.program(s)
	}
	unwrapped := m.unwrappedModel(s)
	atOnce := usualAtOnce
	if n := s.settings.MaxConcurrent; n > 0 {
		atOnce = int(n)
	}
	timeout := cmp.Or(m.config.Defaults.ModelTimeout, stepkind.ModelCallSeconds*time.Second)
	// From the inside: Bound limits the reply, Deadline the attempt, Limit the attempts at the same time, and Retry
	// repeats. So a call holds a slot during each attempt, not between attempts, and each attempt has its own timeout.
	whole := provider.Retry{
		Model: provider.Limit{
			Model: provider.Deadline{Model: provider.Bound{Model: unwrapped}, After: timeout},
			Slots: provider.NewSlots(atOnce),
		},
		Times: Choice{server: s}.Retries(), Jitter: rand.Float64, Pause: provider.Sleep,
	}
	m.open[s.id()] = whole
	return whole, nil
}

// program returns the model of a program. Its calls are not repeated: the program retries requests itself, and its work
// may have side effects.
func (m *Models) program(s server) (provider.Model, error) {
	agent, err := m.agent(s.cli)
	if err != nil {
		return nil, err
	}
	atOnce := usualPrograms
	if n := s.cli.settings.MaxConcurrent; n > 0 {
		atOnce = int(n)
	}
	limited := provider.Limit{Model: agent, Slots: provider.NewSlots(atOnce)}
	m.open[s.name] = limited
	return limited, nil
}

// reachable is a model that is reached over the network.
type reachable interface {
	provider.Model
	Reach(context.Context) error
}

// unwrappedModel returns the model of a provider without limits and retries.
func (m *Models) unwrappedModel(s server) reachable {
	o := httptransport.Options{BaseURL: s.base, Key: m.key(s)}
	if headers := s.settings.Headers; len(headers) > 0 {
		o.Headers = func(ctx context.Context) (map[string]string, error) {
			if t := m.lacksHeader(s); t != nil {
				return nil, t
			}
			out := map[string]string{}
			for _, h := range headers {
				value, err := m.resolve(ctx, h.Value.Value)
				if err != nil {
					return nil, err
				}
				out[h.Name] = value
			}
			return out, nil
		}
	}
	return apis[s.api].model(o)
}

// Price returns the price of a model; false if it is not known.
func (m *Models) Price(c Choice) (price.Price, bool) {
	if p, ok := m.ConfiguredPrice(c); ok {
		return p, true
	}
	if c.server.cli != nil {
		return cliPrice(c.server.cli, c.Model)
	}
	if c.Provider == config.Ollama {
		return price.Price{}, true // local models are free
	}
	if c.server.named {
		return price.Price{}, false // an agent's options name a server whose prices are not known
	}
	// A gateway in front of a built-in provider passes its prices on.
	return price.Known(c.Provider, c.Model, time.Now())
}

// ConfiguredPrice returns the price of a model that the configuration sets; false if it sets none.
func (m *Models) ConfiguredPrice(c Choice) (price.Price, bool) {
	for _, name := range []string{c.String(), c.Model} {
		for _, p := range m.config.Prices {
			if p.Name.Value == name {
				return p.Is, true
			}
		}
	}
	return price.Price{}, false
}

// router passes each request to the model that it names. It belongs to the runs with the same options.
type router struct {
	models    *Models
	override  string // replaces the model of every request
	fallback  string // for requests that name no model
	sandbox   bool   // commands are confined
	consented bool   // a person has consented to commands
}

var _ provider.Agents = router{}

// Agent returns what the program behind a model can do; nil if the model is reached over the network.
func (r router) Agent(model string) *provider.AgentInfo {
	choice, problem := r.models.ChooseWith(r.name(model), nil)
	if problem != nil || choice.server.cli == nil {
		return nil
	}
	return r.models.agentInfo(choice.server.cli, r.sandbox)
}

func (r router) name(asked string) string {
	if asked == "inherit" {
		asked = ""
	}
	return cmp.Or(r.override, asked, r.fallback)
}

// Generate sends the request to the model that it names. The options of the request lose the address and the key of a
// server, which are not for the model, and the reply gets the name of the provider for the records.
func (r router) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		choice, problem := r.models.ChooseWith(r.name(req.Model), req.Options)
		if c := choice.server.cli; problem == nil && c != nil {
			problem = r.models.lacksConsent(c, r.consented)
		}
		if problem != nil {
			yield(provider.Chunk{}, &provider.Error{Class: ir.ClassMissing, Message: problem.Message + ". " +
				problem.Help})
			return
		}
		m, err := r.models.provider(choice.server)
		if err != nil {
			yield(provider.Chunk{}, &provider.Error{Class: ir.ClassMissing, Message: err.Error()})
			return
		}
		req.Model, req.Options = choice.Model, withoutAddress(req.Options)
		m.Generate(ctx, req)(func(chunk provider.Chunk, err error) bool {
			if chunk.Reply != nil {
				chunk.Reply.Provider = choice.Provider
				chunk.Reply.RequestParams = choice.requestParams(&req)
			}
			return yield(chunk, err)
		})
	}
}

// requestParams returns the parameters of a request for the records; nil for a program.
func (c *Choice) requestParams(req *provider.Request) *provider.RequestParams {
	s := &c.server
	if s.cli != nil {
		return nil
	}
	out := &provider.RequestParams{MaxTokens: req.MaxTokens, JSON: len(req.Schema) > 0}
	if u, err := url.Parse(cmp.Or(s.base, apis[s.api].baseURL)); err == nil {
		out.Server = u.Hostname()
	}
	var options struct {
		Temperature *float64 `json:"temperature"`
	}
	ignored := c.optionNames().Ignored(req.Options)
	if json.Unmarshal(req.Options, &options) == nil && !slices.Contains(ignored, httptransport.Temperature) {
		out.Temperature = options.Temperature
	}
	return out
}

// MostTokens returns an upper bound of the tokens of a request, for reservations.
func (r router) MostTokens(req *provider.Request) int64 { return req.MostTokens() }

// price returns the price of a model; false if it is unknown.
func (r router) price(asked string) (price.Price, bool) {
	choice, problem := r.models.Choose(r.name(asked))
	if problem != nil {
		return price.Price{}, false
	}
	return r.models.Price(choice)
}
