// Package xslices adds to the standard package slices.
package xslices
