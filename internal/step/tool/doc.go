// Package tool implements the step kind "tool", which calls one tool.
package tool
