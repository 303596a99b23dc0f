// Package steptest is the suite that every step kind passes.
package steptest
