#!/bin/sh
# hack/apt.sh CALLER PACKAGE...: installs what a script needs, as root on Debian; elsewhere it fails and names what is
# missing. Two scripts may call it at once: apt-get itself fails while another one holds its locks. Services that the
# packages would start stay down: the tests start their own. Prints on standard error alone.
set -eu
caller=$1
shift

fail() {
  echo "$caller: $1" >&2
  exit 1
}

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "missing: $*; on Debian, as root: apt-get install $*"
echo "$caller: installing $*" >&2
root=${DPKG_ROOT:-}
exec 9<"$root/var/lib/apt"
flock 9
policy=$root/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
log=$(mktemp)
{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } >"$log" 2>&1 9<&- ||
  { tail -20 "$log" >&2; rm -f "$log"; fail "apt-get could not install $*"; }
rm -f "$log"
