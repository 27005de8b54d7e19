#!/bin/sh
# `make test-bare`: the README in a bare Debian 13. A root directory made by debootstrap gets the packages that the README
# names, and an ordinary user follows the README in a clone of what is committed here: Debian's Node sets up, Node 24 runs.
# The user's commands run in a network namespace of their own, without a way out: after the set-up nothing is fetched.
# BERTH_BARE_TESTS=all runs all of `make test` there. Needs root; installs Debian's debootstrap.
set -eu
cd "$(dirname "$0")/.."
suite=trixie

fail() {
  echo "make test-bare: $1" >&2
  exit 1
}

if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || fail "a root directory of its own needs root; run it as root, or in a virtual machine"
  missing=
  command -v debootstrap >/dev/null || missing="$missing debootstrap"
  command -v ip >/dev/null || missing="$missing iproute2"
  command -v git >/dev/null || missing="$missing git"
  if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || fail "these are needed, and there is no apt to install them with:$missing"
    # The packages are words of their own.
    # shellcheck disable=SC2086
    apt-get update -q >/dev/null &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null ||
      fail "apt could not install$missing"
  fi
  exec unshare --mount --pid --fork --kill-child "$0" inside
fi

cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/berth/bare
base=$cache/$suite-$(uname -m).tar
root=$(mktemp -d "${TMPDIR:-/var/tmp}/berth-bare-XXXXXX")
chroot=$(command -v chroot || echo /usr/sbin/chroot)
trap 'umount -l "$root/proc" "$root/dev" 2>/dev/null; rm -rf --one-file-system "$root"' EXIT
trap 'exit 130' INT TERM

if [ ! -f "$base" ]; then
  echo "making a bare Debian ($suite) once"
  mkdir -p "$cache"
  # shellcheck disable=SC2086
  debootstrap --variant=minbase "$suite" "$root" ${BERTH_DEBIAN_MIRROR:-} >"$cache/debootstrap.log" 2>&1 ||
    { tail -20 "$cache/debootstrap.log" >&2; fail "debootstrap could not make a root directory"; }
  tar -C "$root" -cf "$base.part" . && mv "$base.part" "$base"
else
  tar -C "$root" -xf "$base"
fi
chmod 755 "$root"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

bare() { env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive "$chroot" "$root" "$@"; }

packages=$(sed -n 's/.*`\(apt-get install [^`]*nodejs npm\)`.*/\1/p' README.md)
[ -n "$packages" ] || fail "README.md names no packages for Debian"
echo "as root: $packages"
bare apt-get update -q >/dev/null
bare sh -c "$packages -y -q" >"$cache/apt.log" 2>&1 || { tail -20 "$cache/apt.log" >&2; fail "apt could not install what the README names"; }
bare useradd --create-home --shell /bin/sh newcomer
git clone -q --no-local . "$root/home/newcomer/berth"
install -m 755 hack/bare-newcomer.sh "$root/home/newcomer/newcomer.sh"
bare chown -R newcomer:newcomer /home/newcomer

# What this machine's network needs to reach the registry, where it needs anything: proxies, authorities of its own.
passed=$(env | grep -E '^(npm_config_|NPM_CONFIG_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' || true)
if [ -f "${NODE_EXTRA_CA_CERTS:-}" ]; then
  install -m 644 "$NODE_EXTRA_CA_CERTS" "$root/etc/ssl/extra.crt"
  passed="$passed NODE_EXTRA_CA_CERTS=/etc/ssl/extra.crt"
fi
newcomer() {
  # shellcheck disable=SC2086
  env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME=/home/newcomer $passed BERTH_BARE_TESTS="${BERTH_BARE_TESTS:-}" \
    "$chroot" --userspec=newcomer:newcomer "$root" sh -c "cd /home/newcomer/berth && exec /home/newcomer/newcomer.sh $1"
}
newcomer setup
# Loopback alone: who still fetches something fails here.
chroot=$chroot root=$root unshare --net sh -euc '
  ip link set lo up
  env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME=/home/newcomer BERTH_BARE_TESTS="${BERTH_BARE_TESTS:-}" \
    "$chroot" --userspec=newcomer:newcomer "$root" sh -c "cd /home/newcomer/berth && exec /home/newcomer/newcomer.sh use"
'
echo "make test-bare: 1 passed, 0 failed"
