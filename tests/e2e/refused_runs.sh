#!/usr/bin/env bash
# What can be judged before a training's first step is refused before anything is recorded: such a command leaves no run, no
# attempt at one and no folder for checkpoints behind, says what to do, and its exit code is 2. What fails later is a run.
source "$(dirname "$0")/helpers.sh" "$@"
smaller_detector small.yaml 4 2
run=("$exp" run small.yaml)
runs() { "$exp" ls --json | python3 -c 'import json, sys; print(*sorted(r["name"] + " " + r["state"] for r in json.load(sys.stdin)), sep=", ")'; }
# none TEXT ARGUMENTS: refused, without a trace.
none() {
  local text=$1
  shift
  refused 2 "$text" "${run[@]}" "$@"
  has "$(cat out)" "error: "
  grep -q -e "next: " -e "expected: " out || fail "$*: what to do? $(cat out)"
  [ ! -e work_dirs ] || fail "$*: left $(find work_dirs)"
  [ ! -e .exp/exp.db ] || [ -z "$(runs)" ] || fail "$*: recorded $(runs)"
}

none '--device: `gpu` is no device; expected auto, cpu, cuda or cuda:N' --device gpu
none '`cuda:x` is no device' --device cuda:x
none "cuda" --device cuda:99 # not in this machine, or not in this build
none "is no seed" --seed -1
for value in model.type=Nothing optimizer.lr=-1 runner.max_epochs=-1 data.samples_per_gpu=0 precision=fp8 seed=-1 \
  lr_config.policy=nothing +threads=0 data.train.times=0 evaluation.metric=segm checkpoint_config.interval=-2; do
  none "${value%%=*}" --device cpu --set "$value"
done
# What the schema can't know.
none "optimizer.lr" --device cpu --set 'lr_config={policy: CosineAnnealing, min_lr: 5}'
none 'gives no `nothing`' --device cpu --set evaluation.save_best=nothing
none "fits no parameter" --device cpu --set +optimizer.paramwise_cfg.custom_keys.nothing.lr_mult=2
# Files: missing, of another kind, of another content than the config says.
none "nowhere.json" --device cpu --set data.train.ann_file=nowhere.json
none "nowhere.json" --device cpu --set data.val.ann_file=nowhere.json
none "6 image files that aren't there" --device cpu --set data.train.img_prefix=nowhere
none "num_classes is 9" --device cpu --set model.roi_head.bbox_head.num_classes=9
none "nowhere.pth" --device cpu --set load_from=nowhere.pth
none "is no file of weights" --device cpu --set load_from=small.yaml
echo '{"images": [' >cut.json
none "cut.json" --device cpu --set data.train.ann_file=cut.json
# Places.
touch file
none "can't be made" --device cpu --work-dir file/below
none "can't be made" --device cpu --store file/below
none "no run is called" --device cpu --resume nothing
# Another trainer that isn't there.
none "the program can't be started: No such file" -- no-such-program
none "the program can't be started: Permission denied" -- ./small.yaml
none "the program can't be started" -- ''
# Folders that were made on the way are gone, others stay.
mkdir -p there
none "num_classes is 9" --device cpu --set model.roi_head.bbox_head.num_classes=9 --work-dir there/a/b
[ "$(find there)" = there ] || fail "left: $(find there)"

# A checkpoint in the middle of an epoch, which is refused under a config with shorter epochs, or with fewer. 24 batches each.
begin middle.log "${run[@]}" --device cpu --name middle --work-dir middle --set log_config.interval=1 --set data.train.times=40
await "epoch 1/2 step 50/" middle.log
kill -INT $pid
wait $pid || [ $? = 130 ] || fail "$(cat middle.log)"
ls middle/iter_*.safetensors >/dev/null
attempts() { "$exp" show "$1" --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["attempts"]))'; }
behind() {
  refused 2 "$1" "$exp" resume middle --accept-changes "${@:2}"
  has "$(cat out)" "next: "
  [ "$(runs)" = "middle interrupted" ] || fail "recorded: $(runs)"
  [ "$(attempts middle)" = 1 ] && [ ! -e work_dirs ] || fail "left something behind"
}
behind "of epoch 1 behind it, but an epoch has 40 now" --set data.samples_per_gpu=6 --set auto_scale_lr.base_batch_size=6
behind "of epoch 1 behind it, but an epoch has 6 now" --set data.train.times=1
behind "only 0 shall be trained" --set runner.max_epochs=0
expect 0 "finished" "$exp" resume middle --accept-changes --set data.train.times=20
has "$(cat out)" "the changes put its images into other batches"
has "$("$exp" show @ --json)" resume.regrouped
refused 2 "nothing is left to train" "$exp" resume @ --accept-changes --set optimizer.lr=0.01
has "$(cat out)" "runner.max_epochs=N"
[ "$(runs)" = "middle interrupted, middle-changed finished" ] || fail "recorded: $(runs)"

# A name is no path.
expect 0 "finished" "${run[@]}" --device cpu --name ../up/there --set data.train.times=1 --set runner.max_epochs=1
ls work_dirs/.._up_there-*/epoch_1.safetensors >/dev/null || fail "not in work_dirs: $(cat out)"
expect 0 "../up/there" "$exp" show ../up/there

# What fails on the way is a run, and says why.
truncate -s 900 data/shapes/images/train_000003.jpg
refused 2 "train_000003.jpg" "${run[@]}" --device cpu --name jpeg
has "$(runs)" "jpeg failed"
refused 1 "ended with code 3" "${run[@]}" --name other -- sh -c 'exit 3'
has "$(runs)" "other failed"
echo "refused runs: none is recorded"
