#!/bin/sh
# Writes the Debian package of a binary that is built already.
#
#     scripts/deb.sh BINARY DIRECTORY VERSION
#
# Prints the path of the package. Files get the time SOURCE_DATE_EPOCH, or that of the last commit. DEB_FLAGS are options of cargo-deb.
set -eu
cd "$(dirname "$0")/.."

binary=$1 directory=$2 version=$3
target=${CARGO_TARGET_DIR:-target}
stage=$target/release/package
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH

rm -rf "$stage"
scripts/stage.sh "$binary" "$stage"
mv "$stage/CHANGELOG.md" "$stage/changelog"
cat >"$stage/changelog.Debian" <<END
sluice ($version) unstable; urgency=medium

  * changelog.gz has the changes of this version.

 -- The Sluice authors <sluice@example.org>  $(LC_ALL=C date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")
END
gzip -9n "$stage"/man/*.1 "$stage/changelog" "$stage/changelog.Debian"
cargo_deb=$(scripts/cargo-deb.sh)
mkdir -p "$directory"
# shellcheck disable=SC2086 # a list of words
"$cargo_deb" ${DEB_FLAGS:-} --quiet --locked --offline --no-build --no-strip -p sluice-cli --deb-version "$version" --output "$directory"
