// Package steptest provides the test suites that every kind of step and every runner pass.
package steptest
