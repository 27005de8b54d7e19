#!/bin/sh
# `make test-monitoring`: rules, dashboards and runbooks against Debian's Prometheus, on loopback. Arguments: node's options
# for tests and test files instead of all.
set -eu
CDPATH='' cd "$(dirname "$0")/.."

missing=
for program in prometheus promtool prometheus-blackbox-exporter curl openssl; do
  command -v "$program" >/dev/null || missing="$missing $(echo "$program" | sed s/promtool/prometheus/)"
done
# The packages are words of their own.
# shellcheck disable=SC2086
[ -z "$missing" ] || hack/apt.sh "make test-monitoring" $missing
node_modules/.bin/node --disable-warning=ExperimentalWarning --test --test-reporter=./test/support/reporter.ts --test-concurrency=1 "${@:-test/monitoring/**/*.test.ts}"
