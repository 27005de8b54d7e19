#!/bin/sh
# `make test-k8s`: the tests in test/k8s against a real etcd, API server and node. They live in network, mount and process
# namespaces of their own: they meet no other cluster of this machine, listen on none of its addresses, and end with this
# script. Needs root, and Debian's packages (installed where apt is there).
set -eu
cd "$(dirname "$0")/.."

fail() {
  echo "make test-k8s: $1" >&2
  exit 1
}

# want PROGRAM PACKAGE
want() {
  command -v "$1" >/dev/null || missing="$missing $2"
}

if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || fail "a node of the tests' own needs root; run it as root, or in a virtual machine"
  missing=
  want ip iproute2
  want iptables iptables
  want openssl openssl
  want containerd containerd
  want runc runc
  want conntrack conntrack
  want lua5.4 lua5.4
  [ -x /usr/lib/cni/bridge ] || missing="$missing containernetworking-plugins"
  # The packages are words of their own.
  # shellcheck disable=SC2086
  [ -z "$missing" ] || hack/apt.sh "make test-k8s" $missing
  BERTH_TEST_KUBE=$(hack/kube.sh)
  BERTH_TEST_HELM=${BERTH_TEST_HELM:-$BERTH_TEST_KUBE/helm}
  export BERTH_TEST_KUBE BERTH_TEST_HELM
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside "$@"
fi
shift
ip link set lo up
[ $# -gt 0 ] || set -- "test/k8s/**/*.test.ts"
node=node_modules/.bin/node
exec "$node" --disable-warning=ExperimentalWarning --test --test-reporter=./test/support/reporter.ts --test-concurrency=1 "$@"
