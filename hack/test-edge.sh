#!/bin/sh
# `make test-edge`: the proxy's configuration in real servers, Debian's Caddy and nginx, on loopback, with Pebble as the
# certificate authority of a public name.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin

missing=
for program in caddy nginx pebble openssl; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
# The packages are words of their own.
# shellcheck disable=SC2086
[ -z "$missing" ] || hack/apt.sh "make test-edge" $missing
node_modules/.bin/node --disable-warning=ExperimentalWarning --test --test-reporter=./test/support/reporter.ts --test-concurrency=1 "test/edge/**/*.test.ts"
