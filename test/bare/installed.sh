# Part of test/bare/install.sh: runs within the booted machine, after the services have been started.
user_of() { stat -c %U "/proc/$(systemctl show --property=MainPID --value "$1")"; }
[ "$(user_of berth-operator)" = berth ]
[ "$(user_of berth-gateway)" = berth ]
engine() { berth slot show primary -o json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1; }
before=$(engine)
[ -n "$before" ]
echo "engine: $before"
systemd-analyze security --no-pager berth-operator.service | tail -1 | sed 's/^/security: operator /'
systemd-analyze security --no-pager berth-gateway.service | tail -1 | sed 's/^/security: gateway /'

has_authentication() {
  curl -s --retry 20 --retry-connrefused -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8080/api/slots | grep -q '^401$'
  bearer=$(berth token create --label test --scope all)
  curl -fsS -o /dev/null -H "authorization: Bearer $bearer" http://127.0.0.1:8080/api/slots
}
# Asked as an update leaves it: both services anew, the engine as it was.
kept_its_engine() {
  until curl -fsS -H "authorization: Bearer $bearer" http://127.0.0.1:8080/api/slots/primary | grep -qE '"state": ?"(ready|idle|serving)"'; do sleep 0.2; done
  [ -d "/proc/$before" ]
  curl -fsS -H "authorization: Bearer $bearer" -H 'content-type: application/json' http://127.0.0.1:8080/v1/chat/completions \
    -d '{"model":"primary","messages":[{"role":"user","content":"hi"}],"max_tokens":8}' | grep -q '"choices"'
  [ -d "/proc/$before" ]
}
