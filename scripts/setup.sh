#!/bin/sh
# Installs what the tests and the Makefile use beside Rust, on Debian and Ubuntu.
# Quick and silent when everything is there, so every target may call it.
set -eu
cd "$(dirname "$0")/.."

# os-ken is the maintained successor of Ryu; this is the last release with all its parts.
osken=3.1.1
venv=.cache/osken-$osken

missing=
need() {
    [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null)" = 'install ok installed' ] ||
        missing="$missing $1"
}
need openvswitch-switch # the switches of tests/: its programs, not its service
need mininet            # networks as people build them
need iproute2           # namespaces and cables
need iputils-ping       # the hosts' traffic
need iperf3             # TCP between hosts
need ethtool            # checksums in software, or TCP through the userspace datapath hangs
need procps             # sysctl
need curl               # metrics from inside a namespace
need tcpdump            # recordings of what we say
need tshark             # a foreign reader of them
need python3-venv       # os-ken, another one
need valgrind           # instructions per message
need strace             # system calls per message
need g++                # the fuzzer's runtime

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "setup: run this once as root, or: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    # A machine that tests switches need not become one: 101 keeps new services from starting.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
        trap 'rm -f $policy' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    apt-get install -qq -y --no-install-recommends $missing
fi

# The marker comes last, so that an interrupted installation is done again.
if [ ! -e "$venv/complete" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "os-ken==$osken"
    touch "$venv/complete"
fi
