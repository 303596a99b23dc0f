// Package format is the seam to the file formats: how one is chosen for a
// file, and what it must give back.
package format
