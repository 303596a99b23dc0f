// Package analysis compiles and checks workflow files.
package analysis

// Editors check files while they are written, so nothing here depends on packages that run workflows. The test of
// package arch holds that.
