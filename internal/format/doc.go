// Package format defines the interface that every workflow format implements, and chooses the
// format of a file.
package format
