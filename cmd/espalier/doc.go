// Command espalier checks, draws, runs and serves workflows of LLM agents.
package main
