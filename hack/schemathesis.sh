#!/bin/sh
# Installs schemathesis, which tries an API against its OpenAPI document, and prints the path of its command. Once per
# version, in the cache; needs python3 with venv (Debian: python3-venv), which it installs as root where it is missing.
set -eu
version=4.32.5
place=${XDG_CACHE_HOME:-$HOME/.cache}/berth/schemathesis/$version
command=$place/bin/schemathesis
if [ ! -e "$place/complete" ]; then
  {
    python3 -c 'import venv, ensurepip' 2>/dev/null || "$(dirname "$0")/apt.sh" "make test-schema" python3-venv
    rm -rf "$place"
    mkdir -p "$place"
    python3 -m venv "$place"
    "$place/bin/pip" install -q --disable-pip-version-check "schemathesis==$version"
    touch "$place/complete"
  } >&2
fi
echo "$command"
