#!/bin/sh
# Measures the question again, as root; TRANSFER_S=n for another length of each transfer.
exec python3 "$(dirname "$0")/run.py" "$@"
