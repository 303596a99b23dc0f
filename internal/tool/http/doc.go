// Package http implements tools that send an HTTP request, declared by a URL, a method and a schema.
package http
