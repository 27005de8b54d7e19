#!/bin/sh
# `make site`: the documentation as a static site, from docs/. Needs Node 20 or newer and npm alone; its packages are in
# site/node_modules. BASE: the path below which it will be served; OUT: the directory it is written to, site/dist.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
stamp=site/node_modules/.setup
base=${BASE:-/}
out=$(realpath -m "${OUT:-site/dist}")

fail() {
  echo "make site: $1" >&2
  exit 1
}

case $base in
  /) ;;
  /*/) ;;
  *) fail "BASE is the path of the site on its server, such as /berth/: it begins and ends with a slash, not $base" ;;
esac
# Node 24 of `make setup`, where it has run.
[ ! -x node_modules/.bin/node ] || PATH=$(pwd)/node_modules/.bin:$PATH
command -v npm >/dev/null || fail "npm is missing; on Debian 13: apt-get install nodejs npm"
major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null) || fail "node is missing; on Debian 13: apt-get install nodejs npm"
[ "$major" -ge 20 ] || fail "node is $(node --version), and the site needs 20 or newer"

locks=$(cat site/package.json site/package-lock.json | cksum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$locks" ]; then
  echo "installing VitePress and its packages (100 MB) into site/node_modules: once"
  rm -f "$stamp"
  # `install` and not `ci`: some registries lack the packages of other platforms, and `ci` insists on them.
  npm install --prefix site --no-save --no-fund --no-audit --no-progress --loglevel=error --fetch-retries=1 ||
    fail "npm could not install VitePress: the package registry must be in reach once; then the site builds without a network"
  echo "$locks" >"$stamp"
fi
BASE=$base OUT=$out node site/node_modules/vitepress/bin/vitepress.js build site ||
  fail "the site was not built; the reason is above"
echo "the site is in ${OUT:-site/dist}: any file server can serve it below $base"
