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

echo "looking for the package registry"
# Without a network npm would try for minutes; what its cache holds is then all there is.
offline=
if npm ping --fetch-retries=0 --fetch-timeout=20000 2>&1 |
  grep -qE 'EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT'; then
  echo "the package registry does not answer; trying what npm's cache holds"
  offline=--offline
fi

# The packages that stand in DIR/node_modules, counted while npm works: about so many of those in its lockfile that this
# machine needs. On a terminal one line is written again and again; elsewhere a line follows now and then.
count() {
  (
    all=$(grep '^    "node_modules/' "$1/package-lock.json" | grep -cv '.node_modules/.*/node_modules/')
    all=$((all - $(grep -c '"cpu": \[' "$1/package-lock.json")))
    seconds=0 before=
    while sleep 1 </dev/null >/dev/null 2>&1; do
      seconds=$((seconds + 1))
      here=$(ls -d "$1"/node_modules/*/package.json "$1"/node_modules/@*/*/package.json 2>/dev/null | wc -l)
      line="  $((here)) of about $all packages, $seconds s"
      if [ -t 2 ]; then
        # What is printed next begins at the start of this line.
        printf '%s\r' "$line" >&2
      elif [ "$here" != "$before" ] || [ $((seconds % 10)) -eq 0 ]; then
        echo "$line"
        before=$here
      fi
    done
  ) &
  counter=$!
}
counted() {
  [ -n "$counter" ] || return 0
  # A child that has just begun loses a signal that this shell traps, and would be waited for without end.
  kill -KILL "$counter" 2>/dev/null || true
  wait "$counter" 2>/dev/null || true
  counter=
  [ ! -t 2 ] || printf '%60s\r' '' >&2
}
counter=
trap counted EXIT
trap 'exit 130' INT TERM

echo "installing packages (about 500 MB, Node 24 among them): a minute or two, once"
rm -f "$stamp"
count .
# `install` and not `ci`: some registries lack platform packages that only other machines need, and `ci` insists.
# No package's install script runs (.npmrc): what is unpacked is what the lockfile's hashes name, and nothing is compiled
# by the system's Node that Node 24 would load.
npm install --no-save --no-fund --no-audit --no-progress --loglevel=error $offline ||
  fail "npm could not install the packages: is the package registry in reach? run make setup again"
counted
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
count engines
SVC_STATE_DIR=/nonexistent SVC_CONFIG_DIR=/nonexistent bin/berth engine install embedded ||
  fail "the embedded engine could not be installed; run make setup again"
counted
echo "building the pages"
pages
echo "$locks" >"$stamp"
echo "set up; next: make run"
