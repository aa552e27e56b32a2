#!/bin/sh
# The figures of the README, measured again: some twenty-five minutes on two cores that nothing else uses.
set -eu
cd "$(dirname "$0")"
for topic in defaults throughput forwarding switches latency idle-sessions flood; do
    echo
    echo "## $topic"
    echo
    "./$topic/run.sh"
done
