# Sourced by the scripts that install packages of Debian and Ubuntu: `need PACKAGE` for each, then `install_needed SCRIPT`.
missing=

need() {
    [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null)" = 'install ok installed' ] ||
        missing="$missing $1"
}

# Installs the packages that are missing. $1 is the name of the script, for messages.
install_needed() {
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        echo "$1: run this once as root, or: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    # Services of the packages are not needed, and would occupy ports: 101 keeps new services from starting.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
        trap 'rm -f $policy' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    apt-get install -qq -y --no-install-recommends $missing >/dev/null
    echo "$1: installed$missing"
}
