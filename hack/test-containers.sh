#!/bin/sh
# `make test-docker` and `make test-podman`: the container tests against a real daemon of our own. The daemon, its
# containers and the tests live in network, mount and process namespaces of their own: they meet no other daemon of this
# machine, listen on none of its addresses, and end with this script. Needs root, and Debian's packages (installed where
# apt is there).
set -eu
CDPATH='' cd "$(dirname "$0")/.."
engine=$1
shift

fail() {
  echo "make test-$engine: $1" >&2
  exit 1
}

# want PROGRAM PACKAGE
want() {
  command -v "$1" >/dev/null || missing="$missing $2"
}

if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || fail "a container engine of the tests' own needs root; run it as root, or in a virtual machine"
  missing=
  want ip iproute2
  want iptables iptables
  if [ "$engine" = podman ]; then
    want podman podman
    want runc runc
    [ -x /usr/lib/podman/netavark ] || want netavark netavark
  else
    want dockerd docker.io
    want docker-registry docker-registry
    want docker-compose docker-compose
  fi
  # The packages are words of their own.
  # shellcheck disable=SC2086
  [ -z "$missing" ] || hack/apt.sh "make test-$engine" $missing
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$engine" inside "$@"
fi
shift

dir=$(mktemp -d "${TMPDIR:-/tmp}/berth-$engine-XXXXXX")
clean() {
  [ -n "${daemon:-}" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null || true
  umount -l "$dir"/data/overlay* "$dir"/exec/netns/* 2>/dev/null || true
  rm -rf "$dir"
  find /sys/fs/cgroup -depth -type d -path "*/${dir##*/}*" -exec rmdir {} + 2>/dev/null || true
}
trap clean EXIT
trap 'exit 130' INT TERM
ip link set lo up
socket="$dir/$engine.sock"
if [ "$engine" = podman ]; then
  # Where raising limits is not permitted, containers start only with limits no higher than ours, and without systemd
  # only with plain control groups.
  {
    echo '[containers]'
    echo "default_ulimits = [\"nofile=$(ulimit -Hn):$(ulimit -Hn)\", \"nproc=1024:1024\"]"
    echo '[engine]'
    echo 'cgroup_manager = "cgroupfs"'
    echo 'events_logger = "file"'
    # Debian's crun does not start in a hybrid hierarchy of control groups.
    echo 'runtime = "runc"'
    echo '[network]'
    echo 'network_backend = "netavark"'
  } >"$dir/containers.conf"
  export CONTAINERS_CONF="$dir/containers.conf"
  # As Docker does by itself.
  printf '[[registry]]\nlocation = "127.0.0.1"\ninsecure = true\n' >"$dir/registries.conf"
  export CONTAINERS_REGISTRIES_CONF="$dir/registries.conf"
  # In a directory of its own: its helper leaves a file named oom where it was started.
  (
    cd "$dir"
    exec podman --root "$dir/data" --runroot "$dir/run" --tmpdir "$dir/tmp" system service --time=0 "unix://$socket"
  ) >"$dir/log" 2>&1 &
else
  dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" --host "unix://$socket" \
    --bridge none --cgroup-parent "/${dir##*/}" >"$dir/log" 2>&1 &
fi
daemon=$!
waited=0
until [ -S "$socket" ]; do
  kill -0 "$daemon" 2>/dev/null && [ "$waited" -lt 1800 ] || {
    tail -n 20 "$dir/log" >&2
    fail "$engine did not start"
  }
  waited=$((waited + 1))
  sleep 0.1
done
export BERTH_TEST_DOCKER="$socket" BERTH_TEST_ENGINE="$engine"
node=node_modules/.bin/node
"$node" --disable-warning=ExperimentalWarning test/docker/prepare.ts
# Not exec: the daemon must be ended after the tests.
"$node" --disable-warning=ExperimentalWarning --test --test-reporter=./test/support/reporter.ts --test-concurrency=2 "$@"
