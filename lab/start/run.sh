#!/bin/sh
# Repeats the measurement, as root, some nine minutes; DELAYS="5 50" for other delays, in milliseconds each way.
exec python3 "$(dirname "$0")/run.py" "$@"
