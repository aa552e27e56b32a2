#!/bin/sh
# Installs clang, which compiles the BPF program of crates/kernel. Without it, Sluice is built without that program and says so: nothing
# fails here.
cd "$(dirname "$0")/.." || exit 0

. scripts/packages.sh
need clang
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "clang.sh: without clang, Sluice is built without the in-kernel engine and without limits.syn_filter" >&2
    exit 0
fi
(install_needed clang.sh) || echo "clang.sh: clang could not be installed" >&2
exit 0
