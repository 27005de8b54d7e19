#!/bin/sh
# `make test-install`: docs/install.md, command by command, from the archive of `make release`, in a bare Debian 13 that
# systemd has booted, in a container with loopback alone. Then what the page promises is looked at, and what is left on disk
# after the removal. BERTH_TEST_RELEASE names a directory that `make release` has filled; absent: it is filled first.
set -eu
cd "$(dirname "$0")/../.."
target=test-install
. test/bare/root.sh
if [ "${1:-}" != inside ]; then
  want systemd-nspawn systemd-container
  want ip iproute2
  install_missing
  exec unshare --mount --pid --fork --kill-child --mount-proc "$0" inside
fi
# The page's packages, before the boot: nothing can be fetched afterwards.
packages=$(sed -n 's/^apt-get install -y --no-install-recommends //p' docs/install.md | tr '\n' ' ')
# A manager of services for a user needs the PAM module.
make_root "apt-get install --no-install-recommends systemd systemd-sysv dbus libpam-systemd procps curl" \
  "apt-get install --no-install-recommends $packages"

# steps SECTION: the shell commands below one heading of the page.
steps() {
  awk -v heading="## $1" '$0 == heading {on = 1; next} /^## / {on = 0} on && /^```sh$/ {code = 1; next} /^```$/ {code = 0} on && code' docs/install.md |
    grep -v '^apt-get ' | grep . || fail "docs/install.md has no commands below: $1"
}

node="$PWD/node_modules/.bin/node"
release=${BERTH_TEST_RELEASE:-}
if [ -z "$release" ]; then
  release=$root/srv/release
  echo "making a release"
  "$node" --disable-warning=ExperimentalWarning hack/release/main.ts --version 0.1.0 --only "linux-$("$node" -p process.arch)" --directory "$release" >/dev/null ||
    fail "make release failed"
fi
cp "$release"/berth-*.tar.gz "$root/srv/"
rm -rf "$root/srv/release"
"$node" --disable-warning=ExperimentalWarning test/bare/next-release.ts "$root"/srv/berth-*.tar.gz 9.9.9 "$root/srv/next"
cp test/bare/load.ts "$root/srv/"
"$node" --disable-warning=ExperimentalWarning hack/first-model.ts "$root/srv/model.gguf"

# As Debian's installer does; debootstrap does not. Caddy looks up `localhost`.
echo '127.0.0.1 localhost' >"$root/etc/hosts"

install -m 755 test/bare/installed.sh test/bare/container.sh "$root/srv/"
unshare --net sh -euc "ip link set lo up; env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  $chroot $root /srv/container.sh" >"$root/srv/container.log" 2>&1 ||
  { tail -40 "$root/srv/container.log" >&2; fail "an installation without systemd failed"; }

{
  # No common example of a password: Debian's descriptions of packages have one.
  echo 'set -eux; cd /srv; export MODEL=/srv/model.gguf PASSWORD="zebra battery staple"'
  echo 'trap "[ -e /srv/result ] || journalctl --no-pager -u berth-operator -u berth-gateway -u caddy | tail -60" EXIT'
  cat test/bare/installed.sh test/bare/updated.sh
  echo 'everything >/srv/before; began=$(date +%s%N)'
  steps "Install"
  echo 'is_installed; is_idempotent'
  steps "Settings"
  echo 'is_updated'
  # No person is here who could answer it.
  steps "Authentication and HTTPS" | sed 's/^berth install$/SVC_ADMIN_PASSWORD="$PASSWORD" berth install --yes/'
  echo 'has_authentication; has_edge'
  steps "Removing"
  echo 'has_left_nothing; for_a_user; survives_kills'
  echo 'echo passed >/srv/result'
} >"$root/srv/steps.sh"
cat >"$root/etc/systemd/system/steps.service" <<'UNIT'
[Unit]
After=multi-user.target
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/sh /srv/steps.sh
StandardOutput=append:/srv/steps.log
StandardError=append:/srv/steps.log
TimeoutStartSec=1500
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../steps.service "$root/etc/systemd/system/default.target.wants/steps.service"
leave
timeout 1800 systemd-nspawn --quiet --register=no --keep-unit --private-network --boot -D "$root" </dev/null >"$root.boot.log" 2>&1 || true
if [ "$(cat "$root/srv/result" 2>/dev/null)" != passed ]; then
  tail -20 "$root.boot.log" >&2
  tail -80 "$root/srv/steps.log" >&2 || true
  rm -f "$root.boot.log"
  fail "docs/install.md did not hold"
fi
rm -f "$root.boot.log"
grep -E '^(security|engine|time|load):' "$root/srv/steps.log" || true
echo "make test-install: 1 passed, 0 failed"
