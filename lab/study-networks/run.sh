#!/bin/sh
# Carries out the study, or goes on with it. SLUICE_CONTROLLERS says where controllers are installed, STUDY in which folder it works.
root=$(cd "$(dirname "$0")/../.." && pwd)
exec "${SLUICE_BIN:-$root/target/release/sluice}" study run --plan "$root/lab/study-networks/plan.toml" --output "${STUDY:-$root/target/lab-study-networks}" "$@"
