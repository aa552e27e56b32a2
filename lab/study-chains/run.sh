#!/bin/sh
# Carries out the study, or goes on with it. STUDY says in which folder it works.
root=$(cd "$(dirname "$0")/../.." && pwd)
exec "${SLUICE_BIN:-$root/target/release/sluice}" study run --plan "$root/lab/study-chains/plan.toml" --output "${STUDY:-$root/target/lab-study-chains}" "$@"
