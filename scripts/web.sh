#!/bin/sh
# Builds the web page into web/dist, which crates/northbound embeds. Quick if nothing has changed. Installs Node.js and npm on Debian and Ubuntu.
# Without them, Sluice is built without the page and says so: only an error in the page itself fails here.
#
#     scripts/web.sh             builds the page if its sources have changed
#     scripts/web.sh --check     fails unless web/dist is the page of these sources
set -eu
cd "$(dirname "$0")/.."

# What the page is made from. The fingerprint is written last, so that an interrupted build is repeated.
sources=$(find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print | LC_ALL=C sort | xargs sha256sum | sha256sum)
if [ -e web/dist/index.html ] && [ "$(cat web/dist/.sources 2>/dev/null)" = "$sources" ]; then
    exit 0
fi
if [ "${1:-}" = --check ]; then
    echo "web.sh: web/dist is not the page of these sources: scripts/web.sh builds it" >&2
    exit 1
fi

# A page of other sources must not be embedded. The folder and its .gitignore are part of the checkout. $1: reason.
build_without_page() {
    rm -rf web/dist/assets web/dist/*.* web/dist/.sources
    echo "web.sh: $1: Sluice is built without its web page" >&2
    exit 0
}

. scripts/packages.sh
command -v node >/dev/null || need nodejs
command -v npm >/dev/null || need npm
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        build_without_page "there is no Node.js and npm"
    fi
    (install_needed web.sh) || build_without_page "Node.js and npm could not be installed"
fi

packages=$(sha256sum web/package-lock.json)
if [ "$(cat web/node_modules/.installed 2>/dev/null)" != "$packages" ]; then
    (cd web && npm ci --no-audit --no-fund --loglevel=error) || build_without_page "the packages of the page could not be installed"
    echo "$packages" >web/node_modules/.installed
fi
cd web
rm -f dist/.sources
npm run --silent build
echo "$sources" >dist/.sources
