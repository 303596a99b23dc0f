// Package kinds implements the kinds of steps that ship: their settings, and what checks ask about them. A package
// below step has the runner of each.
package kinds
