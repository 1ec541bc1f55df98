#!/usr/bin/env bash
# Going on with a run in a world that has changed since: another config, data, weights, code, device, other cores; checkpoints
# that are damaged, gone or not to be read; disks that are full or can't be written; finished and running runs. What changes
# the result is shown and must be confirmed; the rest gives the bits of a run that was never stopped.
source "$(dirname "$0")/helpers.sh" "$@"

smaller_detector base.yaml 1 3
echo 'lr_config: {step: [2]}' >>base.yaml
printf '.exp\nruns\nout\n*.safetensors\n' >.gitignore
git init -q -b main . && git add -A && git commit -qm one

run=("$exp" run --device cpu)
of() { "$exp" show "$1" --json | python3 -c "import json, sys; r = json.load(sys.stdin); print($2)"; }
hashes() { of "$1" '[(e["weights_hash"], e["optimizer_hash"], e["losses"], e["metrics"]) for e in r["epochs"]]'; }
same() { [ "$(hashes "$1")" = "$(hashes "${2:-whole}")" ] || fail "other bits: $1"; }
warned() { has "$(of "$1" "[w['message'] for w in r['warnings'] if w['code'] == '$2']")" "$3"; }
# cut NAME EPOCH ARGUMENTS: a run that fails when it writes that epoch's checkpoint, deterministically there.
cut() {
  local name=$1 there=runs/$1/epoch_$2.safetensors
  shift 2
  mkdir -p "$there/full"
  refused 1 "epoch_" "${run[@]}" base.yaml --name "$name" --work-dir "runs/$name" "$@"
  rm -r "$there"
}
# unconfirmed LINE COMMAND: refused, with that line of what is another; nothing was trained.
unconfirmed() {
  local line=$1
  shift
  refused 2 "$line" "$@"
  has "$(cat out)" "isn't what run"
  hasnt "$(cat out)" "training on"
}
# confirmed NAME COMMAND: with the flag another run begins at the old one's checkpoint, and its record says what changed.
confirmed() {
  local name=$1
  shift
  expect 0 "going on at epoch 3" "$@" --accept-changes
  [ "$(of @ 'r["relation"], r["parent"], len(r["epochs"])')" = "continues $(of "$name" 'r["id"]') 1" ] || fail "not another run"
}

expect 0 "finished" "${run[@]}" base.yaml --name whole --work-dir runs/whole

# The config: a value, a list, a key more and one less, each with both values.
cut config 3
unconfirmed "optimizer.lr: 0.02 -> 0.01" "$exp" resume config --set optimizer.lr=0.01
unconfirmed "lr_config.step: [2] -> [1,2]" "$exp" resume config --set 'lr_config.step=[1,2]'
unconfirmed "ema.momentum: (absent) -> 0.1" "$exp" resume config --set +ema.momentum=0.1
unconfirmed "optimizer.weight_decay: 1e-04 -> (absent)" "$exp" resume config --set '~optimizer.weight_decay'
unconfirmed "runner.max_epochs: 3 -> 4" "${run[@]}" base.yaml --resume config --set runner.max_epochs=4
has "$(cat out)" "--accept-changes"
confirmed config "$exp" resume config --set optimizer.lr=0.01
warned @ config.resume.changed "optimizer.lr: 0.02 -> 0.01"
[ "$(of @ 'r["name"]')" = config-changed ] || fail "its name: $("$exp" ls)"
# More workers don't change what is learnt, which the same bits show.
confirmed config "${run[@]}" base.yaml --resume config --set data.workers_per_gpu=3 --name workers
[ "$(of workers 'r["epochs"][0]["weights_hash"]')" = "$(of whole 'r["epochs"][2]["weights_hash"]')" ] || fail "workers change bits"
refused 2 "begins with epoch 3, at another run's checkpoint" "$exp" reproduce workers --epochs 2
has "$(cat out)" "expected: 3 or more"
# The run itself was left alone by all that. On one core it computes with as many threads as before.
expect 0 "finished" taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//')" "$exp" resume config
same config

# Seeds, devices and programs are the run's.
cut device 3
refused 2 "has the seed 0" "${run[@]}" base.yaml --resume device --seed 1
unconfirmed "--device: cpu -> cuda" "$exp" resume device --device cuda
refused 2 "was trained by exp itself" "$exp" run base.yaml --resume device -- true
expect 0 "finished" "$exp" run base.yaml --resume device # the device that was recorded, not the fastest
same device

# The data: the same names with another content.
cut data 3
cp data/shapes/instances_train.json kept.json
echo >>data/shapes/instances_train.json
unconfirmed "data.train.ann_file: the content of data/shapes/instances_train.json is another" "$exp" resume data
mv kept.json data/shapes/instances_train.json
cp data/shapes/images/train_000002.jpg kept.jpg
printf x >>data/shapes/images/train_000002.jpg
unconfirmed "data.train.img_prefix: 1 image differs: train_000002.jpg (other content)" "$exp" resume data
confirmed data "$exp" resume data
mv kept.jpg data/shapes/images/train_000002.jpg
# From another folder the same config means other files.
mkdir elsewhere && cp -r base.yaml configs elsewhere
(cd elsewhere && "$exp" data shapes --out data/shapes --images 6 --val 2 --size 64x64 --seed 4 >/dev/null &&
  unconfirmed "data.val.img_prefix" "$exp" run base.yaml --resume data --store ../.exp)
rm -r elsewhere
expect 0 "finished" "$exp" resume data
same data

# The weights it began with count until there is a checkpoint, and are in the record.
weights() { "$exp" weights convert "runs/whole/epoch_$1.safetensors" begin.safetensors >/dev/null; }
weights 1
cut begun 3 --set load_from=begin.safetensors
cut beginning 1 --set load_from=begin.safetensors
has "$("$exp" show beginning)" "load_from: begin.safetensors"
weights 2
unconfirmed "load_from: the content of begin.safetensors is another" "$exp" resume beginning
has "$(cat out)" "it has no checkpoint to begin at"
refused 3 "load_from: other weights" "$exp" reproduce begun --epochs 1
rm begin.safetensors
unconfirmed "load_from: begin.safetensors isn't there any more" "$exp" resume beginning
expect 0 "going on at epoch 3" "$exp" resume begun
weights 1
expect 0 "it begins again" "$exp" resume beginning
same beginning begun

# The code: our own trainer's numbers don't hang on it, but the record says that it is another.
cut code 3
echo "# a comment" >>configs/ssd300.yaml
git commit -qam two
expect 0 "the code isn't what the run began with: commit: $(git rev-parse @~1) -> $(git rev-parse @)" "$exp" resume code
warned code resume.code "commit: "
same code

# Checkpoints, damaged in each part.
size=$(stat -c %s runs/whole/epoch_2.safetensors)
flip() { python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2])); old = f.read(1)[0]; f.seek(int(sys.argv[2])); f.write(bytes([old ^ 16]))' "$@"; }
cut damaged 3
cp -r .exp kept.exp && cp -r runs/damaged kept.run
for way in header metadata tensor end truncated empty gone folder; do
  rm -rf .exp runs/damaged && cp -r kept.exp .exp && cp -r kept.run runs/damaged
  file=runs/damaged/epoch_2.safetensors
  case $way in
    header) flip $file 3 ;;
    metadata) flip $file 40 ;;
    tensor) flip $file $((size / 2)) ;;
    end) flip $file $((size - 1)) ;;
    truncated) truncate -s $((size - 1)) $file ;;
    empty) : >$file ;;
    gone) rm $file ;;
    folder) rm $file && mkdir $file ;;
  esac
  if [ $way = folder ]; then # in whose place none can be written
    refused 1 "epoch_2.safetensors is no file: it is passed over" "$exp" resume damaged
    rm -r $file
  fi
  expect 0 "going on at epoch 2" "$exp" resume damaged
  warned damaged checkpoint.damaged epoch_2.safetensors
  same damaged
done
rm -r kept.exp kept.run
cut all 3
for file in runs/all/*; do : >"$file"; done
refused 2 "checkpoints that run " "$exp" resume all
has "$(cat out)" "epoch_1.safetensors isn't as it was written"

# One that this user may not read.
as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
chmod -R a+rwX .
if chmod a+rwx "$dir" && "${as_user[@]}" test -x "$exp" 2>/dev/null; then
  cut secret 3
  chmod -R a+rwX . && chmod 000 runs/secret/epoch_2.safetensors
  expect 0 "epoch_2.safetensors can't be read: it is passed over" "${as_user[@]}" env HOME="$dir" "$exp" resume secret
  same secret
  chmod 555 runs
  refused 2 "the folder for checkpoints can't be made" "${as_user[@]}" "${run[@]}" base.yaml --work-dir runs/new
  chmod 755 runs
else
  echo "not tried: what another user may not read (the program can't be run as one)"
fi

# A disk that fills while a checkpoint is written; one that can't be written.
mkdir small
if mount -t tmpfs -o size=1200k none small 2>/dev/null; then
  trap 'umount "$dir/small" 2>/dev/null || true; rm -rf "$dir"' EXIT
  refused 1 "epoch_3.safetensors: writing failed: No space left on device" "${run[@]}" base.yaml --name full --work-dir small
  has "$(cat out)" "next: free space on the disk"
  has "$(of full 'r["state"], r["reason"]')" "No space left"
  [ "$(ls small)" = $'epoch_1.safetensors\nepoch_2.safetensors' ] || fail "left over: $(ls small)"
  refused 1 "No space left" "$exp" resume full
  mount -o remount,size=10m small
  expect 0 "going on at epoch 3" "$exp" resume full
  same full
  mount -o remount,ro small
  refused 2 "the folder for checkpoints can't be made: Read-only" "${run[@]}" base.yaml --work-dir small/new
  refused 2 "the store's folder can't be made: Read-only" "${run[@]}" base.yaml --store small/store
  umount small
else
  echo "not tried: full and read-only disks (tmpfs can't be mounted here)"
fi

# auto: the newest of this config that ended early; a finished run has nothing left, a running one is somebody's.
only=(base.yaml --set optimizer.momentum=0.8 --resume auto)
cut first 3 --set optimizer.momentum=0.8
cut second 2 --set optimizer.momentum=0.8
expect 0 "run $(of second 'r["id"]')" "${run[@]}" "${only[@]}"
expect 0 "run $(of first 'r["id"]')" "${run[@]}" "${only[@]}"
same second first
expect 0 "no run of this config ended early; a new run begins" "${run[@]}" "${only[@]}" --name third
same third first
attempts=$(of first 'len(r["attempts"])')
expect 0 "is finished: nothing is left to do" "$exp" resume first
expect 0 "is finished: nothing is left to do" "${run[@]}" "${only[@]:0:3}" --resume first
[ "$(of first 'len(r["attempts"])')" = "$attempts" ] || fail "a finished run was begun again"
begin long.log "${run[@]}" base.yaml --name long --set runner.max_epochs=500
await 'epoch 1/' long.log
refused 2 "is owned by process $pid" "$exp" resume long
refused 2 "is owned by process $pid" "${run[@]}" base.yaml --set runner.max_epochs=500 --resume auto
kill -INT $pid
wait $pid || true

# Two jobs that begin at the same moment: one trains. So it is in one folder.
twice=("${run[@]}" base.yaml --set runner.max_epochs=501)
both() {
  local pids=() codes=()
  begin both.1 "$@"; pids+=($pid)
  begin both.2 "$@"; pids+=($pid)
  for _ in $(seq 1200); do [ "$(grep -c 'epoch 1/' both.1 both.2 | grep -c ':1')" = 0 ] || break; sleep 0.02; done
  for _ in $(seq 1200); do [ "$(jobs -r | wc -l)" = 2 ] || break; sleep 0.02; done
  kill -INT "${pids[@]}" 2>/dev/null || true
  for pid in "${pids[@]}"; do
    local code=0
    wait "$pid" || code=$?
    codes+=("$code")
  done
  [ "$(printf '%s\n' "${codes[@]}" | sort -n | tr '\n' ' ')" = "2 130 " ] || fail "both: ${codes[*]}: $(cat both.1 both.2)"
  cat both.1 both.2 >out
}
both "${twice[@]}" --name auto --resume auto
has "$(cat out)" "still runs"
both "${twice[@]}" --name shared --work-dir runs/shared
has "$(cat out)" "runs/shared: run "
has "$(cat out)" "writes its checkpoints there, and still runs"
[ "$("$exp" ls --where 'name = auto or name = shared' --json | grep -c '"id"')" = 2 ] || fail "$("$exp" ls)"
echo "resuming: what has changed is told, the rest gives the same bits"
