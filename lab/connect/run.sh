#!/bin/sh
# Repeats the measurement; `model` or `real` for one half of it. The real one needs root and Open vSwitch.
exec python3 "$(dirname "$0")/run.py" "$@"
