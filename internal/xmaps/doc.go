// Package xmaps adds to the standard package maps.
package xmaps
