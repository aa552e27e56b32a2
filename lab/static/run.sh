#!/bin/sh
# Measures static entries: lab/static/run.sh [SLUICE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sluice=${1:-$here/../../target/release/sluice}
for entries in 1000 10000; do
    python3 "$here/measure.py" "$sluice" "$entries" | tee "$here/data/data-$entries.txt"
done
