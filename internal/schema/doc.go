// Package schema holds values against JSON Schemas: all complaints at once, in
// words, and defaults filled in.
package schema

// Schemas come from files that are not trusted: nothing is ever loaded from
// anywhere, only references inside the document are followed.
