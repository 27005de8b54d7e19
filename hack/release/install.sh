#!/bin/sh
# Installs Berth @VERSION@: unpacks the release into a temporary directory and runs its `bin/berth install` with all other
# arguments.
#
#   sh install.sh [--from FILE|URL] [OPTIONS]      `--help` shows them
#
# The release is FILE or URL, else the archive beside this script, else the publisher's. Its SHA-256 must be the one below.
set -eu

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

usage() {
  cat <<'USAGE'
Usage: sh install.sh [options]

  --from FILE|URL  the archive of the release; otherwise the one beside this script, or the publisher's
  -y, --yes        do it, and ask nothing; otherwise lists the steps first, and asks
  --model FILE     the GGUF file of a new slot primary
  --no-edge        with authentication: no HTTPS proxy
USAGE
  exit
}

# Writes $2 with what the address $1 has.
download() {
  if command -v curl >/dev/null; then
    why=$(curl -fsSL --retry 2 --connect-timeout 30 -o "$2" "$1" 2>&1) && return
    [ $? != 23 ] || fail "no space left in $work: set TMPDIR to another directory"
  elif command -v wget >/dev/null; then
    why=$(wget -nv -t 2 -T 30 -O "$2" "$1" 2>&1) && return
    [ $? != 3 ] || fail "no space left in $work: set TMPDIR to another directory"
  else
    fail "curl or wget is needed to download $1; or fetch it yourself, and name it with --from FILE"
  fi
  fail "$1 could not be downloaded: $(echo "$why" | tail -n 1)"
}

main() {
  version='@VERSION@'
  url='@URL@'
  [ "$(uname -s)" = Linux ] || fail "this release runs on Linux only"
  case $(uname -m) in
    x86_64) target=linux-x64 sum=@SUM_X64@ ;;
    aarch64) target=linux-arm64 sum=@SUM_ARM64@ ;;
    *) fail "there is no release for $(uname -m)" ;;
  esac
  name=berth-$version-$target.tar.gz

  from=
  left=$#
  while [ "$left" -gt 0 ]; do
    each=$1
    shift
    left=$((left - 1))
    case $each in
      --from)
        [ "$left" -gt 0 ] || fail "--from needs a file or an address"
        from=$1
        shift
        left=$((left - 1))
        ;;
      --from=*) from=${each#--from=} ;;
      -h | --help) usage ;;
      *) set -- "$@" "$each" ;;
    esac
  done
  if [ -z "$from" ]; then
    from=$(dirname "$0")/$name
    if [ ! -f "$from" ]; then
      [ -n "$url" ] || fail "$name is not beside this script; name it with --from FILE"
      from=$url$name
    fi
  fi

  work=$(mktemp -d "${TMPDIR:-/var/tmp}/berth-install-XXXXXX") || fail "no temporary directory can be made; set TMPDIR to another directory"
  # `berth install` acts as the service's user, too, which reads the program.
  chmod 755 "$work"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  case $from in
    http://* | https://*)
      echo "downloading $from"
      download "$from" "$work/$name"
      archive=$work/$name
      ;;
    *)
      [ -f "$from" ] || fail "$from is not there"
      archive=$from
      ;;
  esac
  found=$(sha256sum <"$archive" | cut -d ' ' -f 1)
  [ "$found" = "$sum" ] ||
    fail "$from is not the whole archive of Berth $version for $target: its SHA-256 is $found, and not $sum"
  why=$(tar -xzf "$archive" -C "$work" --no-same-owner 2>&1) ||
    case $why in
      *"No space left"*) fail "no space left in $work: set TMPDIR to another directory" ;;
      *) fail "$from could not be unpacked: $(echo "$why" | head -n 1)" ;;
    esac

  [ -x "$work/berth-$version/bin/berth" ] ||
    fail "no program may run in $work, as where it is mounted with noexec: set TMPDIR to another directory"

  # A script that comes through a pipe leaves no standard input for questions.
  if [ ! -t 0 ] && (: </dev/tty) 2>/dev/null; then
    "$work/berth-$version/bin/berth" install "$@" </dev/tty
  else
    "$work/berth-$version/bin/berth" install "$@"
  fi
}

main "$@"
