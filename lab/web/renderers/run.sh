#!/bin/sh
# Compares what could draw the map. Installs the libraries into a folder of its own.
set -eu
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp ./*.js measure.mjs "$dir"
cd "$dir"
npm init -y >/dev/null
npm install --no-audit --no-fund --silent sigma@4.0.4 graphology@0.26.0 cytoscape@3.35.0 esbuild@0.28.2 playwright-core@1.65.1
node node_modules/esbuild/install.js
for name in sigma cytoscape canvas; do
    npx esbuild "$name.js" --bundle --minify --outfile="out/$name.js" --log-level=error
    echo "<div id=map style='width:1600px;height:900px'></div><script src=$name.js></script>" >"out/$name.html"
done
node measure.mjs "$dir/out"
