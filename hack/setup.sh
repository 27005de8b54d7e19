#!/bin/sh
# `make setup`: Node 24, the packages and the embedded engine, beside the sources. Says what it does; does nothing
# when the lockfiles are those of the last time.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
node=node_modules/.bin/node
stamp=node_modules/.setup

fail() {
  echo "make setup: $1" >&2
  exit 1
}

locks=$(cat package.json package-lock.json engines/package.json engines/package-lock.json | cksum)
# Pages that were built from other sources are built again; it takes a second.
pages() {
  "$node" --disable-warning=ExperimentalWarning hack/web.ts || fail "the pages of web/ could not be built"
}
if [ -x "$node" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$locks" ] && [ -d engines/node_modules ]; then
  pages
  exit 0
fi

newer="Node 20 or newer: Debian 13 has it (apt-get install nodejs npm), https://nodejs.org/en/download for every machine"
command -v npm >/dev/null || fail "npm is missing; install $newer"
major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null) || fail "node is missing; install $newer"
[ "$major" -ge 20 ] || fail "node is $(node --version), which is too old for the packages; install $newer"
[ -w . ] || fail "$(pwd) cannot be written; clone into a directory of your own"

# Without a network npm would try for minutes; what its cache holds is then all there is.
offline=
if npm ping --fetch-retries=0 --fetch-timeout=20000 2>&1 |
  grep -qE 'EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT'; then
  echo "the package registry does not answer; trying what npm's cache holds"
  offline=--offline
fi

echo "installing packages (about 500 MB, Node 24 among them)"
rm -f "$stamp"
# Where npm draws no progress of its own, lines show that something happens.
reporter=
if [ ! -t 2 ]; then
  (
    seconds=0
    while sleep 5 </dev/null >/dev/null 2>&1; do
      seconds=$((seconds + 5))
      echo "  $seconds s: $(du -sm node_modules 2>/dev/null | cut -f1 | grep . || echo 0) MB in node_modules"
    done
  ) &
  reporter=$!
  trap 'kill "$reporter" 2>/dev/null || true' EXIT INT TERM
fi
# `install` and not `ci`: some registries lack platform packages that only other machines need, and `ci` insists.
# No package's install script runs (.npmrc): what is unpacked is what the lockfile's hashes name, and nothing is compiled
# by the system's Node that Node 24 would load.
npm install --no-save --no-fund --no-audit --loglevel=error $offline ||
  fail "npm could not install the packages: is the package registry in reach? run make setup again"
[ -n "$reporter" ] && kill "$reporter" 2>/dev/null || true
# Node 24 comes as a package for Linux on x64 and arm64; elsewhere the system's own has to be new enough.
# npm 9 makes no link in .bin for a package of one platform.
for own in node_modules/node-linux-*/bin/node "$(command -v node)"; do
  [ -x "$node" ] && break
  [ -x "$own" ] || continue
  case $own in /*) ;; *) own=../../$own ;; esac
  mkdir -p "$(dirname "$node")"
  ln -sf "$own" "$node"
done
"$node" -e 'if (+process.versions.node.split(".")[0] < 24) process.exit(1)' 2>/dev/null ||
  fail "Node 24 is needed and npm installed none for $(uname -s) on $(uname -m); install Node 24 or newer, then run make setup again"

# Its npm is not ours to give a flag. It only wants directories that a clone does not use.
[ -z "$offline" ] || export npm_config_offline=true
SVC_STATE_DIR=/nonexistent SVC_CONFIG_DIR=/nonexistent bin/berth engine install embedded ||
  fail "the embedded engine could not be installed; run make setup again"
pages
echo "$locks" >"$stamp"
echo "set up; next: make run"
