#!/bin/sh
# `make bench-setup`: nginx (what Berth is measured against) and wrk (the load), by apt where the user may install.
set -eu
missing=
for program in nginx wrk taskset; do
  command -v "$program" >/dev/null && continue
  case $program in taskset) missing="$missing util-linux" ;; *) missing="$missing $program" ;; esac
done
[ -z "$missing" ] && { echo "nginx, wrk and taskset are here"; exit 0; }
line="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "make bench-setup: missing:$missing; as root: $line" >&2
  exit 1
fi
apt-get update -q
# The benchmark starts its own nginx: the service that the package would start is in nobody's interest.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT INT TERM
fi
$line
