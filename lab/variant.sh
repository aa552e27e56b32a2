#!/bin/sh
# Builds the committed controller with one change, and prints the path of the binary.
#   lab/variant.sh NAME FILE SED       the change is a sed expression for one file
#   lab/variant.sh NAME PATCH          the change is a patch
# A sed expression that changes nothing is an error.
set -eu
cd "$(dirname "$0")/.."
name=$1 tree=target/variants/tree binary=target/variants/$1.bin
rm -rf "$tree" && mkdir -p "$tree"
git archive HEAD | tar -x -C "$tree"
if [ $# = 3 ]; then
    sed -i.orig "$3" "$tree/$2"
    if cmp -s "$tree/$2" "$tree/$2.orig"; then
        echo "variant $name: the expression changes nothing in $2" >&2
        exit 1
    fi
else
    patch -s -p1 -d "$tree" <"$2"
fi
touch "$tree"/crates/*/src/*.rs
CARGO_TARGET_DIR=$PWD/target/variants/build cargo build --quiet --locked --release --bin sluice --manifest-path "$tree/Cargo.toml"
cp target/variants/build/release/sluice "$binary"
echo "$PWD/$binary"
