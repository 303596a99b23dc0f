// Package enginetest is the suite that every engine passes, and the step kind
// and programs that tests of engines use.
package enginetest
