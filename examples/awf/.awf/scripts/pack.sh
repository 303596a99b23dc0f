#!/bin/sh
# Templates are filled in here, too.
echo "packed after a warm-up with exit code {{.states.warm_up.ExitCode}}"
