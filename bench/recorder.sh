#!/usr/bin/env bash
# The recorder beside mlflow, aim, sacred, trackio and wandb (offline): same disk, one value a call, code and telemetry capture
# off; then `exp run` with its defaults. Peers come from PyPI into a virtual environment of their own; one that can't be
# installed is named. One JSON object a line.
# usage: bench/recorder.sh [PEER...]      RUNS=10000 lists so many runs; EXP_BENCH_DIR names the disk; EXP_BUILD the build
set -euo pipefail
cd "$(dirname "$0")/.."
build=${EXP_BUILD:-build}
cmake -B "$build" -DEXP_BENCH=ON >/dev/null
cmake --build "$build" --target recorder_bench exp >/dev/null
work=$(mktemp -d "${EXP_BENCH_DIR:-/tmp}/exp-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
venv=${EXP_BENCH_VENV:-/tmp/exp-bench-venv}
[ -d "$venv" ] || python3 -m venv "$venv"
printf 'machine: %s, %s cores, %s on %s\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)" "$(nproc)" \
  "$(stat -f -c %T "$work")" "$(df --output=source "$work" | tail -1)"
printf 'load average: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
"$build/recorder_bench" "$work/exp" "${RUNS:-10000}"

# With everything on: the code of 5,000 files, the machine, the telemetry.
mkdir "$work/code" && cd "$work/code"
for d in $(seq 50); do mkdir "d$d"; for f in $(seq 100); do echo "$d $f" >"d$d/f$f"; done; done
git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one && sleep 1.1 && git status >/dev/null
echo changed >>d1/f1; echo new >new; echo 'a: 1' >c.yaml
exp=$OLDPWD/$build/exp
start() { date +%s%N; }
for i in 1 2 3; do t=$(start); "$exp" run c.yaml -- true >/dev/null; all=$((($(start) - t) / 1000000)); done
t=$(start); "$exp" run c.yaml --set +snapshot.code=off -- true >/dev/null; off=$((($(start) - t) / 1000000))
printf '{"name": "exp run, defaults", "run_of_true_ms": %s, "without_code_ms": %s, "snapshot_of_5000_files_ms": %s}\n' $all $off $((all - off))
cd "$OLDPWD"

for peer in "${@:-mlflow aim sacred trackio wandb}"; do for p in $peer; do
  extra=(); [ "$p" != sacred ] || extra=('setuptools<80')
  "$venv/bin/pip" install -q "$p" "${extra[@]}" 2>"$work/pip.log" || { echo "{\"name\": \"$p\", \"error\": \"can't be installed: $(tail -1 "$work/pip.log" | tr -d '"')\"}"; continue; }
  timeout 600 "$venv/bin/python" bench/recorder_peers.py "$p" "$work/$p" 2>"$work/err" | grep '^{' ||
    echo "{\"name\": \"$p\", \"error\": \"$(tail -1 "$work/err" | tr -d '"')\"}"
done; done
