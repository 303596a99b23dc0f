// Package gemini implements provider.Model for Google's Gemini API.
package gemini
