// Package tool runs steps of kind "tool", which call one tool.
package tool
