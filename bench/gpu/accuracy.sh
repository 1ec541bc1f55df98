#!/usr/bin/env bash
# What exp and torchvision reach on BCCD from random weights under the same schedules, three seeds each; a table at the end.
#   bench/gpu/accuracy.sh [part...]     parts: frcnn mmdet ssd cells; default: all
# Environment: SIDES="exp torch", SEEDS="0 1 2", LIMIT=560 (seconds in all), BCCD=folder of the data, EXP=the program,
# PYTHON=one with torch and torchvision, OUT=folder for logs, PRECISION=bf16, SSD_EPOCHS=120.
# exp's parts run one after another, their seeds side by side; torchvision's beside them, so times are no benchmark.
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
out=${OUT:-/tmp/exp-accuracy}
mkdir -p "$out/accuracy"; out=$(realpath "$out/accuracy")
parts=${*:-frcnn mmdet ssd cells}
sides=${SIDES:-exp torch} seeds=${SEEDS:-0 1 2} precision=${PRECISION:-bf16} ssd_epochs=${SSD_EPOCHS:-120}
limit=${LIMIT:-560}
began=$SECONDS
left() { local rest=$((limit - (SECONDS - began))); echo $((rest > 5 ? rest : 5)); }
wants() { case " $parts " in *" $1 "*) return 0 ;; esac; return 1; }

if [ -z "$EXP" ]; then
  work=${WORK:-/tmp/exp-gpu-work}
  if [ -f build-gpu/exp-gpu.tar.xz ]; then
    if [ ! -f "$work/exp-gpu/commit" ] || [ build-gpu/exp-gpu.tar.xz -nt "$work/exp-gpu/commit" ]; then
      rm -rf "$work"; mkdir -p "$work"
      tar -C "$work" -xJmf build-gpu/exp-gpu.tar.xz || exit 1
    fi
    EXP=$work/exp-gpu/exp
  else
    EXP=$root/build/exp
  fi
fi
EXP=$(realpath "$EXP")
[ -x "$EXP" ] || { echo "no program at $EXP: set EXP, or make the package (bench/gpu/package.sh)" >&2; exit 1; }
for folder in /opt/torch/.venv/lib/python3*/site-packages/nvidia/{cudnn,cu13,cublas}/lib; do
  [ -d "$folder" ] && LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
torch_path=$LD_LIBRARY_PATH
export LD_LIBRARY_PATH
[ -n "$PYTHON" ] || PYTHON=$([ -x /opt/torch/.venv/bin/python ] && echo /opt/torch/.venv/bin/python || echo python3)
for bccd in "$BCCD" data/bccd shared/data/bccd ../shared/data/bccd; do
  [ -n "$bccd" ] && [ -f "$bccd/instances_train.json" ] && break
done
bccd=$(realpath "$bccd")
[ -f "$bccd/instances_train.json" ] || { echo "BCCD is not here: set BCCD" >&2; exit 1; }

here=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$here"' EXIT
mkdir "$here/data"; ln -s "$root/configs" "$here/configs"; ln -s "$bccd" "$here/data/bccd"
cd "$here" || exit 1
export XDG_CACHE_HOME=$here/cache  # plans chosen on a busy device shall not stay
if wants cells; then
  for part in train val; do
    "$EXP" data crops "data/bccd/instances_$part.json" --images data/bccd/images --out "data/bccd_cells/$part" >"$out/crops_$part.log" || exit 1
  done
fi

config_of() {
  case $1 in
    frcnn) echo configs/faster_rcnn_bccd.yaml ;;
    mmdet) echo configs/faster_rcnn_mmdet_bccd.yaml ;;
    ssd) echo configs/ssd300_bccd.yaml ;;
    cells) echo configs/resnet50_bccd_cells.yaml ;;
  esac
}
options_of() {
  echo "--set precision=$precision --set data.workers_per_gpu=5 --set checkpoint_config.interval=1000 --device ${DEVICE:-cuda}"
  [ "$1" = ssd ] && echo "--set runner.max_epochs=$ssd_epochs --set lr_config.step=[$((ssd_epochs * 3 / 4)),$((ssd_epochs * 11 / 12))]"
}

# run_exp PART: plans first, then the seeds side by side.
run_exp() {
  local part=$1 seed config pids=()
  config=$(config_of "$part")
  # shellcheck disable=SC2046
  timeout "$(left)" "$EXP" run "$config" $(options_of "$part") --set runner.max_epochs=0 --store "$here/store" --name warm >"$out/exp_${part}_plans.log" 2>&1
  for seed in $seeds; do
    # shellcheck disable=SC2046
    timeout -s INT "$(left)" "$EXP" run "$config" $(options_of "$part") --seed "$seed" --store "$here/store" --name "$part-$seed" \
      >"$out/exp_${part}_$seed.log" 2>&1 &
    pids+=($!)
  done
  wait "${pids[@]}"
  for seed in $seeds; do "$EXP" show "$part-$seed" --json --store "$here/store" >"$out/exp_${part}_$seed.json" 2>/dev/null; done
  echo "exp $part: $((SECONDS - began)) s since the start"
}

run_torch() {
  local part=$1 seed pids=() folder=data/bccd epochs=()
  [ "$part" = cells ] && folder=data/bccd_cells
  [ "$part" = ssd ] && epochs=("$ssd_epochs")
  for seed in $seeds; do
    LD_LIBRARY_PATH=$torch_path timeout "$(left)" "$PYTHON" "$root/bench/peers/torch_accuracy.py" "$part" "$folder" "$seed" "${epochs[@]}" \
      >"$out/torch_${part}_$seed.log" 2>&1 &
    pids+=($!)
  done
  wait "${pids[@]}"
  echo "torch $part: $((SECONDS - began)) s since the start"
}

case " $sides " in *" torch "*)
  (for part in $parts; do [ "$part" = mmdet ] || run_torch "$part"; done) & torch=$! ;;
esac
case " $sides " in *" exp "*) for part in $parts; do run_exp "$part"; done ;; esac
[ -n "$torch" ] && wait "$torch"

SEEDS=$seeds PARTS=$parts python3 - "$out" <<'PYTHON' || exit 1
import json, os, sys
out, seeds, parts = sys.argv[1], os.environ["SEEDS"].split(), os.environ["PARTS"].split()
names = {"frcnn": "Faster R-CNN R50-FPN, torchvision's recipe", "mmdet": "Faster R-CNN R50-FPN, mmdetection's recipe",
         "ssd": "SSD300-VGG16", "cells": "ResNet-50 on cell crops"}

def exp(part, seed):
    try:
        epochs = json.load(open(f"{out}/exp_{part}_{seed}.json"))["epochs"]
        return {**epochs[-1]["metrics"], "epochs": len(epochs), "seconds": sum(e["train_seconds"] for e in epochs)}
    except (OSError, ValueError, LookupError):
        return None

def torch(part, seed):
    try:
        return json.loads(open(f"{out}/torch_{part}_{seed}.log").read().strip().splitlines()[-1])
    except (OSError, ValueError, LookupError):
        return None

def text(rows, key):
    values = [r[key] for r in rows if r and key in r]
    if not values:
        return "-", None
    return " ".join(f"{v:.3f}" for v in values), sum(values) / len(values)

print(f"\n{'model':46s} {'metric':12s} {'exp':22s} {'torchvision':22s} mean difference")
for part in parts:
    ours, theirs = [exp(part, s) for s in seeds], [torch("frcnn" if part == "mmdet" else part, s) for s in seeds]
    for key in ["top1"] if part == "cells" else ["bbox_mAP", "bbox_mAP_50"]:
        (a, mean_a), (b, mean_b) = text(ours, key), text(theirs, key)
        difference = f"{mean_a - mean_b:+.4f}" if None not in (mean_a, mean_b) else "-"
        print(f"{names[part]:46s} {key:12s} {a:22s} {b:22s} {difference}")
    for side, rows in (("exp", ours), ("torchvision", theirs)):
        missing = [s for s, r in zip(seeds, rows) if r is None]
        if missing:
            print(f"  {side}: no result for seed {', '.join(missing)}: see the logs in {out}")
PYTHON
echo "all of it: $((SECONDS - began)) s; $(cat "$(dirname "$EXP")/commit" 2>/dev/null || git -C "$root" rev-parse HEAD)"
