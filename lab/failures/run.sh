#!/bin/sh
# Repeats the measurement, as root; ROUNDS=n sets how often each event is repeated.
exec python3 "$(dirname "$0")/run.py" "$@"
