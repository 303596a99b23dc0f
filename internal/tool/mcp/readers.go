package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/tool"
)

// The names of the tools that read the resources and prompts of a server. A tool of the server with the same name
// takes precedence.
const (
	listResources = "list_resources"
	readResource  = "read_resource"
	listPrompts   = "list_prompts"
	getPrompt     = "get_prompt"
)

// maxListed is the maximum number of resources or prompts in a list.
const maxListed = 1000

// reader requests resources or prompts of a server.
type reader func(ctx context.Context, c *mcp.ClientSession, input json.RawMessage) (*mcp.CallToolResult, error)

// readers returns the tools that read the resources and prompts of a server, if it has any.
func (s *Server) readers(sess *session) []*remoteTool {
	var out []*remoteTool
	add := func(name, about, schema string, read reader) {
		taken := slices.ContainsFunc(sess.tools, func(t *remoteTool) bool { return t.name == name })
		if taken || len(s.Only) > 0 && !slices.Contains(s.Only, name) {
			return
		}
		out = append(out, &remoteTool{server: s, name: name, read: read, spec: tool.Spec{
			Name: s.Name + "." + name, Description: about, Schema: json.RawMessage(schema), Timeout: maxCallTime,
			Target: fmt.Sprintf("the MCP server %q", s.Name),
		}})
	}
	has := sess.client.InitializeResult().Capabilities
	if has.Resources != nil {
		add(listResources, "List the resources and resource templates of the server "+s.Name+".", noInput, resources)
		add(readResource, "Read a resource of the server "+s.Name+".",
			`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`,
			resource)
	}
	if has.Prompts != nil {
		add(listPrompts, "List the prompts of the server "+s.Name+" and their arguments.", noInput, prompts)
		add(getPrompt, "Get the messages of a prompt of the server "+s.Name+".",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object",`+
				`"additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`, prompt)
	}
	return out
}

const noInput = `{"type":"object","additionalProperties":false}`

func resources(ctx context.Context, c *mcp.ClientSession, _ json.RawMessage) (*mcp.CallToolResult, error) {
	out := struct {
		Resources []*mcp.Resource         `json:"resources"`
		Templates []*mcp.ResourceTemplate `json:"templates,omitempty"`
	}{}
	var err error
	if out.Resources, err = listed(c.Resources(ctx, nil)); err != nil {
		return nil, err
	}
	if out.Templates, err = listed(c.ResourceTemplates(ctx, nil)); err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{StructuredContent: out}, nil
}

// listed returns the first maxListed entries of a list that a server sends in pages.
func listed[T any](entries iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for one, err := range entries {
		if err != nil {
			return nil, err
		}
		if out = append(out, one); len(out) == maxListed {
			break
		}
	}
	return out, nil
}

func resource(ctx context.Context, c *mcp.ClientSession, input json.RawMessage) (*mcp.CallToolResult, error) {
	params := new(mcp.ReadResourceParams)
	if err := json.Unmarshal(input, params); err != nil {
		return nil, err
	}
	read, err := c.ReadResource(ctx, params)
	if err != nil {
		return nil, err
	}
	out := new(mcp.CallToolResult)
	for _, r := range read.Contents {
		if r.Blob == nil && len(read.Contents) == 1 {
			out.Content = append(out.Content, &mcp.TextContent{Text: r.Text})
			continue
		}
		out.Content = append(out.Content, &mcp.EmbeddedResource{Resource: r})
	}
	return out, nil
}

func prompts(ctx context.Context, c *mcp.ClientSession, _ json.RawMessage) (*mcp.CallToolResult, error) {
	list, err := listed(c.Prompts(ctx, nil))
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{StructuredContent: map[string]any{"prompts": list}}, nil
}

func prompt(ctx context.Context, c *mcp.ClientSession, input json.RawMessage) (*mcp.CallToolResult, error) {
	params := new(mcp.GetPromptParams)
	if err := json.Unmarshal(input, params); err != nil {
		return nil, err
	}
	got, err := c.GetPrompt(ctx, params)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{StructuredContent: map[string]any{
		"description": got.Description, "messages": got.Messages,
	}}, nil
}
