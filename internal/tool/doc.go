// Package tool is the seam to what agents and tool steps act with.
package tool
