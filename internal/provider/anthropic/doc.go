// Package anthropic implements provider.Model for Anthropic's Messages API and
// servers that are compatible with it.
package anthropic
