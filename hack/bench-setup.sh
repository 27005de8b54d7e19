#!/bin/sh
# `make bench-setup`: nginx and curl (what Berth is measured against) and wrk (the load), by apt where the user may install.
set -eu
missing=
for program in nginx wrk curl; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] && { echo "nginx, wrk and curl are here"; exit 0; }
# The packages are words of their own.
# shellcheck disable=SC2086
"$(dirname "$0")/apt.sh" "make bench-setup" $missing
