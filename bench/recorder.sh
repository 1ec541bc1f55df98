#!/usr/bin/env bash
# The recorder beside mlflow, aim, sacred, trackio and wandb (offline), same disk, one value a call, code and telemetry
# capture off. Peers come from PyPI into a virtual environment of its own; one that can't be installed is named.
# usage: bench/recorder.sh [PEER...]      RUNS=10000 lists so many runs
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build build --target recorder_bench >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${EXP_BENCH_VENV:-/tmp/exp-bench-venv}
[ -d "$venv" ] || python3 -m venv "$venv"
printf 'machine: %s, %s cores, disk of %s\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)" "$(nproc)" "$work"
printf 'load average: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
build/recorder_bench "$work/exp" "${RUNS:-1000}"
for peer in "${@:-mlflow aim sacred trackio wandb}"; do for p in $peer; do
  "$venv/bin/pip" install -q "$p" 2>"$work/pip.log" || { echo "{\"name\": \"$p\", \"error\": \"can't be installed: $(tail -1 "$work/pip.log" | tr -d '"')\"}"; continue; }
  [ "$p" != sacred ] || "$venv/bin/pip" install -q 'setuptools<80' 2>/dev/null || true
  timeout 300 "$venv/bin/python" bench/recorder_peers.py "$p" "$work/$p" 2>"$work/err" | grep '^{' ||
    echo "{\"name\": \"$p\", \"error\": \"$(tail -1 "$work/err" | tr -d '"')\"}"
done; done
