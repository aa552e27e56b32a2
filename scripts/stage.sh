#!/bin/sh
# Lays out what both the Debian package and the archive have: the binary without debug information, man pages, completions, examples,
# and the controllers and experiments of studies, from which users make their own.
#
#     scripts/stage.sh BINARY DIRECTORY
set -eu
cd "$(dirname "$0")/.."

binary=$1 stage=$2
mkdir -p "$stage/completions" "$stage/examples" "$stage/study"
strip --strip-all -o "$stage/sluice" "$binary"
"$binary" man "$stage/man"
"$binary" completions bash >"$stage/completions/sluice"
"$binary" completions zsh >"$stage/completions/_sluice"
"$binary" completions fish >"$stage/completions/sluice.fish"
"$binary" config example >"$stage/examples/sluice.toml"
cp packaging/sysctl.conf packaging/systemd/in-kernel.conf packaging/prometheus/alerts.yml packaging/grafana/sluice.json "$stage/examples/"
cp -r study/controllers study/experiments "$stage/study/"
cp CHANGELOG.md "$stage/"
