#!/bin/sh
# `make test-dockerfile`: hack/images/Dockerfile, built by podman from what is committed here, and both images started as
# their user. The base image is made here: a bare Debian 13, the clone's Node, npm. No image is fetched; packages are, from
# npm's registry.
set -eu
cd "$(dirname "$0")/../.."
target=test-dockerfile
. test/bare/root.sh
if [ "${1:-}" != inside ]; then
  want podman podman
  want runc runc
  install_missing
  exec unshare --mount --pid --fork --kill-child "$0" inside
fi
make_root
install -m 755 "$(readlink -f node_modules/.bin/node)" "$root/usr/local/bin/node"
npm install --global --prefix "$root/usr/local" --loglevel=error npm@11 >/dev/null || fail "npm could not install npm"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/berth-dockerfile-XXXXXX")
clean() {
  leave
  pod image umount --all >/dev/null 2>&1 || true
  umount -l "$work"/data/overlay* 2>/dev/null || true
  rm -rf --one-file-system "$root" "$work"
}
pod() {
  podman --root "$work/data" --runroot "$work/run" --tmpdir "$work/tmp" "$@"
}
trap clean EXIT
# As hack/test-containers.sh does: no limits higher than ours, no systemd.
{
  printf '[containers]\ndefault_ulimits = ["nofile=%s:%s", "nproc=1024:1024"]\n' "$(ulimit -Hn)" "$(ulimit -Hn)"
  printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
} >"$work/containers.conf"
export CONTAINERS_CONF="$work/containers.conf"

echo "making the base image"
base=$(sed -n 's/^FROM \([^ ]*\) AS build$/\1/p' hack/images/Dockerfile)
tar -C "$root" --one-file-system -cf - . | pod import --quiet - "docker.io/library/$base" >/dev/null ||
  fail "podman could not import the base image"
git clone -q --no-local . "$work/clone"
env=
for each in $passed; do env="$env --env $each"; done

# build STAGE
build() {
  echo "building $1"
  # The settings are words of their own.
  # shellcheck disable=SC2086
  pod build --pull=never --network=host --isolation=chroot $env --file "$work/clone/hack/images/Dockerfile" \
    --target "$1" --tag "localhost/$1:test" "$work/clone" >"$work/log" 2>&1 ||
    { tail -30 "$work/log" >&2; fail "$1 could not be built"; }
  files=$(pod image mount "localhost/$1:test")
}
# started COMMAND...: in the image's files, as its user.
started() {
  # shellcheck disable=SC2016
  chroot="$chroot" unshare --mount sh -euc '
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    exec env -i PATH=/usr/bin:/bin HOME=/tmp "$chroot" --userspec=65532:65532 "$0" "$@"' "$files" "$@"
}

build berth
said=$(started /usr/bin/berth --version)
[ "$said" = "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)" ] || fail "berth --version said: $said"
[ ! -e "$files/app/node_modules/typescript" ] || fail "packages of development are in the image of berth"
build berth-embedded
# Not a module by a flag: node-llama-cpp tries its library in a process with the same flags.
said=$(started /usr/bin/node --eval '
  import("/app/node_modules/node-llama-cpp/dist/index.js")
    .then(({ getLlama }) => getLlama({ build: "never", gpu: false }))
    .then(({ buildType }) => console.log(buildType));')
[ "$said" = prebuilt ] || fail "the engine loads no llama.cpp: $said"
[ ! -e "$files/app/node_modules/@node-llama-cpp/linux-x64-cuda" ] || fail "the engine has builds that nobody asked for"
echo "make test-dockerfile: 1 passed, 0 failed"
