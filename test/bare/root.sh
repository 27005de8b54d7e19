# For the scripts beside it: a bare Debian 13 in a directory, made by debootstrap once and kept as an archive. Sets `root`,
# its directory, which goes with the script, and `passed`, the environment that this machine's network needs.
# Needs root; installs what is missing.
suite=trixie

fail() {
  echo "make $target: $1" >&2
  exit 1
}

# want PROGRAM PACKAGE
missing=
want() {
  command -v "$1" >/dev/null || missing="$missing $2"
}

install_missing() {
  [ "$(id -u)" = 0 ] || fail "a root directory of its own needs root; run it as root, or in a virtual machine"
  want debootstrap debootstrap
  want git git
  # The packages are words of their own.
  # shellcheck disable=SC2086
  [ -z "$missing" ] || hack/apt.sh "make $target" $missing
}

make_root() {
  cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/berth/bare
  base=$cache/$suite-$(uname -m).tar
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/berth-bare-XXXXXX")
  trap 'umount -l "$root/proc" "$root/dev" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
  trap 'exit 130' INT TERM
  if [ ! -f "$base" ]; then
    echo "making a bare Debian ($suite) once"
    mkdir -p "$cache"
    # shellcheck disable=SC2086
    debootstrap --variant=minbase "$suite" "$root" ${BERTH_DEBIAN_MIRROR:-} >"$cache/debootstrap.log" 2>&1 ||
      { tail -20 "$cache/debootstrap.log" >&2; fail "debootstrap could not make a root directory"; }
    tar -C "$root" -cf "$base.$$" . && mv "$base.$$" "$base"
  else
    tar -C "$root" -xf "$base"
  fi
  chmod 755 "$root"
  # A root directory that goes with the script needs no fsync per package.
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/berth-test"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  chroot=$(command -v chroot || echo /usr/sbin/chroot)
  passed=$(env | grep -E '^(npm_config_|NPM_CONFIG_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' || true)
  if [ -f "${NODE_EXTRA_CA_CERTS:-}" ]; then
    install -m 644 "$NODE_EXTRA_CA_CERTS" "$root/etc/extra.crt"
    passed="$passed NODE_EXTRA_CA_CERTS=/etc/extra.crt"
  fi
}

# As root in it, with the network of this machine.
bare() {
  # shellcheck disable=SC2086
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive \
    $passed "$chroot" "$root" "$@"
}

# apt PACKAGE-COMMAND: its output is shown only where it fails.
apt() {
  bare apt-get update -q >/dev/null
  bare sh -c "$1" >"$root/apt.log" 2>&1 || { tail -20 "$root/apt.log" >&2; fail "apt could not do: $1"; }
}
