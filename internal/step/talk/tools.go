package talk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/tool"
)

func toolUses(reply *provider.Reply) []provider.Block {
	var out []provider.Block
	for _, b := range reply.Blocks {
		if b.Type == provider.ToolUse {
			out = append(out, b)
		}
	}
	return out
}

// useTools does what the model asks for, in its order, and tells it the results.
func (c *conversation) useTools(ctx context.Context, uses []provider.Block) error {
	message := provider.Message{Role: provider.User}
	for _, use := range uses {
		c.calls++
		result, err := c.useTool(ctx, use)
		if err != nil {
			return err
		}
		message.Blocks = append(message.Blocks, resultBlock(use.ToolID, result))
	}
	c.request.Messages = append(c.request.Messages, message)
	return nil
}

// resultBlock tells the model what came of a call.
func resultBlock(id string, result journal.ToolUse) provider.Block {
	content := result.Output
	if len(content) == 0 {
		content = json.RawMessage("null")
		if result.Error != "" {
			content = step.JSON(result.Error)
		}
	}
	return provider.Block{Type: provider.ToolResult, ToolID: id, ToolName: result.Name, Content: content, IsError: result.Error != ""}
}

// useTool does one call: nothing if its result was noted, nothing in the world
// if it is not allowed.
func (c *conversation) useTool(ctx context.Context, use provider.Block) (journal.ToolUse, error) {
	call := journal.ToolUse{Name: use.ToolName, CallID: use.ToolID, Input: use.Input}
	if call.CallID == "" {
		call.CallID = fmt.Sprintf("call-%d", c.calls)
	}
	var noted journal.ToolUse
	called, err := c.replay(journal.NoteToolCall, &noted)
	if err != nil {
		return call, err
	}
	if called {
		call = noted
		if again, err := c.replay(journal.NoteToolResult, &noted); err != nil || again {
			return noted, err
		}
	}
	if err := c.settled(); err != nil {
		return call, err
	}
	found, refusal := c.find(call)
	if refusal != "" {
		return c.refuse(call, called, refusal), nil
	}
	done, err := c.job.CallTool(ctx, step.ToolCall{
		Tool: found, Name: call.Name, CallID: call.CallID, N: c.calls, Agent: c.Agent.ID, Input: call.Input, Noted: called,
	}, c.flush()...)
	if err != nil {
		c.inFlight = done.InFlight
		return call, err
	}
	c.note(done.Note)
	return done.Use, nil
}

// find returns the tool for a call, or why there is to be none.
func (c *conversation) find(call journal.ToolUse) (tool.Tool, string) {
	if c.Agent == nil {
		return nil, fmt.Sprintf("there are no tools here, so no %q either", call.Name)
	}
	if refusal := step.Refusal(c.job.Workflow, c.job.Step, c.Agent, call.Name); refusal != "" {
		return nil, refusal
	}
	var found tool.Tool
	if c.job.Tools != nil {
		found = c.job.Tools.Tool(call.Name)
	}
	if found == nil {
		return nil, fmt.Sprintf("there is no tool %q here", call.Name)
	}
	if problems := step.BadInput(found.Spec(), call.Input); len(problems) > 0 {
		return nil, fmt.Sprintf("the input of the tool %q does not fit: %s", call.Name, strings.Join(problems, "; "))
	}
	return found, ""
}

// refuse records a call that is not made, and what the model is told instead.
func (c *conversation) refuse(call journal.ToolUse, called bool, why string) journal.ToolUse {
	call.Fidelity, call.Repeatable = journal.ByRouter, true
	if !called {
		c.note(step.Note{Kind: journal.NoteToolCall, Data: call})
	}
	call.Error = why
	c.note(step.Note{Kind: journal.NoteToolResult, Data: call})
	return call
}
