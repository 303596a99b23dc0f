// Package objecttest starts servers of S3-compatible object storage for tests.
package objecttest
