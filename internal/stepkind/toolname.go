package stepkind

import "strings"

// maxToolName is the length of the longest name, in bytes.
const maxToolName = 128

// IsToolName reports whether s can be the name of a tool: one word of letters,
// digits and the separators that MCP servers and formats use.
func IsToolName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		case i > 0 && (c >= '0' && c <= '9' || strings.IndexByte("_.:/-", c) >= 0):
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxToolName
}

// ToolNameHelp describes the names of tools, without a full stop.
const ToolNameHelp = "Write one word that begins with a letter, such as web_search or files.read"
