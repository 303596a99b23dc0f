// Package text is the readers that keep positions: YAML, Markdown, JSON and
// Mermaid flowcharts.
package text

// Libraries do the parsing; what is ours is that every node knows its bytes
// in the file, that nothing is dropped in silence (duplicate keys, a second
// document, an unclosed fence), and that one mistake does not hide the next.
//
// YAML takes one of two ways to the same tree. yamlplain.go reads the simple
// blocks that workflows are made of and gives up at anything else;
// yamlparse.go goes through the library and finds out where values end.
// yamlerror.go looks at the place where the library stopped and says what is
// wrong there; yamlrepair.go reads on after mistakes that quotes would mend.
