#!/bin/sh
# `make bench-setup`: nginx (what Berth is measured against) and wrk (the load), by apt where the user may install.
set -eu
missing=
for program in nginx wrk taskset; do
  command -v "$program" >/dev/null && continue
  case $program in taskset) missing="$missing util-linux" ;; *) missing="$missing $program" ;; esac
done
[ -z "$missing" ] && { echo "nginx, wrk and taskset are here"; exit 0; }
# The packages are words of their own.
# shellcheck disable=SC2086
"$(dirname "$0")/apt.sh" "make bench-setup" $missing
