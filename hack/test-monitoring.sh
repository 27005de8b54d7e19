#!/bin/sh
# `make test-monitoring`: rules, dashboards and runbooks against Debian's Prometheus, on loopback. Arguments: node's options
# for tests and test files instead of all.
set -eu
cd "$(dirname "$0")/.."

missing=
for program in prometheus promtool curl; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
  packages=$(echo "$missing" | sed 's/promtool/prometheus/')
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "make test-monitoring: missing:$missing; on Debian, as root: apt-get install$packages" >&2
    exit 1
  fi
  apt-get update -q
  # The tests start their own: the services that the packages would start stay down.
  policy=/usr/sbin/policy-rc.d
  [ -e "$policy" ] && policy= || printf '#!/bin/sh\nexit 101\n' >"$policy"
  [ -z "$policy" ] || chmod +x "$policy"
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages || installed=no
  [ -z "$policy" ] || rm -f "$policy"
  [ "${installed:-yes}" = yes ] || exit 1
fi
node_modules/.bin/node --disable-warning=ExperimentalWarning --test --test-reporter=./test/support/reporter.ts --test-concurrency=1 "${@:-test/monitoring/**/*.test.ts}"
