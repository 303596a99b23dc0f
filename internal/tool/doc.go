// Package tool is the seam to what agents and tool steps act with, and the
// gate that every call has to pass.
package tool
