// Package mcpserver implements an MCP (Model Context Protocol) server with the workflows of a project as tools. Agents
// can start and read runs, but cannot decide gates, which is left to people.
package mcpserver
