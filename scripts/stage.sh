#!/bin/sh
# Lays out what both the Debian package and the archive have: the binary without debug information, man pages, completions, examples.
#
#     scripts/stage.sh BINARY DIRECTORY
set -eu
cd "$(dirname "$0")/.."

binary=$1 stage=$2
mkdir -p "$stage/completions" "$stage/examples"
strip --strip-all -o "$stage/sluice" "$binary"
"$binary" man "$stage/man"
"$binary" completions bash >"$stage/completions/sluice"
"$binary" completions zsh >"$stage/completions/_sluice"
"$binary" completions fish >"$stage/completions/sluice.fish"
"$binary" config example >"$stage/examples/sluice.toml"
cp packaging/sysctl.conf packaging/systemd/in-kernel.conf packaging/prometheus/alerts.yml packaging/grafana/sluice.json "$stage/examples/"
cp CHANGELOG.md "$stage/"
