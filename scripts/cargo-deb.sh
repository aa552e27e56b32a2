#!/bin/sh
# Installs cargo-deb, which writes the Debian package, and prints its path. Quick and silent if it is there.
set -eu
cd "$(dirname "$0")/.."

version=3.8.0
root=$PWD/.cache/cargo-deb-$version
if [ ! -x "$root/bin/cargo-deb" ]; then
    # Without the lzma library and the reader of ELF files, which only other compressions and debug packages need.
    CARGO_TARGET_DIR=$root/build cargo install --quiet --locked --no-default-features --root "$root" "cargo-deb@$version" >&2
    rm -rf "$root/build"
fi
echo "$root/bin/cargo-deb"
