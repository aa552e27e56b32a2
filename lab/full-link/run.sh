#!/bin/sh
# Measures the question again; ROUNDS=n for another number of rounds, BEFORE=binary to have another controller in turn.
exec python3 "$(dirname "$0")/run.py" "$@"
