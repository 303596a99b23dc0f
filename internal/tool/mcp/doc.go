// Package mcp is the tools of servers that speak the Model Context Protocol,
// started as programs or reached over HTTP.
package mcp

// A server is started when one of its tools is first wanted, and again when it
// has died, but not for ever. It is bounded in what it may write: for one
// message, and for everything since the last call began. A call that takes too
// long ends with its server, because the server may still be working on it;
// one that reports progress has more time.
