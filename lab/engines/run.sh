#!/bin/sh
# Repeats the measurement; ROUNDS=n sets the number of rounds. Arguments name the tables: throughput, latency, one_core, default_applications.
exec python3 "$(dirname "$0")/run.py" "$@"
