#!/bin/sh
# `make llama-server`: a real llama-server for test/llama-server, built once per version from the source archive of the
# Python package llama-cpp-python, which holds llama.cpp whole. Prints nothing but what it does; the last line of its
# standard output is the binary's path. Kept outside the clone, so that a fresh clone finds it.
set -eu
version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
# -O1 for C++ halves the build. ggml's kernels in C (quantised weights) keep -O3; those in C++ (vec.cpp, ops.cpp, repack.cpp,
# sgemm.cpp) lose it, too: the tests' models of a few megabytes are fast enough without.
cxx="-O1 -DNDEBUG"
flags="-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"
# Another build for other flags. The first flags have no part of the name, so that earlier caches stay.
# shellcheck disable=SC2086
print=$(echo "$cxx" $flags | sha256sum | cut -c1-12)
[ "$print" != 418d2266bab3 ] || print=
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/berth/llama-server/$version-$(uname -m)${print:+-$print}
binary=$cache/llama-server
# What a launch line would take, without loading anything: Berth asks it where it lies beside the server.
beside=$cache/llama-fit-params

fail() {
  echo "make llama-server: $1" >&2
  exit 1
}
say() { echo "llama-server $version: $1" >&2; }
print_built() {
  [ -x "$binary" ] && [ -x "$beside" ] || return 0
  echo "$binary"
  exit 0
}

print_built
# Of two runs at once the second waits for what the first builds.
mkdir -p "$cache"
exec 9<"$cache"
flock -n 9 || {
  say "another run builds it; waiting"
  flock 9
}
print_built

# Debian's package for each tool that is missing.
missing=
need() { command -v "$1" >/dev/null || missing="$missing $2"; }
need cmake cmake
need ninja ninja-build
need g++ g++
need python3 python3
python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3-venv"
# The packages are words of their own.
# shellcheck disable=SC2086
[ -z "$missing" ] || "$(dirname "$0")/apt.sh" "make llama-server" $missing

work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

say "fetching the sources (77 MB)"
python3 -m venv "$work/venv"
# The archive's own build requirements, so that pip can read its metadata; nothing is built by pip.
"$work/venv/bin/pip" install -q --disable-pip-version-check scikit-build-core==1.1.2 >&2
"$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation \
  -d "$work" "llama-cpp-python==$version" >&2 || fail "pip could not fetch llama-cpp-python $version: is the package registry in reach?"
archive=$work/llama_cpp_python-$version.tar.gz
echo "$sha256  $archive" | sha256sum -c --quiet - >&2 || fail "the archive is not the one that was checked"
tar -xzf "$archive" -C "$work"
# Chat templates of real models, for test/embedded/templates.test.ts.
templates=llama_cpp_python-$version/vendor/llama.cpp/models/templates
rm -rf "$cache/templates" && cp -r "$work/$templates" "$cache/templates"

say "building with $(nproc) jobs (6 to 15 CPU minutes)"
# The flags are words of their own.
# shellcheck disable=SC2086
cmake -G Ninja -S "$work/llama_cpp_python-$version/vendor/llama.cpp" -B "$work/out" \
  -DCMAKE_CXX_FLAGS_RELEASE="$cxx" $flags >"$work/cmake.log" 2>&1 ||
  { tail -20 "$work/cmake.log" >&2; fail "cmake refused"; }
# Lines now and then show that something happens.
ninja -C "$work/out" llama-server llama-fit-params 2>&1 | awk '/^\[/ { if (++n % 25 == 0) { print "  " $1; fflush() } next } { print; fflush() }' >&2
built=$work/out/bin/llama-server
[ -x "$built" ] && [ -x "$work/out/bin/llama-fit-params" ] || fail "the build failed; its last lines are above"
strip "$built" "$work/out/bin/llama-fit-params"
"$built" --version >&2 || fail "the binary does not start"
mv "$work/out/bin/llama-fit-params" "$beside"
mv "$built" "$binary"
say "built"
echo "$binary"
