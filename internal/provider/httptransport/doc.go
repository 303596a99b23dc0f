// Package httptransport implements what the HTTP providers share: sending keys,
// classifying error responses, and rewriting names and schemas to a form that
// servers accept.
package httptransport

// The SDKs of the providers look for keys in environment variables and files.
// The transport removes every authentication header that an SDK sets, and adds
// the key that is configured for the server, or none. So no key reaches a
// server that it is not configured for.
