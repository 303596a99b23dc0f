// Package steptest provides the test suite that every step kind passes.
package steptest
