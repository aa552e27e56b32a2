#!/usr/bin/env bash
# Writes what is published into target/dist: archive of the static binary, Debian package, container context, SBOM, checksums. Runs it: needs root.
#
#     make dist                    version of Cargo.toml; the tree must be clean
#     ALLOW_DIRTY=1 make dist      to try it: the version ends in +dirty
#
# docs/releasing.md describes how a version is made, docs/adr/0041-packages.md why the packages are as they are.
set -euo pipefail
if [[ $(id -u) != 0 ]]; then
    echo "dist.sh: needs root, since it runs the image at the end in namespaces of its own" >&2
    exit 1
fi
# What is packed has the same permissions whoever packs it.
umask 022
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
dynamic=x86_64-unknown-linux-gnu
static=x86_64-unknown-linux-musl
dist=$target/dist
# Also of what cargo-deb and tar write: the same commit gives the same files.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
if [[ -n $(git status --porcelain) ]]; then
    if [[ -z ${ALLOW_DIRTY:-} ]]; then
        echo "dist.sh: the working tree has changes that no commit has: commit them, or try with ALLOW_DIRTY=1" >&2
        git status --short >&2
        exit 1
    fi
    version+=+dirty
    SLUICE_COMMIT=$(git rev-parse --short=12 HEAD)-dirty
    export SLUICE_COMMIT
fi
commit=${SLUICE_COMMIT:-$(git rev-parse --short=12 HEAD)}

# The compiler for musl, and the one that builds ring for it.
install_musl() {
    # shellcheck source=scripts/packages.sh
    . scripts/packages.sh
    need musl-tools
    need binutils
    need iproute2
    install_needed dist.sh
    rustup target list --installed | grep -qx "$static" || rustup target add "$static"
}

# Both binaries, side by side. Panics and backtraces name files of the crates; paths of this machine are not in the binaries.
build() {
    # Separated by the byte that cargo expects, since paths may have spaces.
    local flags
    printf -v flags '%s\x1f' "--remap-path-prefix=$PWD=sluice" "--remap-path-prefix=$target=target" "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    # mimalloc contains the time at which it was compiled.
    export CFLAGS_x86_64_unknown_linux_musl="-Wno-builtin-macro-redefined -D__DATE__=\"\" -D__TIME__=\"\""
    scripts/clang.sh
    CARGO_ENCODED_RUSTFLAGS=${flags%$'\x1f'} cargo build --locked --release --bin sluice --target "$dynamic" --target "$static"
}

# $1: name of the archive without its ending, $2: binary.
write_archive() {
    local root=$dist/$1
    scripts/stage.sh "$2" "$root"
    cp README.md LICENSE "$root/"
    cp -r packaging/systemd packaging/sluice.toml "$root/"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$dist" -cf - "$1" | gzip -9n >"$root.tar.gz"
    rm -r "$root"
}

# The folder from which packaging/Containerfile builds the image. $1: binary.
write_image() {
    mkdir -p "$dist/image/usr/bin" "$dist/image/var/lib/sluice"
    strip --strip-all -o "$dist/image/usr/bin/sluice" "$1"
}

install_musl
rm -rf "$dist"
mkdir -p "$dist"
# What is published has the page.
scripts/web.sh
scripts/web.sh --check
build
binary=$target/$static/release/sluice
write_archive "sluice-$version-x86_64-linux" "$binary"
write_image "$binary"
# In a package, a version ends in a revision, and `+dirty` sorts behind the version without it.
scripts/deb.sh "$target/$dynamic/release/sluice" "$dist" "$version-1"
scripts/sbom.py "$version" "$static" >"$dist/sluice-$version.cdx.json"
cp packaging/grafana/sluice.json "$dist/sluice-$version-grafana.json"
cp packaging/prometheus/alerts.yml "$dist/sluice-$version-alerts.yml"
(cd "$dist" && sha256sum sluice* | tee SHA256SUMS)
scripts/check-dist.sh "$dist" "$version" "$commit"
