// Package source is the text of files and the byte spans that point into it.
package source

// Only byte offsets are stored; line and column are computed when something
// is printed. That keeps every node of every tree small and exact, and there
// is one place that knows about tabs, CRLF and wide characters.
