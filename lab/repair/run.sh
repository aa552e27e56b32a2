#!/bin/sh
# Measures the question again, as root; CUTS=n for another number of cuts in each case.
exec python3 "$(dirname "$0")/run.py" "$@"
