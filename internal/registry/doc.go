// Package registry provides the list of what runs workflows (runners of steps, providers, tools, stores) and turns a
// project's configuration into objects: models, tools, secrets, telemetry, and a Runtime that drives and records runs.
package registry

// Only this package imports the leaves of step, provider, tool and journal; package catalog lists the formats and the
// kinds of steps. To ship another runner, add one line to registry.go. Operations of the product belong to package app.
