#!/bin/sh
# Prints the path of a Chromium for tests; as root on Debian it installs the one that is missing.
set -eu
for found in "${BERTH_TEST_CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
  [ -n "$found" ] && [ -x "$found" ] && echo "$found" && exit 0
done
"$(dirname "$0")/apt.sh" "no Chromium is here, and BERTH_TEST_CHROMIUM names none" chromium
echo /usr/bin/chromium
