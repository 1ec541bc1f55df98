#!/usr/bin/env bash
# A training that is killed at random moments, and its resumed run again, ends with the bits of one that never was: SIGKILL at
# any time and while a checkpoint is being written, the newest checkpoint damaged afterwards, resumed in three ways.
# EXP_RESUME_KILLS: kills altogether (8); EXP_RESUME_SEED; EXP_RESUME_DEVICE: cpu, or cuda, where fp16 has a loss scale (on a
# CPU it is computed in fp32: tests/train/loss_scale_test.cpp kills processes with one there).
# By itself: bash tests/e2e/resume_kills.sh build/exp
source "$(dirname "$0")/helpers.sh" "$@"
kills=${EXP_RESUME_KILLS:-8}
RANDOM=${EXP_RESUME_SEED:-1}
device=${EXP_RESUME_DEVICE:-cpu}

smaller_detector base.yaml 2 5
# Each part of the state that resuming needs is in one of these: moments, averages, warm-ups over an epoch's end and behind a
# milestone, accumulation with a last group that isn't full, augmentation's random keys, a loss scale (on a GPU), few
# checkpoints kept.
cat >adamw.yaml <<'END'
_base_: base.yaml
optimizer: {_delete_: true, type: AdamW, lr: 0.0005, weight_decay: 0.01}
optimizer_config: {cumulative_iters: 5, grad_clip: {max_norm: 5}}
ema: {momentum: 0.01}
lr_config: {_delete_: true, policy: step, step: [2, 3], warmup: linear, warmup_iters: 8, warmup_ratio: 0.1}
checkpoint_config: {interval: 1, max_keep_ckpts: 2}
END
cat >sgd.yaml <<'END'
_base_: base.yaml
data: {train: {augment: {mosaic: {}, mixup: {}, photometric: {}, expand: {}, min_iou_crop: {}}}}
optimizer: {_delete_: true, type: SGD, lr: 0.002, momentum: 0.9, nesterov: true}
lr_config: {_delete_: true, policy: OneCycle, max_lr: 0.004}
precision: fp16
evaluation: {interval: 2, save_best: bbox_mAP}
checkpoint_config: {interval: 1, max_keep_ckpts: 3}
END
cat >adam.yaml <<'END'
_base_: base.yaml
optimizer: {_delete_: true, type: Adam, lr: 0.001}
lr_config: {_delete_: true, policy: CosineAnnealing, by_epoch: false, min_lr: 1e-5, warmup: exp, warmup_iters: 20, warmup_ratio: 0.01}
checkpoint_config: {interval: 2}
END
# A rate that blows up in the third epoch's middle, and a roll back to its begin.
cat >jump.yaml <<'END'
_base_: base.yaml
optimizer: {_delete_: true, type: SGD, lr: 0.001, momentum: 0.9}
lr_config: {_delete_: true, policy: step, by_epoch: false, step: [30], gamma: 1e20}
non_finite: {policy: roll_back, lr_factor: 1e-20}
END
variants=(adamw sgd adam jump)

# What a run came to: each epoch's hashes, losses and metrics, once (an epoch that was trained twice must be the same).
result() {
  "$exp" show "$1" --json | python3 -c 'import json, sys
for e in json.load(sys.stdin)["epochs"]: print(e["epoch"], e["weights_hash"], e["optimizer_hash"], e["losses"], e["metrics"])' | sort -un
}
state() { "$exp" show "$1" --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"])' 2>/dev/null || echo none; }
millis() { echo $(($(date +%s%N) / 1000000)); }

declare -A whole
for v in "${variants[@]}"; do
  begin=$(millis)
  "$exp" run "$v.yaml" --device "$device" --name "whole-$v" --work-dir "whole-$v" >"whole-$v.log" 2>&1 || fail "$v: $(cat "whole-$v.log")"
  whole[$v]=$(($(millis) - begin))
  result "whole-$v" >"whole-$v.result"
  [ "$(wc -l <"whole-$v.result")" = 5 ] || fail "whole-$v has not five epochs: $(cat "whole-$v.result")"
done

# stop PID FOLDER MILLIS: at a moment within that time; every third time while a checkpoint is written, if one is. Every fourth
# time a signal that lets the epoch's middle be saved, else SIGKILL.
stop() {
  local end=$(($(millis) + RANDOM % $3))
  if ((RANDOM % 3 == 0)); then
    end=$(($(millis) + $3))
    while kill -0 "$1" 2>/dev/null && [ "$(millis)" -lt $end ] && ! compgen -G "$2/*.tmp.*" >/dev/null; do :; done
  else
    while kill -0 "$1" 2>/dev/null && [ "$(millis)" -lt $end ]; do sleep 0.005; done
  fi
  if ((RANDOM % 4 == 0)); then
    if kill -INT "$1" 2>/dev/null; then asked=$((asked + 1)); fi
  elif kill -KILL "$1" 2>/dev/null; then
    killed=$((killed + 1))
    if compgen -G "$2/*.tmp.*" >/dev/null; then during=$((during + 1)); fi
  fi
  wait "$1" 2>/dev/null || true
}

# damage FOLDER: the newest checkpoint is cut, emptied, or a bit of it is turned. Needs one before it; once a run, so that one is left.
damage() {
  local files newest size
  mapfile -t files < <(ls -t "$1"/epoch_*.safetensors 2>/dev/null)
  [ ${#files[@]} -ge 2 ] && [ "$hurt" = no ] || return 0
  newest=${files[0]} size=$(stat -c %s "${files[0]}")
  case $((RANDOM % 3)) in
    0) truncate -s $((RANDOM * RANDOM % size)) "$newest" ;;
    1) : >"$newest" ;;
    2)
      python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    at, bit = int(sys.argv[2]), int(sys.argv[3])
    f.seek(at)
    old = f.read(1)[0]
    f.seek(at)
    f.write(bytes([old ^ 1 << bit]))' "$newest" $((RANDOM * RANDOM % size)) $((RANDOM % 8))
      ;;
  esac
  damaged=$((damaged + 1)) hurt=yes
}

# go NAME VARIANT: on with the run in one of three ways, in the background, as `pid`.
go() {
  local way=$((RANDOM % 3))
  [ "$(state "$1")" != none ] || way=begin
  case $way in
    begin) "$exp" run "$2.yaml" --device "$device" --name "$1" --work-dir "$1" >>"$1.log" 2>&1 & ;;
    0) "$exp" resume "$1" >>"$1.log" 2>&1 & ;;
    1) "$exp" run "$2.yaml" --device "$device" --name "$1" --work-dir "$1" --resume auto >>"$1.log" 2>&1 & ;;
    2) "$exp" run "$2.yaml" --device "$device" --name "$1" --work-dir "$1" --resume "$1" >>"$1.log" 2>&1 & ;;
  esac
  pid=$!
}

killed=0 during=0 asked=0 damaged=0 runs=0
while [ $killed -lt "$kills" ]; do
  v=${variants[$((runs % ${#variants[@]}))]} name=run-$runs runs=$((runs + 1)) hurt=no
  : >"$name.log"
  for _ in $(seq $((1 + RANDOM % 4))); do
    go "$name" "$v"
    stop "$pid" "$name" $((${whole[$v]} * 11 / 10))
    [ "$(state "$name")" != finished ] || break
    ((RANDOM % 2)) || damage "$name"
  done
  if [ "$(state "$name")" != finished ]; then
    go "$name" "$v"
    wait "$pid" || fail "$name ($v) doesn't go on: $(tail -n 5 "$name.log")"
  fi
  result "$name" >"$name.result"
  diff "whole-$v.result" "$name.result" >difference || fail "$name ($v) isn't as if never killed: $(cat difference "$name.log")"
  [ -s "$name/epoch_5.safetensors" ] || fail "no last checkpoint in $name ($v): $(ls "$name")"
  ! compgen -G "$name/*.tmp.*" >/dev/null || fail "left over in $name ($v): $(ls "$name")"
  rm -rf "$name"
done
[ $killed -ge "$kills" ] || fail "ended after $killed of $kills kills"
echo "$killed kills ($during while a checkpoint was written), $asked interruptions and $damaged damaged checkpoints in $runs runs: the same bits each time"
