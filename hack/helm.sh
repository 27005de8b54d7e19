#!/bin/sh
# helm for test/k8s, built once per version from Go modules (hack/helm). The last line of its standard output is its path.
# Kept outside the clone, so that a fresh clone finds it. BERTH_TEST_HELM names one that is there already.
set -eu
cd "$(dirname "$0")/helm"

if [ -n "${BERTH_TEST_HELM:-}" ]; then
  echo "$BERTH_TEST_HELM"
  exit 0
fi

fail() {
  echo "helm for the tests: $1" >&2
  exit 1
}
version=$(sed -n 's#^[[:space:]]*helm.sh/helm/v3 v\([^ ]*\).*#\1#p' go.mod)
say() { echo "helm $version: $1" >&2; }

key=$(cat go.mod go.sum | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/berth/helm/$version-$key-$(uname -m)
if [ -x "$cache/helm" ]; then
  echo "$cache/helm"
  exit 0
fi
# hack/kube.sh has installed Go before, where it could.
command -v go >/dev/null || fail "missing: go; as root on Debian: apt-get install golang-go"

mkdir -p "$cache"
# Two runs at once build in directories of their own; the later one replaces an equal binary.
work=$(mktemp -d "$cache/build.XXXXXX")
fast=
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
[ "${free:-0}" -gt 4000000 ] && fast=$(mktemp -d /dev/shm/berth-helm.XXXXXX)
# Go makes the directories of its module cache read-only.
trap 'chmod -R u+w "$work" "${fast:-$work}"; rm -rf "$work" ${fast:+"$fast"}' EXIT
trap 'exit 1' INT TERM HUP
scratch=${fast:-$work}
export GOCACHE="$scratch/compiled" GOMODCACHE="$scratch/modules" GOTMPDIR="$scratch"
export GOGC=400 CGO_ENABLED=0 GOTOOLCHAIN=auto GOFLAGS='-trimpath -buildvcs=false -mod=readonly'

say "building with $(nproc) jobs (about 4 CPU minutes)"
link="-s -w -X helm.sh/helm/v3/internal/version.version=v$version"
# The Kubernetes version that `helm template` takes a chart's kubeVersion and capabilities to be.
minor=$(sed -n 's#^[[:space:]]*k8s.io/client-go v0\.\([0-9]*\)\..*#\1#p' go.mod | head -1)
for package in helm.sh/helm/v3/pkg/lint/rules helm.sh/helm/v3/pkg/chartutil; do
  link="$link -X $package.k8sVersionMajor=1 -X $package.k8sVersionMinor=$minor"
done
nice -n 10 go build -ldflags "$link" -o "$work/helm" helm.sh/helm/v3/cmd/helm >&2 ||
  fail "the build failed; its last lines are above"
"$work/helm" version --short >&2 || fail "the binary does not start"
mv "$work/helm" "$cache/helm"
say "built"
echo "$cache/helm"
