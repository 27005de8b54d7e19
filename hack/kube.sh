#!/bin/sh
# `make kube`: a real etcd, kube-apiserver, kubelet and the rest, and Helm 3 and 4, for test/k8s, built once per version from Go
# modules (hack/cluster). The last line of its standard output is the directory that holds them by name. Kept outside the
# clone, so that a fresh clone finds it. BERTH_TEST_KUBE or KUBEBUILDER_ASSETS names a directory that has them already.
set -eu
CDPATH='' cd "$(dirname "$0")/cluster"

given=${BERTH_TEST_KUBE:-${KUBEBUILDER_ASSETS:-}}
if [ -n "$given" ]; then
  echo "$given"
  exit 0
fi

fail() {
  echo "make kube: $1" >&2
  exit 1
}
version=$(sed -n 's#^require k8s.io/kubernetes v##p' go.mod)
helm=$(sed -n 's#^[[:space:]]*helm.sh/helm/v3 \(v[^ ]*\).*#\1#p' go.mod)
# Its Kubernetes modules are later than the node's: Helm 4 is a module of its own.
helm4=$(sed -n 's#^[[:space:]]*helm.sh/helm/v4 \(v[^ ]*\).*#\1#p' helm4/go.mod)
say() { echo "kubernetes $version: $1" >&2; }

key=$(cat go.mod go.sum main.go | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/berth/kube/$version-$key-$(uname -m)
if [ -x "$cache/kube" ] && [ -x "$cache/helm-$helm4" ]; then
  ln -sfn "helm-$helm4" "$cache/helm4"
  echo "$cache"
  exit 0
fi

command -v go >/dev/null || ../apt.sh "make kube" golang-go

mkdir -p "$cache"
# Two runs at once build in directories of their own; the later one replaces an equal binary.
work=$(mktemp -d "$cache/build.XXXXXX")
# The compiler writes 4 GB of small files; memory takes them twice as fast as a disk, where there is room.
fast=
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
[ "${free:-0}" -gt 8000000 ] && fast=$(mktemp -d /dev/shm/berth-kube.XXXXXX)
# Go makes the directories of its module cache read-only.
trap 'chmod -R u+w "$work" "${fast:-$work}"; rm -rf "$work" ${fast:+"$fast"}' EXIT
trap 'exit 1' INT TERM HUP
scratch=${fast:-$work}
export GOCACHE="$scratch/compiled" GOMODCACHE="$scratch/modules" GOTMPDIR="$scratch"
export GOGC=400 CGO_ENABLED=0 GOTOOLCHAIN=auto GOFLAGS='-trimpath -buildvcs=false -mod=readonly'

build_node() {
  say "building with $(nproc) jobs (8 to 15 CPU minutes)"
  link="-s -w -X helm.sh/helm/v3/internal/version.version=$helm"
  # The API server says its version by these; without them every client takes it for version 0.
  minor=$(echo "$version" | cut -d. -f2)
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    link="$link -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
    link="$link -X $package.gitTreeState=clean -X $package.gitCommit=module -X $package.buildDate=1970-01-01T00:00:00Z"
  done
  # The Kubernetes version that `helm template` takes a chart's kubeVersion and capabilities to be.
  for package in helm.sh/helm/v3/pkg/lint/rules helm.sh/helm/v3/pkg/chartutil; do
    link="$link -X $package.k8sVersionMajor=1 -X $package.k8sVersionMinor=$minor"
  done
  # Without inlining (-l) the compiler needs a quarter less of the processor; both share what they compile.
  nice -n 10 go build -gcflags=all=-l -ldflags "$link" -o "$work/" . helm.sh/helm/v3/cmd/helm >&2 ||
    fail "the build failed; its last lines are above"
  mv "$work/cluster" "$work/kube"
  "$work/kube" kube-apiserver --version >&2 && "$work/helm" version --short >&2 || fail "a binary does not start"
  for program in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
    ln -sfn kube "$cache/$program"
  done
  mv "$work/helm" "$cache/helm"
  mv "$work/kube" "$cache/kube"
}

build_helm4() {
  say "building helm $helm4 (6 CPU minutes)"
  link="-s -w -X helm.sh/helm/v4/internal/version.version=$helm4"
  (cd helm4 && nice -n 10 go build -gcflags=all=-l -ldflags "$link" -o "$work/helm4" helm.sh/helm/v4/cmd/helm) >&2 ||
    fail "the build of helm $helm4 failed; its last lines are above"
  "$work/helm4" version --short >&2 || fail "helm $helm4 does not start"
  mv "$work/helm4" "$cache/helm-$helm4"
  ln -sfn "helm-$helm4" "$cache/helm4"
}

[ -x "$cache/kube" ] || build_node
[ -x "$cache/helm-$helm4" ] || build_helm4
say "built"
echo "$cache"
