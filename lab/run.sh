#!/bin/sh
# Repeats the measurements of the README, which takes about 25 minutes on two otherwise idle cores.
set -eu
cd "$(dirname "$0")"
for topic in defaults throughput forwarding switches latency idle-sessions flood; do
    echo
    echo "## $topic"
    echo
    "./$topic/run.sh"
done
