// Package arch is the test that keeps the layers: which package may import
// which.
package arch
