// Package mcp implements the tools of MCP (Model Context Protocol) servers, which are started as programs or reached
// over HTTP.
package mcp

// A server is started when one of its tools is first needed. A server that dies is started again, up to maxStarts times
// within startsWithin. Its output is limited: each message, and all output since the last call began. A call that
// times out ends the session, because the server may still be working on it. Each progress notification restarts the
// timeout.
