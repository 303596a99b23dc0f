// Package reporttest holds the recorded runs with which every reader of the
// journal is tested: they were driven through the plan, and are kept as files.
package reporttest
