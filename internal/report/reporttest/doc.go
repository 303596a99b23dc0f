// Package reporttest provides the recorded runs with which every reader of the
// journal is tested: they were driven through the plan, and are stored as files.
package reporttest
