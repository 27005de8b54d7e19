#!/bin/sh
# `make test-k8s`: the tests in test/k8s against a real etcd, API server and node. They live in network, mount and process
# namespaces of their own: they meet no other cluster of this machine, listen on none of its addresses, and end with this
# script. Needs root, and Debian's packages (installed where apt is there).
set -eu
CDPATH='' cd "$(dirname "$0")/.."

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
  [ -x "$BERTH_TEST_HELM" ] || fail "no helm at $BERTH_TEST_HELM; BERTH_TEST_HELM names another"
  BERTH_TEST_HELM4=${BERTH_TEST_HELM4:-$BERTH_TEST_KUBE/helm4}
  [ -x "$BERTH_TEST_HELM4" ] || fail "no helm 4 at $BERTH_TEST_HELM4; BERTH_TEST_HELM4 names another"
  export BERTH_TEST_KUBE BERTH_TEST_HELM BERTH_TEST_HELM4
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside "$@"
fi
shift
ip link set lo up
node="node_modules/.bin/node --disable-warning=ExperimentalWarning"
test="$node --test --test-reporter=./test/support/reporter.ts --test-concurrency=1"
# Commands and lists of files are words of their own.
# shellcheck disable=SC2086
[ $# = 0 ] || exec $test "$@"

# using FUNCTION: the files that call it.
# shellcheck disable=SC2086
using() { grep -lF "$1()" $all || fail "no file calls $1"; }
all=$(find test/k8s -name '*.test.ts' | sort)
on_plane=$(using sharedPlane)
on_node=$(using sharedCluster)
own_node=$(using startCluster)
others=$(echo "$all" | grep -vxF "$on_plane
$on_node
$own_node") || fail "no file of test/k8s is left for the run without what is shared"
listed=$(printf '%s\n' "$on_plane" "$on_node" "$own_node" "$others" | sort)
[ "$listed" = "$all" ] || fail "these files would run twice, or not at all:
$(printf '%s\n' "$listed" "$all" | sort | uniq -c | awk '$1 != 2 { print $2 }')"

# step COMMAND: ends the command at TERM, and waits for what it cleans up.
step() {
  command=
  trap '[ -z "$command" ] || { kill -TERM "$command"; wait "$command"; }; exit 143' TERM
  "$@" &
  command=$!
  wait "$command"
}

# Two lanes, since most tests wait: for a Lease, for an outage, for Pods. In one run the files that need a node, which is
# one; in the other those that need an API server.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
(step $node test/support/kube/with-shared.ts cluster $test $on_node && step $test $own_node) >"$log" 2>&1 &
on_nodes=$!
# Both lanes print what they have, whichever failed.
end_nodes() {
  kill -TERM "$on_nodes" 2>/dev/null || true
  wait "$on_nodes" || true
  cat "$log"
}
trap 'end_nodes; exit 143' INT TERM
# shellcheck disable=SC2086
$node test/support/kube/with-shared.ts plane $test $on_plane && $test $others || {
  end_nodes
  fail "tests failed that need an API server: see above the output of those that need a node"
}
wait "$on_nodes" || {
  cat "$log"
  fail "tests failed that need a node"
}
cat "$log"
