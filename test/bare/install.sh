#!/bin/sh
# `make test-install`: docs/install.md, command by command, in a bare Debian 13 that systemd has booted, in a container with
# loopback alone; only the first section, which fetches, runs before the boot. Then what the page promises is looked at.
set -eu
cd "$(dirname "$0")/../.."
target=test-install
. test/bare/root.sh
if [ "${1:-}" != inside ]; then
  want systemd-nspawn systemd-container
  install_missing
  exec unshare --mount --pid --fork --kill-child --mount-proc "$0" inside
fi
packages=$(readme_packages)
# The README's packages, which make test-bare tries, are there already: the page must name the same.
grep -qxF "apt-get install -y --no-install-recommends $packages" docs/install.md ||
  fail "docs/install.md names other packages than README.md"
make_root "apt-get install --no-install-recommends systemd systemd-sysv dbus" \
  "apt-get install --no-install-recommends $packages"

# steps SECTION: the shell commands below one heading of the page.
steps() {
  awk -v heading="## $1" '$0 == heading {on = 1; next} /^## / {on = 0} on && /^```sh$/ {code = 1; next} /^```$/ {code = 0} on && code' docs/install.md |
    grep . || fail "docs/install.md has no commands below: $1"
}

git clone -q --bare --no-local . "$root/srv/berth.git"
steps "The program" >"$root/srv/program.sh"
bare sh -euxc 'REPOSITORY=/srv/berth.git; export REPOSITORY; . /srv/program.sh' >"$root/srv/program.log" 2>&1 ||
  { tail -20 "$root/srv/program.log" >&2; fail "the section The program failed"; }

{
  echo 'set -eux'
  echo 'trap "[ -e /srv/result ] || journalctl --no-pager -u berth-operator -u berth-gateway | tail -40" EXIT'
  for section in "The user and the directories" "A first slot" "The services"; do steps "$section"; done
  cat test/bare/installed.sh
  steps "Authentication and the first token"
  echo 'has_authentication'
  steps "Updating"
  echo 'kept_its_engine'
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
  tail -60 "$root/srv/steps.log" >&2 || true
  rm -f "$root.boot.log"
  fail "docs/install.md did not hold"
fi
rm -f "$root.boot.log"
grep -E '^(security|engine):' "$root/srv/steps.log" || true
echo "make test-install: 1 passed, 0 failed"
