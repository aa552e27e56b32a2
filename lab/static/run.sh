#!/bin/sh
# Repeats the measurement; ROUNDS=n sets the number of rounds, 3 by default.
exec python3 "$(dirname "$0")/measure.py" "$@"
