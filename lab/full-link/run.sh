#!/bin/sh
# Repeats the measurement; ROUNDS=n sets the number of rounds, BEFORE=binary compares with another controller.
exec python3 "$(dirname "$0")/run.py" "$@"
