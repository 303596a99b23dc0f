// Package samplingtest selects among the cases of tests that have very many, such as a kill at every write of every
// run. "make test" runs a fixed selection of them, and "make test-exhaustive" all.
package samplingtest
