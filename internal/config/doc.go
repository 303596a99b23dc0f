// Package config is the project's own settings, read from espalier.yaml: which
// models answer, what they cost, where secrets come from, and what is allowed.
package config

// A section is one struct and one function that reads it, listed in
// Config.read. The functions ask for their keys through fields, which notes
// what was asked for: the JSON Schema for editors is made of that, so it
// cannot say anything else than the reader does.
