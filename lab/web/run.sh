#!/bin/sh
# Repeats the measurement; ROUNDS=n sets the number of rounds, PROFILES=DIR keeps CPU profiles of the page.
set -eu
cd "$(dirname "$0")/../.."
SLUICE_BIN=${SLUICE_BIN:-target/release/sluice}
export SLUICE_BIN
dir=$(mktemp -d)
controller=''
trap 'kill $controller 2>/dev/null || true; rm -rf "$dir"' EXIT
mkdir -p lab/web/data

python3 lab/web/network.py >"$dir/network.mn"
nice -n 10 "$SLUICE_BIN" run --listen 127.0.0.1:16753 --api 127.0.0.1:18753 --threads 1 --state-dir "$dir/state" >"$dir/controller.log" 2>&1 &
controller=$!
sleep 1
node lab/web/measure.mjs 127.0.0.1:16753 http://127.0.0.1:18753 "$dir/network.mn" lab/web/data/page.json
kill $controller
python3 lab/web/throughput.py
