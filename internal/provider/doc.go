// Package provider is the seam to language models: one request, one streamed
// reply, in types of our own that no vendor's library crosses.
package provider
