#!/bin/sh
# Installs those controllers of a study that packages provide, on Debian: Open vSwitch's test controller, os-ken, Faucet and Ryu.
# Silent about what is installed already. docs/controllers.md says how one gets the others.
set -eu
cd "$(dirname "$0")/.."
home=${SLUICE_CONTROLLERS:-target/controllers}

osken=3.1.1 # the last release with osken-manager
faucet=1.10.12
ryu=4.34 # the last release

. scripts/packages.sh
need openvswitch-testcontroller
need python3-venv # environments for the programs in Python
need python3-dev  # some of their dependencies are compiled
need gcc

install_needed study-controllers

# Whether the Python program $1 of version $2 has to be installed. If so, $venv is an empty environment for it.
begin() {
    venv=$home/$1
    [ "$(cat "$venv/complete" 2>/dev/null)" != "$2" ] || return 1
    rm -rf "$venv"
    mkdir -p "$home"
    python3 -m venv "$venv"
}
pip_install() {
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}
# Written last, so that an interrupted installation is repeated.
finish() {
    echo "$2" >"$venv/complete"
    echo "study-controllers: installed $1 $2 in $venv"
}

if begin os-ken $osken; then
    pip_install "os-ken==$osken"
    finish os-ken $osken
fi

if begin faucet $faucet; then
    pip_install wheel 'setuptools<81' # most of its dependencies have sources only
    pip_install "faucet==$faucet"
    finish faucet $faucet
fi

if begin ryu $ryu; then
    # Ryu needs an old setuptools for its installation, and an old eventlet with one constant replaced to run on Python 3.10 and later.
    pip_install 'setuptools==58.2.0' wheel pbr
    pip_install --no-build-isolation "ryu==$ryu" 'eventlet==0.33.3' 'dnspython==2.6.1'
    wsgi=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/ryu/app/wsgi.py
    sed -i 's/from eventlet\.wsgi import ALREADY_HANDLED/ALREADY_HANDLED = b""/' "$wsgi"
    finish ryu $ryu
fi
