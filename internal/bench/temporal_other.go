//go:build !temporal

package main

import "errors"

func onTemporal() error {
	return errors.New("the comparison with Temporal needs the tag temporal: make bench-temporal")
}
