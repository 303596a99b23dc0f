// Package http is tools that are requests over HTTP, declared by a URL, a
// method and a schema.
package http
