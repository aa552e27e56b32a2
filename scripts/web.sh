#!/bin/sh
# Builds the web page into web/dist, which crates/northbound embeds. Quick if nothing has changed. Installs Node.js and npm on Debian and Ubuntu.
# Without them, Sluice is built without the page and says so: only an error in the page itself fails here.
set -eu
cd "$(dirname "$0")/.."

. scripts/packages.sh
command -v node >/dev/null || need nodejs
command -v npm >/dev/null || need npm
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "web.sh: without Node.js and npm, Sluice is built without its web page" >&2
        exit 0
    fi
    (install_needed web.sh) || { echo "web.sh: Node.js and npm could not be installed" >&2; exit 0; }
fi

# What the page is made from. The fingerprint is written last, so that an interrupted build is repeated.
sources=$(find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print | LC_ALL=C sort | xargs sha256sum | sha256sum)
packages=$(sha256sum web/package-lock.json)
if [ "$(cat web/dist/.sources 2>/dev/null)" = "$sources" ]; then
    exit 0
fi
cd web
if [ "$(cat node_modules/.installed 2>/dev/null)" != "$packages" ]; then
    npm ci --no-audit --no-fund --loglevel=error || { echo "web.sh: the packages of the page could not be installed" >&2; exit 0; }
    echo "$packages" >node_modules/.installed
fi
npm run --silent build
echo "$sources" >dist/.sources
