#!/bin/sh
# Installs schemathesis, which tries an API against its OpenAPI document, and prints the path of its command. Once per
# version, in the cache; needs python3 with venv (Debian: python3-venv), which it installs as root where it is missing.
set -eu
version=4.32.5
place=${XDG_CACHE_HOME:-$HOME/.cache}/berth/schemathesis/$version
command=$place/bin/schemathesis
if [ ! -e "$place/complete" ]; then
  {
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
      if [ "$(id -u)" != 0 ]; then
        echo "python3 with venv is missing: as root, apt-get install python3-venv" >&2
        exit 1
      fi
      apt-get update -q && apt-get install -y -q --no-install-recommends python3-venv
    fi
    rm -rf "$place"
    mkdir -p "$place"
    python3 -m venv "$place"
    "$place/bin/pip" install -q --disable-pip-version-check "schemathesis==$version"
    touch "$place/complete"
  } >&2
fi
echo "$command"
