// Package lazyregexp compiles regular expressions on first use: most invocations of the program need few of them.
package lazyregexp
