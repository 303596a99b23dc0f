package cliagent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
)

// prompt returns the prompt for a program. If the program continues a session, the prompt contains only new messages;
// otherwise it contains the whole conversation.
func prompt(req *provider.Request, withSystem bool) string {
	messages := req.Messages
	if req.Task.Session != "" && len(messages) > 0 {
		return textOfMessage(messages[len(messages)-1])
	}
	var parts []string
	if withSystem && req.System != "" {
		parts = append(parts, req.System)
	}
	if len(messages) == 1 {
		return strings.Join(append(parts, textOfMessage(messages[0])), "\n\n")
	}
	for i, m := range messages {
		text := textOfMessage(m)
		switch {
		case text == "":
		case i == len(messages)-1:
			parts = append(parts, text)
		case m.Role == provider.Assistant:
			parts = append(parts, "Your earlier reply:\n"+text)
		default:
			parts = append(parts, "Earlier message:\n"+text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// textOfMessage returns the text of a message.
func textOfMessage(m provider.Message) string {
	var out []string
	for _, b := range m.Blocks {
		switch b.Type {
		case provider.Text:
			out = append(out, b.Text)
		case provider.ToolResult:
			out = append(out, fmt.Sprintf("The tool %s returned: %s", b.ToolName, b.Content))
		}
	}
	return withoutNUL(strings.Join(out, "\n\n"))
}

// writeFiles writes the files of a call and returns a function that removes them.
func (c *Call) writeFiles() (done func(), err error) {
	if len(c.Files) == 0 {
		return func() {}, nil
	}
	// The files may contain secrets that a crash would leave behind, so they are kept in memory if the system has a
	// memory file system.
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "espalier-agent-")
	if err != nil {
		return func() {}, err
	}
	done = func() { os.RemoveAll(dir) }
	for name, text := range c.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return done, err
		}
	}
	for _, list := range [][]string{c.Args, c.Env} {
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], FilesDir, dir)
		}
	}
	return done, nil
}
