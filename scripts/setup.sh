#!/bin/sh
# Installs what the tests and the Makefile use besides Rust, on Debian and Ubuntu.
# Quick and silent if everything is installed, so every target may call it.
set -eu
cd "$(dirname "$0")/.."

# os-ken is the maintained successor of Ryu; this is the last release with all its parts.
osken=3.1.1
# Sends requests to the API that its OpenAPI document allows, and others that it does not.
schemathesis=4.32.5

. scripts/packages.sh
need openvswitch-switch # switches for tests/, which start its programs themselves, not the service
need mininet            # emulated networks of the tests
need iproute2           # network namespaces and veth pairs
need iputils-ping       # traffic between hosts
need iperf3             # TCP between hosts
need dnsmasq-base       # a DHCP server
need busybox            # a DHCP client
need ethtool            # turns off checksum offload; otherwise TCP over the userspace datapath hangs
need openssl            # TLS 1.1, and certificates that have expired
need procps             # sysctl
need curl               # reads metrics inside a namespace
need jq                 # examples of the documentation
need tcpdump            # captures of OpenFlow connections
need tshark             # an independent decoder of the captures
need python3-venv       # os-ken, another independent decoder, and schemathesis
need groff-base         # checks the manual pages
need valgrind           # instructions per message
need strace             # system calls per message
need g++                # the fuzzer's runtime
need clang              # the BPF program of crates/kernel
need dpkg-dev           # the dependencies of the Debian package
need adduser            # its scripts
need systemd            # checks its units; passes sockets in tests
need prometheus         # promtool, which checks the alerts
need zsh                # reads the completions
need fish               # the same
need chromium           # the browser tests of the web page

install_needed setup

# A Python program in an environment of its own. The marker is written last, so that an interrupted installation is repeated.
install() {
    venv=.cache/$(echo "$1" | tr -d -)-$2
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$1==$2"
        touch "$venv/complete"
    fi
}
install os-ken "$osken"
install schemathesis "$schemathesis"

# Writes the Debian package.
scripts/cargo-deb.sh >/dev/null
