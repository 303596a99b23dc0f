// Package usertest runs tests as a user without privileges. Root passes checks of
// permissions that other users do not, and the other way around.
package usertest
