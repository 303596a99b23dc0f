// Package tooltest provides the test suite for implementations of tool.Tool.
package tooltest
