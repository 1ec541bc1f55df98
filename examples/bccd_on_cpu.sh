#!/usr/bin/env bash
# Real images on a CPU: a small detector learns blood cells (BCCD as COCO JSON) for a few epochs; the same again is killed
# with SIGKILL in its second epoch; then the first is reproduced from its record and both are compared.
#   examples/bccd_on_cpu.sh FOLDER [EPOCHS]     FOLDER holds instances_{train,val}.json and images/
# About 15 minutes on two cores with 6 epochs.
set -euo pipefail
cd "$(dirname "$0")/.."
data=$(realpath "${1:?"usage: examples/bccd_on_cpu.sh FOLDER [EPOCHS]"}")
epochs=${2:-6}
exp=${EXP:-build/exp}
[ -x "$exp" ] || { echo "error: $exp isn't built; examples/quickstart.sh builds it" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }
run=("$exp" run configs/faster_rcnn_r18_bccd_cpu.yaml --set "data_root=$data" --device cpu)
[ "$epochs" = 6 ] || run+=(--set "runner.max_epochs=$epochs")

step "train $epochs epochs"
show "${run[@]}" --name bccd

log=$(mktemp)
trap 'rm -f "$log"' EXIT
step "the same with another learning rate, killed in its second epoch"
"${run[@]}" --set optimizer.lr=0.005 --name bccd-killed >"$log" 2>&1 &
pid=$!
until grep -q "^saved .*epoch_1" "$log" || ! kill -0 $pid 2>/dev/null; do sleep 0.2; done
sleep 3
kill -KILL $pid
wait $pid 2>/dev/null || true
show "$exp" ls
"$exp" ls | grep bccd-killed | grep killed >/dev/null || { echo "error: it isn't listed as killed" >&2; exit 1; }

step "reproduce from the record"
show "$exp" reproduce bccd

step "what differs"
show "$exp" diff bccd bccd-killed
