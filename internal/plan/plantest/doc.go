// Package plantest drives plans in tests.
package plantest
