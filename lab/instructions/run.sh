#!/bin/sh
# Counts instructions (callgrind), system calls (strace) and allocations per packet-in.
set -eu
cd "$(dirname "$0")/../.."
cargo build --locked --release --bin sluice
cargo test --locked -p sluice-system-tests --test cost -- --nocapture --test-threads 1
cargo test --locked -p sluice-engine --test cost
