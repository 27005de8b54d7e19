#!/bin/sh
# `make test-docker`: the container tests against a real Docker daemon of our own. The daemon, its containers and the
# tests live in network, mount and process namespaces of their own: they meet no other daemon of this machine, listen on
# none of its addresses, and end with this script. Needs root, and Debian's docker.io and docker-registry (installed where apt
# is there).
set -eu
cd "$(dirname "$0")/.."

fail() {
  echo "make test-docker: $1" >&2
  exit 1
}

if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || fail "a Docker daemon needs root; run it as root, or in a virtual machine"
  missing=
  command -v dockerd >/dev/null || missing="$missing docker.io"
  command -v iptables >/dev/null || missing="$missing iptables"
  command -v docker-registry >/dev/null || missing="$missing docker-registry"
  command -v ip >/dev/null || missing="$missing iproute2"
  if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || fail "dockerd, docker-registry, iptables and ip are needed, and there is no apt to install them with"
    echo "installing$missing"
    apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q $missing >/dev/null ||
      fail "apt could not install$missing"
  fi
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside "$@"
fi
shift

dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-dockerd-XXXXXX")
clean() {
  [ -n "${daemon:-}" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null || true
  rm -rf "$dir"
  find /sys/fs/cgroup -depth -type d -path "*/berth-test-$$*" -exec rmdir {} + 2>/dev/null || true
}
trap clean EXIT
trap 'exit 130' INT TERM
ip link set lo up
dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" --host "unix://$dir/docker.sock" \
  --bridge none --cgroup-parent "/berth-test-$$" >"$dir/log" 2>&1 &
daemon=$!
waited=0
until [ -S "$dir/docker.sock" ]; do
  kill -0 "$daemon" 2>/dev/null && [ "$waited" -lt 300 ] || { tail -n 20 "$dir/log" >&2; fail "dockerd did not start"; }
  waited=$((waited + 1))
  sleep 0.1
done
export BERTH_TEST_DOCKER="$dir/docker.sock"
node=node_modules/node/bin/node
"$node" --disable-warning=ExperimentalWarning test/docker/prepare.ts
# Not exec: the daemon must be ended after the tests.
"$node" --disable-warning=ExperimentalWarning --test --test-concurrency=2 "${@:-test/docker/**/*.test.ts}"
