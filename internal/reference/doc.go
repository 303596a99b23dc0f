// Command reference writes what documentation and packages need and the program knows best: manual pages, completions
// of shells, and the reference pages of the documentation site.
package main
