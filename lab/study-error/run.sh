#!/bin/sh
# Repeats the measurement; RUNS=n sets the number of comparisons (20 by default). `simulate` prints the tables of simulated comparisons.
here=$(dirname "$0")
if [ "$1" = simulate ]; then
    cd "$here/../.." || exit 1
    exec cargo test --locked -p sluice-study --lib interval::simulation -- --nocapture --test-threads 1
fi
exec python3 "$here/run.py" "$@"
