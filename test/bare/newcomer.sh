#!/bin/sh
# What a newcomer does in a bare Debian; readme.sh calls it there. `setup` may fetch, `use` has loopback alone.
set -eu

fail() {
  echo "newcomer: $1" >&2
  exit 1
}

# Runs a command whose exit status may be any but a signal's; says the status of one that a signal ended.
alive() {
  status=0
  "$@" || status=$?
  [ "$status" -lt 128 ] || fail "$* ended with $status: a signal"
}

case $1 in
setup)
  echo "Debian's Node: $(node --version); npm $(npm --version)"
  make setup
  compiled=$(find node_modules engines/node_modules -path '*build/Release*' -name '*.node')
  [ -z "$compiled" ] || fail "npm compiled native addons with the system's Node: $compiled"
  ;;
use)
  alive bin/berth doctor
  log=$HOME/run.log
  make run >"$log" 2>&1 &
  run=$!
  tries=0
  until bin/berth status >/dev/null 2>&1 && grep -q 'Try in another terminal' "$log"; do
    kill -0 "$run" 2>/dev/null || { cat "$log"; fail "make run ended by itself"; }
    tries=$((tries + 1))
    [ "$tries" -lt 900 ] || { cat "$log"; fail "make run was not ready in a quarter of an hour"; }
    sleep 1
  done
  bin/berth status
  bin/berth chat primary "hello" --max-tokens 8
  curl -fsS http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \
    -d '{"model":"primary","messages":[{"role":"user","content":"hi"}],"max_tokens":8,"stream":true}' | grep -q '\[DONE\]' ||
    fail "the README's curl was not answered whole"
  kill -TERM "$run"
  wait "$run" || true
  left=
  for process in /proc/[0-9]*; do
    [ "$(stat -c %U "$process" 2>/dev/null)" = newcomer ] || continue
    line=$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null) || continue
    case $line in *src/main* | *engines/src*) left="$left $line" ;; esac
  done
  [ -z "$left" ] || fail "make run left these running: $left"
  # Docker's client must crash no process where there is no daemon, nor in the tests that load it.
  SVC_RUNTIME=docker alive make run
  if [ "${BERTH_BARE_TESTS:-}" = all ]; then
    make test
  else
    make test TESTS="test/hardware test/runtimes test/structure"
  fi
  ;;
esac
