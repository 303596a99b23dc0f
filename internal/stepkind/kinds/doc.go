// Package kinds implements the kinds of steps that ship: their settings, and what checks ask about them. Package step
// has a runner for each.
package kinds
