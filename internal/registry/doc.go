// Package registry provides the list of what ships (formats, step kinds, providers, tools, stores) and turns a
// project's configuration into objects: models, tools, secrets, telemetry, and a Runtime that drives and records runs.
package registry

// Only this package imports the leaves of format, step, provider, tool and journal. To ship another format or step
// kind, add one line to registry.go. Operations of the product belong to package app.
