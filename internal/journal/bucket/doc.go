// Package bucket implements a bucket of S3-compatible object storage for the large values of a journal.
package bucket
