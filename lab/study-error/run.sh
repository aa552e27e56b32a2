#!/bin/sh
# Repeats the measurement; RUNS=n sets the number of comparisons (20 by default).
exec python3 "$(dirname "$0")/run.py" "$@"
