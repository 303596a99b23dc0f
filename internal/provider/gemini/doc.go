// Package gemini is the models of Google's Gemini API.
package gemini
