#!/bin/sh
# Repeats the measurement, as root, some six minutes; RATES="1 10" for other rates, in Mbit/s.
exec python3 "$(dirname "$0")/run.py" "$@"
