// Package agent is the step kind that lets an agent work: a model with a role,
// perhaps with tools, perhaps held to the form of its reply.
package agent
