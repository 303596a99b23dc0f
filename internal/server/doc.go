// Package server serves a project over HTTP: the API, live events, the web
// pages and webhooks, with identities and roles.
package server
