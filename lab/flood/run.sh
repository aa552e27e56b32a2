#!/bin/sh
# Repeats the measurement; ROUNDS=n sets the number of rounds. Arguments select what the flood sends, such as `handshake`.
exec python3 "$(dirname "$0")/run.py" "$@"
