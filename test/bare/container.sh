#!/bin/sh
# Part of test/bare/install.sh: an installation by root where no systemd runs, as in a container. The network is loopback.
set -eux
cd /srv
. /srv/installed.sh
everything >/srv/before.container
tar -xzf berth-*-linux-*.tar.gz
berth-*/install.sh --yes --model /srv/model.gguf | tee /srv/said
berth-*/install.sh --yes --model /srv/model.gguf | tee /srv/again
grep -q 'all is as it should be' /srv/again
sh -c "exec $(sed -n 's/.* To run Berth: //p' /srv/said)" >/srv/up.log 2>&1 &
up=$!
curl -fsS --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:8080/livez
berth chat primary "hello"
[ "$(ps -eo user:32,args | grep "[b]in/node" | cut -d " " -f 1 | sort -u)" = berth ]
kill -TERM $(ps -o pid= --ppid "$up")
wait "$up" || true
berth uninstall --yes --models --config
everything | diff /srv/before.container -
[ ! -e /var/lib/berth ]
rm -r /srv/berth-*/
