#!/bin/sh
# Counts again: instructions and system calls per frame, by callgrind and strace, and allocations.
set -eu
cd "$(dirname "$0")/../.."
cargo build --locked --release --bin sluice
cargo test --locked -p sluice-system-tests --test cost -- --nocapture --test-threads 1
cargo test --locked -p sluice-engine --test cost
