package registry

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/config"
)

// compatible is AWF's name for any OpenAI-compatible server. The options of the agent have its URL, unless the
// configuration has a provider of that name.
const compatible = "openai_compatible"

// address is the server in the options of an agent.
type address struct {
	BaseURL string `json:"base_url"`
	Key     string `json:"api_key"`
}

// ChooseWith is Choose for an agent with options. A model of Gemini without a key is replaced by the Gemini CLI if that
// is installed.
func (m *Models) ChooseWith(name string, options json.RawMessage) (Choice, *Problem) {
	before, model, _ := strings.Cut(name, "/")
	declared := slices.ContainsFunc(m.config.Models.Providers,
		func(p config.Named[config.Provider]) bool { return p.Name.Value == before })
	if s, ok := m.server(before); ok && before == config.Gemini && !declared && s.cli == nil && m.lacksKey(s) != nil {
		if c := m.cli(config.GeminiCLI); m.lacksProgram(c) == nil {
			return m.Choose(strings.TrimSuffix(config.GeminiCLI+"/"+model, "/"))
		}
	}
	if before != compatible || declared {
		return m.Choose(name)
	}
	var at address
	if json.Unmarshal(options, &at) != nil || at.BaseURL == "" {
		if model == "" {
			return Choice{}, withoutModel(compatible)
		}
		return m.Choose(config.OpenAI + "/" + model)
	}
	if model == "" {
		return Choice{}, problemf("Write \"model: …\" below the options of the step.",
			"the provider \"openai_compatible\" is named without a model")
	}
	s := server{
		name: compatible, api: config.OpenAI, base: strings.TrimSuffix(at.BaseURL, "/"), keyless: true,
		given: at.Key, named: true,
	}
	if u, err := url.Parse(at.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Choice{}, problemf("Use a URL such as https://models.example/v1.",
			"base_url %q is not an HTTP URL", at.BaseURL)
	} else if u.Scheme == "https" && u.Hostname() == "api.openai.com" && at.Key == "" {
		s.ambient, s.keyless = []string{"OPENAI_API_KEY"}, false
	}
	return Choice{Provider: compatible, Model: model, server: s}, nil
}

// lacksGiven checks the key in an agent's options. Variables and secrets are not sent to a server that only the
// workflow names: the workflow would choose both what is sent and who receives it. A server on this machine receives
// them, except for the usual keys, also as secrets: declaring a secret is no consent to send it to any server.
func (m *Models) lacksGiven(s server) *Problem {
	name, isSecret := config.Reference(s.given)
	isUsual := slices.ContainsFunc(usualKeys(), func(env string) bool { return strings.Contains(s.given, "${"+env) })
	if isUsual || (isSecret || strings.Contains(s.given, "${")) && !config.Local(s.base) {
		return problemf("Declare the server in "+config.FileName+
			": models: {providers: {"+compatible+": {base_url: …, key_env: …}}}.",
			"the api_key of the step is not sent to %s, which only the workflow names", s.base)
	}
	if isSecret {
		return m.lacksSecret(s, "the key", name)
	}
	if _, err := config.Expand(s.given, m.getenv); err != nil {
		return problemf("Set the variable.", "the api_key of %s is not available: %v", s.base, err)
	}
	return nil
}

// givenKey returns a function that reads the key in an agent's options when it is used.
func (m *Models) givenKey(s server) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if t := m.lacksGiven(s); t != nil {
			return "", t
		}
		if _, ok := config.Reference(s.given); ok {
			return m.resolve(ctx, s.given)
		}
		return config.Expand(s.given, m.getenv)
	}
}

// withoutAddress returns options without the server's URL and key.
func withoutAddress(options json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(options, &all) != nil || all["base_url"] == nil && all["api_key"] == nil {
		return options
	}
	delete(all, "base_url")
	delete(all, "api_key")
	if len(all) == 0 {
		return nil
	}
	rest, err := json.Marshal(all)
	if err != nil {
		return options // unreachable: the values are JSON
	}
	return rest
}

// id returns a key that distinguishes servers of the same name, which workflows can name with different addresses and
// keys.
func (s server) id() string {
	if !s.named {
		return s.name
	}
	return strings.Join([]string{s.name, s.base, s.given}, "\x00")
}
