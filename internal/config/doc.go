// Package config reads espalier.yaml, the settings of a project: models and their prices, sources of secrets, tools,
// and permissions.
package config

// Each section is one struct and one function that reads it, called from Config.read. These functions read keys through
// fields, which records every key with its type and description. Schema is built from that record, so the parser and
// the schema for editors cannot disagree.
