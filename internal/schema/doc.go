// Package schema is JSON Schema for documents that refer to nothing outside
// themselves: it reads schemas, holds values against them and says everything
// that is wrong in words, and fills in defaults.
package schema

// Schemas and values come from files and models that nobody vouches for.
// Nothing is ever loaded from anywhere; how deep a schema goes, how much work
// a check may be and how long a number is are bounded, and patterns are Go's,
// which take linear time.
//
// It is a package of our own because a start of the program must not cost the
// compiling of all meta-schemas. The tests hold it against a library that does.
//
// compile.go turns a document into nodes, keyword by keyword (keywords.go),
// and follows references (resolve.go); check.go holds values against nodes.
