package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/text"
)

// PrivilegedSetting is a setting that runs a program, opens access, or sends a secret to an address in the file. It
// takes effect only after a person approves the content of the file, because the file may come with a repository of an
// unknown author.
type PrivilegedSetting struct {
	Where string `json:"where"` // the key, such as mcp.github
	What  string `json:"what"`  // a description for people
	// Command is what the setting runs; "" if it runs nothing.
	Command string `json:"-"`
	// MCPFile reports that the setting is in .mcp.json.
	MCPFile bool `json:"mcp_file,omitempty"`

	// disable disables the setting in the Config that has returned it.
	disable func()
}

// PrivilegedSettings returns the settings that need approval. A new setting that runs, opens or sends something has to
// be added here; a provider on this machine that gets no key is harmless.
func (c *Config) PrivilegedSettings() []PrivilegedSetting {
	var out []PrivilegedSetting
	add := func(where, what string, disable func()) {
		out = append(out, PrivilegedSetting{Where: where, What: what, disable: disable})
	}
	runs := func(where, command string, disable func()) {
		out = append(out, PrivilegedSetting{Where: where, What: "runs " + command, Command: command, disable: disable})
	}
	for i := range c.Secrets {
		s := &c.Secrets[i]
		switch {
		case len(s.Is.Command) > 0:
			runs("secrets."+s.Name.Value, strings.Join(s.Is.Command, " "), func() { s.Is.Unapproved = true })
		case s.Is.File != "":
			add("secrets."+s.Name.Value, "reads the file "+s.Is.File, func() { s.Is.Unapproved = true })
		}
	}
	for i := range c.Models.Providers {
		p := &c.Models.Providers[i]
		what := "sends prompts to "
		if p.Is.Key.Value != "" || p.Is.KeyEnv.Value != "" || len(p.Is.Headers) > 0 {
			what = "sends prompts and keys to "
		} else if Local(p.Is.BaseURL.Value) {
			continue
		}
		if p.Is.BaseURL.Value != "" {
			add("models.providers."+p.Name.Value, what+p.Is.BaseURL.Value, func() { p.Is.Unapproved = true })
		}
	}
	for i := range c.Models.CLIs {
		one := &c.Models.CLIs[i]
		if is := &one.Is; len(is.Command)+len(is.Args)+len(is.Env)+len(is.PassEnv) > 0 ||
			slices.Contains([]string{OpenCode, Vibe}, one.Name.Value) {
			runs("models.clis."+one.Name.Value, words(one.Name.Value, slices.Concat(is.Command, is.Args)),
				func() { is.Unapproved = true })
		}
	}
	for i := range c.Tools {
		if t := &c.Tools[i]; t.Is.URL.Value != "" {
			add("tools."+t.Name.Value, "sends requests to "+t.Is.URL.Value, func() { t.Is.Unapproved = true })
		}
	}
	servers := func(list []Named[Server]) {
		for i := range list {
			s := &list[i]
			where, disable := "mcp."+s.Name.Value, func() { s.Is.Unapproved = true }
			if len(s.Is.Command) > 0 {
				runs(where, words("", s.Is.Command), disable)
			} else {
				add(where, "connects to "+s.Is.URL.Value, disable)
			}
			if s.Is.Sampling {
				out[len(out)-1].What += ", and lets it use the models of runs"
			}
		}
	}
	servers(c.MCP)
	for _, list := range []struct {
		key, what string
		of        *[]text.Text
	}{
		{"hosts", "lets tools reach", &c.Allow.Hosts},
		{"paths", "lets tools read", &c.Allow.Paths},
		{"writes", "lets commands in the sandbox change", &c.Allow.Writes},
	} {
		if len(*list.of) > 0 {
			add("allow."+list.key, list.what+" "+words("", *list.of), func() { *list.of = nil })
		}
	}
	for i := range c.Notifications {
		n := &c.Notifications[i]
		what := "sends notifications to " + n.Is.Webhook.Value
		if n.Is.Webhook.Value == "" {
			what = "sends notifications to the service in " + n.Is.URL.Value
		}
		add("notifications."+n.Name.Value, what, func() { n.Is.Unapproved = true })
	}
	for i := range c.Webhooks {
		if w := &c.Webhooks[i]; w.Is.Verify == VerifyNothing {
			add("webhooks."+w.Name.Value, "starts runs of "+w.Is.Workflow.Value+" for requests without a signature",
				func() { w.Is.Unapproved = true })
		}
	}
	if c.Store.URL.Value != "" {
		add("store", "keeps runs in "+c.Store.Shown(), func() { c.Store.Unapproved = true })
	}
	if c.Objects.Endpoint.Value != "" {
		add("objects", "keeps large values of runs in "+c.Objects.Shown(), func() { c.Objects.Unapproved = true })
	}
	if c.Engine == EngineTemporal {
		add("engine", "sends runs to the Temporal server at "+c.Temporal.Shown(),
			func() { c.Temporal.Unapproved = true })
	}
	if c.Allow.Shell {
		add("allow.shell", "lets all workflows run commands", func() { c.Allow.Shell = false })
	}
	first := len(out)
	servers(c.MCPFile.Servers)
	for i := range out[first:] {
		out[first+i].MCPFile = true
	}
	return out
}

// Local reports whether an address is a loopback address.
func Local(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// words joins the words of a command; without a command it returns name.
func words(name string, list []text.Text) string {
	if len(list) == 0 {
		return name
	}
	return strings.Join(text.Values(list), " ")
}

// DisableUnapproved disables the settings that need approval in one of the two files and returns them. Using a
// disabled entry fails with NotApproved.
func (c *Config) DisableUnapproved(mcpFile bool) []PrivilegedSetting {
	inOtherFile := func(s PrivilegedSetting) bool { return s.MCPFile != mcpFile }
	settings := slices.DeleteFunc(c.PrivilegedSettings(), inOtherFile)
	for _, s := range settings {
		s.disable()
	}
	return settings
}

// Approval is the instruction for approving settings.
const Approval = "Review the file, then run \"espalier trust\"."

// NotApproved returns the reason why an unapproved setting cannot be used.
func NotApproved(what string) string {
	return fmt.Sprintf("%s is not approved on this machine", what)
}

// Simulate replaces secrets that come from commands with simulated values.
func (c *Config) Simulate() {
	for i := range c.Secrets {
		if s := &c.Secrets[i]; len(s.Is.Command) > 0 {
			s.Is.simulated = secret.StandIn(s.Name.Value)
		}
	}
}
