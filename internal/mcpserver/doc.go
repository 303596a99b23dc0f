// Package mcpserver offers the workflows of a project as tools of the Model
// Context Protocol. Agents can start runs and read them. They cannot decide
// gates: that is for people.
package mcpserver
