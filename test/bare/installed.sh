# Part of test/bare/install.sh: what is looked at within the booted machine, between the page's commands.

# everything: every path of the disk that an installation could leave; not what the system itself writes while it runs.
everything() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /srv -o -path /var/log \
    -o -path '/usr/lib/berth/*/.cache' -o -path /var/lib/berth -o -path /var/lib/systemd -o -path '/var/tmp/systemd-private-*' -o -path /var/lib/caddy -o -path /var/cache \) -prune \
    -o -printf '%y %m %u:%g %p\n' | LC_ALL=C sort
}
# For `set -e`, which ignores commands after an exclamation mark.
fails() { if "$@"; then return 1; fi; }
has_no_unit() {
  systemctl list-unit-files --no-pager >/srv/units
  fails grep berth /srv/units
}
user_of() { stat -c %U "/proc/$(systemctl show --property=MainPID --value "$1")"; }
main_pids() { systemctl show --property=MainPID --value berth-operator berth-gateway; }
engine() { berth slot show primary -o json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1; }
state() { curl -fsS http://127.0.0.1:8080/api/install/state; }

is_installed() {
  echo "time: $((($(date +%s%N) - began) / 100000000)) tenths of a second from the archive to the first answer"
  [ "$(($(date +%s%N) - began))" -lt 60000000000 ]
  [ "$(user_of berth-operator)" = berth ]
  [ "$(user_of berth-gateway)" = berth ]
  [ "$(systemctl is-enabled berth-operator berth-gateway | sort -u)" = enabled ]
  state | grep -q '"first_run": *false'
  state | grep -q '"has_models": *true'
  state | grep -q '"has_ready_slot": *true'
  before=$(engine)
  [ -n "$before" ]
  echo "engine: $before"
  for unit in berth-operator berth-gateway; do
    systemd-analyze security --no-pager $unit.service | tail -1 | sed "s/^/security: $unit /"
  done
  systemd-analyze verify /etc/systemd/system/berth-*.service
  # Pages and CLI may write manifests; a stranger may read neither secrets nor state.
  [ "$(stat -c '%U %a' /etc/berth)" = "berth 755" ]
  [ "$(stat -c '%U:%G %a' /etc/default/berth)" = "root:berth 640" ]
  [ "$(stat -c '%U %a' /var/lib/berth)" = "berth 750" ]
  berth slot create notes --model model >/dev/null
  [ "$(stat -c %U /etc/berth/slots/notes.*)" = berth ]
  berth slot delete notes --yes
}
is_idempotent() {
  everything >/srv/once
  pids=$(main_pids)
  berth install --yes | grep -q 'all is as it should be'
  [ "$pids" = "$(main_pids)" ]
  everything | diff /srv/once -
}
has_authentication() {
  curl -s --retry 20 --retry-connrefused -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8080/api/slots | grep -q '^401$'
  bearer=$(sed -n 's/^  token *\(svc_[^ ]*\) .*/\1/p' /srv/steps.log)
  curl -fsS -o /dev/null -H "authorization: Bearer $bearer" http://127.0.0.1:8080/api/slots
  # The engine that ran before runs still.
  until curl -fsS -H "authorization: Bearer $bearer" http://127.0.0.1:8080/api/slots/primary | grep -qE '"state": ?"(ready|idle|serving)"'; do sleep 0.2; done
  [ -d "/proc/$before" ]
}
has_edge() {
  edge() { curl -ks -o /dev/null -w '%{http_code}\n' --resolve svc.local:443:127.0.0.1 "$@" https://svc.local/; }
  until [ "$(edge)" = 401 ]; do sleep 0.2; done
  [ "$(edge -u "ada:$PASSWORD")" = 200 ]
  [ "$(edge -u ada:wrong)" = 401 ]
  fails grep -rlF "$PASSWORD" /etc /var/lib /usr/lib/berth /run/systemd
  pids=$(main_pids)
  SVC_ADMIN_PASSWORD="$PASSWORD" berth install --yes | grep -q 'all is as it should be'
  [ "$pids" = "$(main_pids)" ]
}
# The models and the manifests, which the page's commands leave, and which go here.
has_left_nothing() {
  # Another shell: this one remembers the path.
  fails sh -c 'command -v berth'
  fails id berth
  has_no_unit
  everything | diff /srv/before - >/srv/left || true
  find /var/lib/berth | sed 's/^/> /' >>/srv/left
  cat /srv/left
  [ "$(grep '^[<>]' /srv/left | grep -v ' /etc/berth\(/.berth-uninstalled\|/slots\(/primary.toml\)\?\)\?$' | grep -v ' /var/lib/berth\(/models\(/model.gguf\|/.berth.*\)\?\)\?$')" = "" ]
  [ "$(find /etc/berth /var/lib/berth ! -user root)" = "" ]
}

# for_a_user: docs/install.md, "Without root", with that user's service manager.
for_a_user() {
  useradd --create-home --home-dir /srv/ada --shell /bin/sh ada
  systemctl start "user@$(id -u ada).service"
  as_ada() {
    runuser -u ada -- env -i HOME=/srv/ada PATH=/srv/ada/.local/bin:/usr/bin:/bin "XDG_RUNTIME_DIR=/run/user/$(id -u ada)" "$@"
  }
  of_ada() { find /srv/ada -path '*/.cache/*' -prune -o -printf '%y %m %u:%g %p\n' | LC_ALL=C sort; }
  everything >/srv/before.user
  of_ada >/srv/before.ada
  as_ada /srv/berth-*/install.sh --yes --model /srv/model.gguf
  as_ada berth chat primary "hello"
  as_ada systemctl --user is-enabled berth-operator berth-gateway
  [ "$(stat -c '%U %a' /srv/ada/.config/berth.env)" = "ada 600" ]
  as_ada berth install --yes | grep -q 'all is as it should be'
  as_ada berth uninstall --yes --models --config
  of_ada | diff /srv/before.ada -
  everything | diff /srv/before.user -
  systemctl stop "user@$(id -u ada).service"
  userdel --remove ada
}
# survives_kills: a removal that is killed at any time is completed by the next one, from the archive where the command is gone.
survives_kills() {
  unset SVC_AUTH_ENABLED SVC_HOSTNAME SVC_ADMIN_USER
  rm -r /etc/berth /var/lib/berth
  everything >/srv/before.kills
  for tenths in 3 6 9 12 15 20 30; do
    berth-*/install.sh --yes --model "$MODEL"
    (trap '' TERM; exec timeout --signal=KILL "$((tenths / 10)).$((tenths % 10))" berth uninstall --yes --models --config) || true
    tries=0
    until berth-*/bin/berth uninstall --yes --models --config; do
      tries=$((tries + 1))
      [ "$tries" -lt 20 ]
      sleep 0.5
    done
    has_no_unit
    everything | diff /srv/before.kills -
    [ ! -e /var/lib/berth ]
  done
}
