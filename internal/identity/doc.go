// Package identity authenticates people and programs that use the server, and
// decides what each of them may do.
package identity

// What a person may do is decided here alone; package server asks for the permission that each of its routes needs.
