// Package source provides the text of files and byte spans into it.
package source

// Spans store byte offsets only; lines and columns are computed when a diagnostic is printed. This keeps syntax trees
// small, and only this package handles CRLF and multi-byte characters.
