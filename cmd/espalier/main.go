// Command espalier reads, checks and draws workflows of LLM agents.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/espalier-run/espalier/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	// Commands are short: memory that is free in a moment anyway is worth
	// less than the time to collect it.
	debug.SetGCPercent(400)
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "espalier: the working folder is gone:", err)
		return 6
	}
	return cli.Main(cli.World{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Dir: dir,
	}, os.Args[1:])
}
