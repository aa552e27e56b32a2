#!/usr/bin/env bash
# Checks what `make dist` has written: checksums, paths in the binaries, and the image of packaging/Containerfile, which is run with a root file
# system, a user and a network of its own. Needs root.
#
#     scripts/check-dist.sh DIRECTORY VERSION COMMIT
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $1 != --inside ]]; then
    top=$(mktemp -d)
    # What is mounted and started is lost with the namespaces.
    unshare --mount --propagation private --net --pid --fork --kill-child --mount-proc scripts/check-dist.sh --inside "$top" "$@" && result=0 || result=$?
    rmdir "$top"
    exit "$result"
fi
top=$2 dist=$3 version=$4 commit=$5
# The loopback interface of a new network is down: this is no network of the machine.
if ip -brief link show lo up | grep -q lo; then
    echo "check-dist.sh: --inside is for the script itself" >&2
    exit 1
fi
mount -t tmpfs tmpfs "$top"
root=$top/image

fail() {
    echo "check-dist.sh: $*" >&2
    exit 1
}
expect() { "$@" || fail "failed: $*"; }

# $1: binary.
check_binary() {
    local binary=$1 path
    "$binary" --version >"$top/version" || fail "$binary cannot be run"
    expect grep -qx "sluice ${version%+dirty}" "$top/version"
    expect grep -qx "commit: $commit" "$top/version"
    expect grep -qx 'features: in-kernel engine' "$top/version"
    for path in "$PWD" "${CARGO_TARGET_DIR:-$PWD/target}" "${CARGO_HOME:-$HOME/.cargo}" "${RUSTUP_HOME:-$HOME/.rustup}"; do
        if grep -aqF "$path/" "$binary"; then fail "$binary contains the path $path"; fi
    done
}

# The definitions of studies are those of the source, and the program reads them. $1: their folder.
check_study() {
    expect diff -r study/controllers "$1/controllers"
    expect diff -r study/experiments "$1/experiments"
    expect "$static" study list --definitions "$1" >/dev/null
}

# The value of an instruction of the Containerfile; a list in JSON without its marks.
instruction() { sed -n "s/^$1 //p" packaging/Containerfile | tr -d '[]",'; }

# The root file system, with what a runtime adds: /proc, /dev, /etc/hosts and /etc/resolv.conf.
lay_out_image() {
    cp -r "$dist/image" "$root"
    local owner path
    while read -r owner path; do
        chown -R "$owner" "$root$path"
    done < <(sed -n 's/^COPY --chown=\([^ ]*\) image\([^ ]*\) .*/\1 \2/p' packaging/Containerfile)
    mkdir "$root"/{proc,dev,etc}
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    echo '127.0.0.1 localhost controller.example' >"$root/etc/hosts"
    echo 'nameserver 127.0.0.1' >"$root/etc/resolv.conf"
}

# Runs the program in the image.
inside() { "${image[@]}" "$@"; }

# Starts the controller, and waits until it listens.
start() {
    : >"$top/out"
    # shellcheck disable=SC2046 # a list of words
    "${image[@]}" $(instruction CMD) --threads 1 "$@" >"$top/out" 2>&1 &
    controller=$!
    for _ in $(seq 200); do
        if grep -q '^metrics:' "$top/out"; then return; fi
        sleep 0.05
    done
    fail "the controller did not start: $(cat "$top/out")"
}

# The signal of the Containerfile ends it.
stop() {
    kill "-$(instruction STOPSIGNAL)" "$controller" || fail "the controller is not running: $(cat "$top/out")"
    wait "$controller" || fail "the controller ended with an error: $(cat "$top/out")"
}

check_image() {
    local port
    start
    for port in $(instruction EXPOSE | tr ' ' '\n' | sed 's|/tcp||'); do
        expect scripts/check-dist.py connect "$port"
    done
    # As a client of another machine sees it.
    expect scripts/check-dist.py status 200 http://10.0.0.1:8653/metrics
    expect scripts/check-dist.py status 401 http://10.0.0.1:8653/v1/switches
    expect scripts/check-dist.py status 200 http://127.0.0.1:8653/
    expect inside flow add 1 'priority=200,tcp,tp_dst=23,actions=drop' --name block-telnet >/dev/null
    expect test -s "$root$(instruction VOLUME)/static.redb"
    stop
}

# The static binary as a client: names of /etc/hosts and of DNS, and HTTPS.
check_client() {
    local state pki name
    state=$(instruction VOLUME) pki=$state/pki
    inside pki init --dir "$pki" >/dev/null
    inside pki issue controller --dir "$pki" --name localhost --name controller.example --name dns.example >/dev/null
    inside token add check --role read --file "$state/tokens.json" >"$root$state/token"
    scripts/check-dist.py nameserver dns.example 127.0.0.1 &
    start --app learning --api-cert "$pki/controller.pem" --api-key "$pki/controller.key" --api-tokens "$state/tokens.json"
    for name in localhost controller.example dns.example; do
        expect inside show switches --api "https://$name:8653" --ca "$pki/ca.pem" --token-file "$state/token" >/dev/null
        expect inside bench --controller "$name" --switches 4 --loops 4 --ms-per-test 100 --congestion system >"$top/bench"
    done
    stop
}

ip link set lo up
ip address add 10.0.0.1/32 dev lo
(cd "$dist" && sha256sum --check --quiet SHA256SUMS) || fail 'a checksum is wrong'
tar -C "$top" -xzf "$dist/sluice-$version-x86_64-linux.tar.gz"
static=$top/sluice-$version-x86_64-linux/sluice
if readelf --program-headers --dynamic "$static" | grep -E 'INTERP|NEEDED'; then fail "$static is not linked statically"; fi
dpkg-deb --extract "$dist/sluice-openflow_$version-1_amd64.deb" "$top/deb"
check_study "${static%/*}/study"
check_study "$top/deb/usr/share/sluice/study"
check_binary "$static"
check_binary "$top/deb/usr/bin/sluice"
expect cmp "$static" "$dist/image/usr/bin/sluice"
expect scripts/check-dist.py sbom "$dist/sluice-$version.cdx.json" "${version%+dirty}"
lay_out_image
# shellcheck disable=SC2046 # lists of words
image=(env -i "PATH=$PATH" $(instruction ENV) chroot --userspec="$(instruction USER)" "$root" $(instruction ENTRYPOINT))
check_image
check_client
echo "check-dist.sh: all checks of $dist have passed"
