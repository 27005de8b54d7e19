# For the scripts beside it: a bare Debian 13 in a directory, unpacked from an archive that an earlier run has kept outside
# the clone, for a week at most: debootstrap makes the first one, and what a script installs by apt makes one more. Sets
# `root`, the directory, which goes with the script, and `passed`, the environment that this machine's network needs.
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

# make_root [APT-COMMAND...]: with what the commands install, the last one first.
make_root() {
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/berth-bare-XXXXXX")
  trap 'leave; rm -rf --one-file-system "$root"' EXIT
  trap 'exit 130' INT TERM
  chroot=$(command -v chroot || echo /usr/sbin/chroot)
  passed=$(env | grep -E '^(npm_config_|NPM_CONFIG_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' || true)
  [ ! -f "${NODE_EXTRA_CA_CERTS:-}" ] || passed="$passed NODE_EXTRA_CA_CERTS=/etc/extra.crt"
  kept=${XDG_CACHE_HOME:-${HOME:?}/.cache}/berth/bare
  mkdir -p "$kept"
  # Of two scripts at once the second finds what the first has made.
  exec 9>"$kept/lock"
  flock 9
  find "$kept" -name '*.tar*' -mtime +6 -delete
  unpack "$@"
  exec 9>&-
  enter
}

# archive_of APT-COMMAND...: another archive for other packages, and for another text of this file.
archive_of() {
  sum=$({ echo "$* ${BERTH_DEBIAN_MIRROR:-}"; cat test/bare/root.sh; } | cksum | cut -d ' ' -f 1)
  echo "$kept/$suite-$(uname -m)-$sum.tar"
}

# unpack APT-COMMAND...: the archive, which is made where it is missing, from that of the commands before the last one.
unpack() {
  archive=$(archive_of "$@")
  if [ -f "$archive" ]; then
    tar -C "$root" -xf "$archive"
    return
  fi
  if [ $# = 0 ]; then
    bootstrap
  else
    (shift && unpack "$@")
    echo "as root: $1"
    enter
    install_by "$1"
    leave
  fi
  tar -C "$root" --one-file-system -cf "$archive.part" . && mv "$archive.part" "$archive"
}

bootstrap() {
  echo "making a bare Debian ($suite), once a week"
  # shellcheck disable=SC2086
  debootstrap --variant=minbase "$suite" "$root" ${BERTH_DEBIAN_MIRROR:-} >"$kept/debootstrap.log" 2>&1 ||
    { tail -20 "$kept/debootstrap.log" >&2; fail "debootstrap could not make a root directory"; }
  chmod 755 "$root"
  # A root directory that goes with the script needs no fsync per package.
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/berth-test"
}

# What the root directory has of this machine.
enter() {
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  [ ! -f "${NODE_EXTRA_CA_CERTS:-}" ] || install -m 644 "$NODE_EXTRA_CA_CERTS" "$root/etc/extra.crt"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
}

leave() {
  umount -l "$root/proc" "$root/dev" 2>/dev/null || true
}

# As root in it, with the network of this machine.
bare() {
  # shellcheck disable=SC2086
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive \
    $passed "$chroot" "$root" "$@"
}

# The packages that the README names for Debian.
readme_packages() {
  sed -n 's/.*`apt-get install --no-install-recommends \([^`]*nodejs npm\)`.*/\1/p' README.md | grep . ||
    fail "README.md names no packages for Debian"
}

# install_by APT-COMMAND: its output is shown only where it fails.
install_by() {
  bare apt-get update -q >/dev/null
  bare sh -c "$1 -y -q" >"$root/apt.log" 2>&1 ||
    { tail -20 "$root/apt.log" >&2; fail "apt could not do: $1"; }
  bare apt-get clean
  rm "$root/apt.log"
}
