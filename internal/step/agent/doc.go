// Package agent runs steps of kind "agent": an agent does a task, with its tools, and its
// reply meets a contract.
package agent
