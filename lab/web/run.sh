#!/bin/sh
# Repeats the measurement; ROUNDS=n sets the number of rounds.
set -eu
cd "$(dirname "$0")/../.."
sluice=${SLUICE_BIN:-target/release/sluice}
dir=$(mktemp -d)
trap 'kill $emu $controller 2>/dev/null || true; rm -rf "$dir"' EXIT
controller='' emu=''
mkdir -p lab/web/data

python3 lab/web/network.py >"$dir/network.mn"
"$sluice" run --listen 127.0.0.1:16753 --api 127.0.0.1:18753 --threads 1 --state-dir "$dir/state" >"$dir/controller.log" 2>&1 &
controller=$!
sleep 1
"$sluice" emu -c 127.0.0.1:16753 --topo "$dir/network.mn" --plain --pings 200 >"$dir/emu.log" 2>&1 &
emu=$!
# Until all links, and most hosts, are known.
seconds=0
while [ "$seconds" -lt 180 ]; do
    known=$(curl -s http://127.0.0.1:18753/v1/controller | jq '.links == 8000 and .hosts >= 9900')
    [ "$known" = true ] && break
    seconds=$((seconds + 2))
    sleep 2
done
curl -s http://127.0.0.1:18753/v1/controller && echo
node lab/web/measure.mjs http://127.0.0.1:18753 lab/web/data/page.json
kill $emu $controller
python3 lab/web/throughput.py
