// Package irtest checks the programs that formats produce, in tests.
package irtest
