#!/bin/sh
# Measures the question again; ROUNDS=n for another number of rounds.
exec python3 "$(dirname "$0")/run.py" "$@"
