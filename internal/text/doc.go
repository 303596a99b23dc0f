// Package text is the readers that keep positions: YAML, Markdown and,
// as formats need them, JSON and Mermaid.
package text

// Libraries do the parsing; what is ours is that every node knows its bytes
// in the file, that nothing is dropped in silence (duplicate keys, a second
// document, an unclosed fence), and that one mistake does not hide the next.
