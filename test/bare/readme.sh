#!/bin/sh
# `make test-bare`: the README in a bare Debian 13. The packages that the README names are installed, and an ordinary user
# follows the README in a clone of what is committed here: Debian's Node sets up, Node 24 runs. After the set-up the user
# has loopback alone, so that whatever still fetches something fails. `make run` shows a whole Berth. Of `make test` three
# folders run, whose tests meet the system: its devices and programs, its processes, its Git. The other folders need Node
# alone, which is the same outside; BERTH_BARE_TESTS=all runs them here too.
set -eu
cd "$(dirname "$0")/../.."
target=test-bare
. test/bare/root.sh
if [ "${1:-}" != inside ]; then
  want ip iproute2
  install_missing
  exec unshare --mount --pid --fork --kill-child "$0" inside
fi
packages=$(readme_packages)
make_root "apt-get install --no-install-recommends $packages"
bare useradd --create-home --home-dir /srv/newcomer --shell /bin/sh newcomer
git clone -q --no-local . "$root/srv/newcomer/berth"
install -m 755 test/bare/newcomer.sh "$root/srv/newcomer/newcomer.sh"
bare chown -R newcomer:newcomer /srv/newcomer

# newcomer PART: the user's commands; what precedes `env` decides which network there is.
newcomer='env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME=/srv/newcomer $passed BERTH_BARE_TESTS="${BERTH_BARE_TESTS:-}" \
  "$chroot" --userspec=newcomer:newcomer "$root" sh -c "cd /srv/newcomer/berth && exec /srv/newcomer/newcomer.sh $1"'
export passed chroot root
sh -euc "$newcomer" sh setup
unshare --net sh -euc "ip link set lo up; $newcomer" sh use
echo "make test-bare: 1 passed, 0 failed"
