// Package npmtest fetches the programs of other people that tests need, from npm.
package npmtest
