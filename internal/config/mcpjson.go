package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/text"
)

// MCPFileName is where other programs, too, keep their MCP servers.
const MCPFileName = ".mcp.json"

// ParseMCP reads such a file. Servers of the configuration come before those
// of the same name here.
func ParseMCP(raw []byte) ([]Named[Server], error) {
	var file struct {
		Servers map[string]struct {
			Type    string            `json:"type"`
			Command string            `json:"command"`
			Args    []string          `json:"args"`
			Env     map[string]string `json:"env"`
			URL     string            `json:"url"`
			Headers map[string]string `json:"headers"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", MCPFileName, err)
	}
	var out []Named[Server]
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		one := file.Servers[name]
		s := Server{URL: plain(one.URL), Env: pairs(one.Env), Headers: pairs(one.Headers)}
		switch {
		case one.Type == "sse":
			return nil, fmt.Errorf("%s: the server %q speaks SSE alone, which is out of use; streamable HTTP and programs can be used", MCPFileName, name)
		case one.Command == "" && one.URL == "":
			return nil, fmt.Errorf("%s: the server %q has neither a command nor a url", MCPFileName, name)
		case strings.ContainsAny(name, ".*?["):
			return nil, fmt.Errorf("%s: %q cannot be the name of a server, because tools are written server.tool", MCPFileName, name)
		case one.Command != "":
			for _, word := range append([]string{one.Command}, one.Args...) {
				s.Command = append(s.Command, plain(word))
			}
		}
		out = append(out, Named[Server]{Name: plain(name), Is: s})
	}
	return out, nil
}

func plain(s string) text.Text { return text.Text{Value: s} }

func pairs(m map[string]string) []Header {
	var out []Header
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Header{Name: name, Value: plain(m[name])})
	}
	return out
}

// Expand puts variables of the environment into a text: ${NAME}, and
// ${NAME:-otherwise} for one that may be missing.
func Expand(s string, getenv func(string) string) (string, error) {
	var out strings.Builder
	for {
		before, rest, opened := strings.Cut(s, "${")
		inner, after, closed := strings.Cut(rest, "}")
		out.WriteString(before)
		if !opened {
			return out.String(), nil
		}
		if !closed {
			return "", fmt.Errorf("%q has a ${ that is not closed", s)
		}
		name, otherwise, hasDefault := strings.Cut(inner, ":-")
		value := getenv(name)
		if value == "" && !hasDefault {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		if value == "" {
			value = otherwise
		}
		out.WriteString(value)
		s = after
	}
}
