#!/usr/bin/env bash
# The recorder beside mlflow, aim, sacred, trackio and wandb (offline): same disk, one value a call, code and telemetry capture
# off; then with everything on. Peers come from PyPI, each into a virtual environment of its own (EXP_BENCH_VENV/PEER); one that
# can't be installed is named. One JSON object a line.
# usage: bench/recorder.sh [PEER...]      RUNS=10000 lists so many runs; EXP_BENCH_DIR names the disk; EXP_BUILD the build
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath -m "${EXP_BUILD:-build}")
cmake -B "$build" -DEXP_BENCH=ON >/dev/null
cmake --build "$build" --target recorder_bench exp >/dev/null
work=$(mktemp -d "${EXP_BENCH_DIR:-/tmp}/exp-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
venvs=${EXP_BENCH_VENV:-/tmp/exp-bench-venv}
unset EXP_STORE
export EXP=$build/exp GIT_CONFIG_GLOBAL=/dev/null
printf 'machine: %s, %s cores, %s on %s; ' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)" "$(nproc)" \
  "$(stat -f -c %T "$work")" "$(df --output=source "$work" | tail -1)"
printf 'load average %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
"$build/recorder_bench" "$work/exp" "${RUNS:-10000}"
python3 bench/recorder_peers.py exp "$work/lines"

# With everything on: the code of 5,000 files, the machine, the telemetry.
mkdir "$work/code" && pushd "$work/code" >/dev/null
for d in $(seq 50); do mkdir "d$d"; for f in $(seq 100); do echo "$d $f" >"d$d/f$f"; done; done
git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one && sleep 1.1 && git status >/dev/null
echo changed >>d1/f1; echo new >new; echo 'a: 1' >c.yaml
now() { date +%s%N; }
best() {  # of five, in ms
  local least=1000000 t ms
  for _ in 1 2 3 4 5; do t=$(now); "$@" >/dev/null; ms=$((($(now) - t) / 1000000)); [ $ms -ge $least ] || least=$ms; done
  echo $least
}
all=$(best "$EXP" run c.yaml -- true)
off=$(best "$EXP" run c.yaml --set +snapshot.code=off -- true)
printf '{"name": "exp run, defaults", "run_of_true_ms": %s, "without_code_ms": %s, "snapshot_of_5000_files_ms": %s}\n' "$all" "$off" $((all - off))
popd >/dev/null

[ $# -gt 0 ] || set -- mlflow aim sacred trackio wandb
for peer; do
  python=$venvs/$peer/bin/python
  extra=(); [ "$peer" != sacred ] || extra=('setuptools<80')  # it imports pkg_resources
  if ! { [ -x "$python" ] || python3 -m venv "$venvs/$peer"; } >"$work/log" 2>&1 || ! "$python" -m pip install -q "$peer" "${extra[@]}" >"$work/log" 2>&1; then
    echo "{\"name\": \"$peer\", \"error\": \"can't be installed: $(tail -1 "$work/log" | tr -d '"\\')\"}"
    continue
  fi
  timeout 900 "$python" bench/recorder_peers.py "$peer" "$work/$peer" 2>"$work/log" | grep '^{' ||
    echo "{\"name\": \"$peer\", \"error\": \"$(tail -1 "$work/log" | tr -d '"\\')\"}"
done
