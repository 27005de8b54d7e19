#!/bin/sh
# Installs OpenAI's Codex, a client of /v1/responses, and prints the path of its command. Once per version, in the cache
# (0.4 GB); needs the npm registry.
set -eu
version=0.171.0
place=${XDG_CACHE_HOME:-$HOME/.cache}/berth/codex/$version
command=$place/node_modules/.bin/codex
if [ ! -e "$place/complete" ]; then
  {
    rm -rf "$place"
    mkdir -p "$place"
    npm install --prefix "$place" --no-fund --no-audit --loglevel=error "@openai/codex@$version"
    touch "$place/complete"
  } >&2
fi
echo "$command"
