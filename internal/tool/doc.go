// Package tool defines the Tool interface and checks every call against the allowlists.
package tool
