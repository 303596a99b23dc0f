// Package text provides parsers that keep positions, for YAML, Markdown, JSON and Mermaid flowcharts.
package text

// Libraries parse YAML and Markdown. This package adds the byte span of every node, reports what the libraries drop
// silently (duplicate keys, a second document, an unclosed fence), and continues after errors so that one does not hide
// the next.
//
// There are two YAML parsers with the same result. yamlplain.go parses the simple blocks that most workflows consist of
// and gives up at anything else; yamlparse.go converts the tree of the library and computes where values end. Without
// the first one, validating a workflow of twelve steps takes twice as long. yamlerror.go finds the cause of an error at
// the position where the library stopped; yamlrepair.go continues after errors that quotes would fix.
