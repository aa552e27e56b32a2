#!/bin/sh
# Repeats the measurement, as root; TRANSFER_S=n sets the seconds of each transfer.
exec python3 "$(dirname "$0")/run.py" "$@"
