// Package tool is the step kind that calls one tool.
package tool
