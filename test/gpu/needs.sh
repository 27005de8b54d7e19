#!/bin/sh
# Whether this machine has what test/gpu needs: an NVIDIA GPU, and a llama-server built with CUDA; else says what is missing.
set -eu

lacks() {
  echo "make test-gpu needs $1" >&2
  exit 1
}

nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || lacks "an NVIDIA GPU: nvidia-smi lists none"
server=${BERTH_TEST_LLAMA_SERVER:-}
[ -n "$server" ] || lacks "a llama-server built with CUDA: name it in BERTH_TEST_LLAMA_SERVER"
[ -x "$server" ] || lacks "a llama-server built with CUDA: $server is no program"
"$server" --list-devices 2>/dev/null | grep -q 'CUDA0' || lacks "a llama-server built with CUDA: $server --list-devices names no CUDA0"
[ -x "$(dirname "$server")/llama-fit-params" ] || lacks "llama-fit-params beside $server"
