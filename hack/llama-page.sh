#!/bin/sh
# Builds llama.cpp's own chat page, once per version, for the server of hack/llama-server.sh, which is built without a page.
# Its sources are in the same archive. The last line of standard output is the folder for `llama-server --path`. Takes
# about 3 minutes and 1 GB of disk meanwhile; kept outside the clone, 10 MB.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
version=$(sed -n 's/^version=//p' hack/llama-server.sh)
sha256=$(sed -n 's/^sha256=//p' hack/llama-server.sh)
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/berth/llama-page
page=$cache/$version

if [ -e "$page/index.html" ]; then
  echo "$page"
  exit 0
fi

fail() {
  echo "llama.cpp's page: $1" >&2
  exit 1
}
command -v npm >/dev/null || fail "npm is missing"
python3 -c 'import venv, ensurepip' 2>/dev/null || fail "python3 with venv is missing: make llama-server installs it"

mkdir -p "$cache"
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

echo "llama.cpp's page $version: building (about 3 minutes)" >&2
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check scikit-build-core==1.1.2 >&2
"$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation \
  -d "$work" "llama-cpp-python==$version" >&2 || fail "pip could not fetch llama-cpp-python $version"
archive=$work/llama_cpp_python-$version.tar.gz
echo "$sha256  $archive" | sha256sum -c --quiet - >&2 || fail "the archive is not the one that was checked"
tar -xzf "$archive" -C "$work" --strip-components=4 "llama_cpp_python-$version/vendor/llama.cpp/tools/ui"

# Its tools need a Node that the system may not have.
PATH=$PWD/node_modules/.bin:$PATH
export PATH
cd "$work/ui"
{ npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run build; } >"$work/log" 2>&1 ||
  { tail -20 "$work/log" >&2; fail "npm could not build it"; }
[ -e dist/index.html ] || fail "npm built no page"
# Two runs at once build equal pages in directories of their own: the earlier stays.
[ -e "$page/index.html" ] || mv dist "$page"
echo "$page"
