#!/bin/sh
# Repeats the measurement, as root.
exec python3 "$(dirname "$0")/run.py" "$@"
