#!/bin/sh
# Prints the path of a Chromium for tests; as root on Debian it installs the one that is missing.
set -eu
for found in "${BERTH_TEST_CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
  [ -n "$found" ] && [ -x "$found" ] && echo "$found" && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -q && apt-get install -y -q --no-install-recommends chromium; } >&2
  echo /usr/bin/chromium
  exit 0
fi
echo "make test-browser: no Chromium is here; install it (Debian: apt-get install chromium), or name one in BERTH_TEST_CHROMIUM" >&2
exit 1
