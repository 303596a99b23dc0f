// Package notify sends messages to people and programs: through the services
// that shoutrrr knows, and as signed webhooks.
package notify
