#!/bin/sh
# Repeats the measurement, as root; CUTS=n sets the number of failures per case.
exec python3 "$(dirname "$0")/run.py" "$@"
