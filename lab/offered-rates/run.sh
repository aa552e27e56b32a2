#!/bin/sh
# Repeats the measurement; ROUNDS=n sets the number of rounds.
exec python3 "$(dirname "$0")/run.py" "$@"
