#!/usr/bin/env bash
# A training is killed, or finds its disk full, exactly at a call that changes a file: while the store is made, while a
# checkpoint is written, renamed, made durable or an old one goes, while the end is recorded. Whatever the call, what goes on
# afterwards has the bits of a run that nothing befell, and the store is whole. Likewise `exp reproduce`.
# EXP_RESUME_FAULTS=all: at every call (the writes: every seventh), about an hour; else at some.
source "$(dirname "$0")/helpers.sh" "$@"
cc -shared -fPIC -O1 -o faults.so "$here/faults.c" -ldl || { echo "skipped: no C compiler"; exit 0; }

smaller_detector small.yaml 1 3
cat >faulty.yaml <<'END'
_base_: small.yaml
data: {samples_per_gpu: 2}
auto_scale_lr: {base_batch_size: 2}
optimizer: {_delete_: true, type: AdamW, lr: 0.0005}
ema: {momentum: 0.01}
lr_config: {_delete_: true, policy: fixed}
evaluation: {interval: 1, save_best: bbox_mAP}
checkpoint_config: {interval: 1, max_keep_ckpts: 1}
END

# What a run came to: each epoch's hashes, losses and metrics, once.
result() {
  "$exp" show "$1" --json | python3 -c 'import json, sys
for e in json.load(sys.stdin)["epochs"]: print(e["epoch"], e["weights_hash"], e["optimizer_hash"], e["losses"], e["metrics"])' | sort -un
}
state() { "$exp" show "$1" --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"])' 2>/dev/null || echo none; }
# fault WHAT AT ON COMMAND...: the command's exit code is in `code`; `ended` says that it came to its end before the fault.
fault() {
  local what=$1 at=$2 on=$3
  shift 3
  code=0
  FAULT=$what FAULT_AT=$at FAULT_ON=$on LD_PRELOAD="$dir/faults.so" "$@" >fault.log 2>&1 || code=$?
  ended=no
  [ $code != 0 ] || ended=yes
  [ "$what" = full ] || [ $code = 0 ] || [ $code = 137 ] || fail "$what at $at of $on: exit $code: $(cat fault.log)"
  [ "$what" != full ] || [ $code -le 2 ] || fail "$what at $at of $on: exit $code: $(cat fault.log)"
}

export EXP_STORE="$dir/whole.exp"
run=("$exp" run faulty.yaml --device cpu --name k)
"${run[@]}" --work-dir whole >whole.log || fail "$(cat whole.log)"
result k >whole.result
[ "$(wc -l <whole.result)" = 3 ] || fail "not three epochs: $(cat whole.result)"

faults=0
# trial WHAT AT ON: then the same command with `--resume auto`.
trial() {
  rm -rf work store
  export EXP_STORE="$dir/store"
  fault "$1" "$2" "$3" "${run[@]}" --work-dir work
  [ $ended = no ] || return 0
  faults=$((faults + 1))
  if [ "$(state k)" != finished ]; then
    "${run[@]}" --work-dir work --resume auto >again.log 2>&1 || fail "$1 at $2 of $3: can't go on: $(cat fault.log again.log)"
  fi
  result k >work.result
  diff whole.result work.result >difference || fail "$1 at $2 of $3: other bits: $(cat difference fault.log again.log)"
  [ "$(ls work)" = "$(ls whole)" ] || fail "$1 at $2 of $3: these are left: $(ls work)"
  "$exp" verify --checkpoints >verify.log 2>&1 || fail "$1 at $2 of $3: $(cat verify.log)"
}

few=rename,unlink,sync,truncate,mkdir
if [ "${EXP_RESUME_FAULTS:-}" = all ]; then
  for what in kill full; do
    for at in $(seq 1 1000); do
      trial $what "$at" $few
      [ $ended = no ] || break
    done
    for at in $(seq 1 7 100000); do
      trial $what "$at" write
      [ $ended = no ] || break
    done
  done
else
  for at in 4 24 27 30 33 36 39 42 45 48; do trial kill $at $few; done
  for at in 60 500 900; do trial kill $at write; done
  for at in 2 80 300 700 1100; do trial full $at write,truncate,mkdir; done
  [ $faults -ge 15 ] || fail "only $faults of 18 faults came before the end"
fi

# A killed `exp reproduce` is a killed run of its own; the run that it repeats is as it was, and is repeated all the same.
export EXP_STORE="$dir/whole.exp"
for at in 9 20 30; do
  fault kill $at $few "$exp" reproduce k --work-dir "again-$at"
  [ $code = 137 ] || fail "exp reproduce came to its end: $(cat fault.log)"
  "$exp" verify --checkpoints >verify.log 2>&1 || fail "after exp reproduce: $(cat verify.log)"
done
expect 0 "the same, bit for bit: all 3 epochs" "$exp" reproduce k --work-dir again
result k | diff whole.result - || fail "a killed exp reproduce changed the run"
echo "$faults faults, and three of exp reproduce: the same bits each time"
