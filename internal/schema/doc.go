// Package schema implements JSON Schema for self-contained documents. It compiles schemas, validates values with
// readable messages, and fills in defaults.
package schema

// Schemas and values come from untrusted files and models. Therefore references to other documents are never loaded;
// the size and nesting of a schema, the work of a validation and the digits of a number are limited; and patterns are
// RE2 expressions, which match in linear time.
//
// A library, github.com/santhosh-tekuri/jsonschema, would replace most of this package, but it compiles every
// meta-schema in its init function, which nearly doubles the time that every start of the program takes, and it does
// not bound its work: a few nested references make a validation run forever. The tests use it to check that both agree.
//
// compile.go turns a document into nodes, keyword by keyword (keywords.go), and resolves references (resolve.go).
// check.go validates values against nodes.
