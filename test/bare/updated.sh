# Part of test/bare/install.sh: an update and the way back, under 50 requests a second with open streams. None is lost, and
# no engine is restarted.

load_begins() {
  # The page's commands have just restarted it.
  until curl -fsS -o /dev/null http://127.0.0.1:8080/readyz; do sleep 0.2; done
  mkfifo /srv/load.end
  /usr/lib/berth/current/bin/node --disable-warning=ExperimentalWarning /srv/load.ts http://127.0.0.1:8080 primary 50 4 \
    </srv/load.end >/srv/load.json &
  load=$!
  exec 7>/srv/load.end
  sleep 2
}
load_ends() {
  exec 7>&-
  wait "$load"
  rm /srv/load.end
  sed 's/^/load: /' /srv/load.json
  grep -q '"lost":\[\]' /srv/load.json
}
# runs VERSION: that version is installed, runs in both services, and the engine is the one from before.
runs() {
  [ "$(berth --version)" = "$1" ]
  [ "$(readlink /usr/lib/berth/current)" = "$1" ]
  for unit in berth-operator berth-gateway; do
    readlink "/proc/$(systemctl show --property=MainPID --value $unit)/exe" | grep -q "^/usr/lib/berth/$1/bin/node$"
  done
  fails systemctl is-active --quiet berth-gateway-standby
  [ "$(engine)" = "$before" ]
  [ -d "/proc/$before" ]
}
# killed COMMAND…: ends the command by SIGKILL while the standby runs, so that its change is under way.
killed() {
  "$@" >/srv/killed 2>&1 &
  update=$!
  until systemctl is-active --quiet berth-gateway-standby; do
    kill -0 "$update"
    sleep 0.1
  done
  kill -KILL "$update"
  fails wait "$update"
  [ -e /usr/lib/berth/.update.json ]
}
is_updated() {
  first=$(berth --version)
  SVC_UPDATE_KEY=$(cat /srv/next/key)
  export SVC_UPDATE_KEY
  berth update --check --from /srv/next/index.json | grep -q '^9.9.9 of .* is on stable'
  fails berth update --rollback
  fails env SVC_UPDATE_KEY= berth update --from /srv/next/index.json
  load_begins
  began=$(date +%s%N)
  berth update --from /srv/next/index.json
  echo "time: update in $((($(date +%s%N) - began) / 1000000000)) s"
  runs 9.9.9
  began=$(date +%s%N)
  berth update --rollback
  echo "time: rollback in $((($(date +%s%N) - began) / 1000000000)) s"
  runs "$first"
  load_ends
  # Forward and back again, each killed in the middle: the next command finishes what is left.
  killed berth update --from /srv/next/index.json
  berth --version
  curl -fsS http://127.0.0.1:8080/livez >/dev/null
  berth update --from /srv/next/index.json | tee /srv/said
  grep -q "^an update from $first to 9.9.9 was interrupted: finishing it$" /srv/said
  runs 9.9.9
  killed berth update --rollback
  berth update --rollback | tee /srv/said
  grep -q "^an update from 9.9.9 to $first was interrupted: finishing it$" /srv/said
  runs "$first"
  unset SVC_UPDATE_KEY
}
