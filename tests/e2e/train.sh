#!/usr/bin/env bash
# Training as a practitioner needs it: SSD and a classifier from configs, resuming in three ways, a changed config
# confirmed, evaluation and prediction from a run and from a file, a loss that blows up and its replay.
source "$(dirname "$0")/helpers.sh" "$@"
python() { python3 -c "$@"; }

tiny_detector detector.yaml
cat >tiny.yaml <<'END'
_base_: detector.yaml
data: {train: {times: 1}}
lr_config: {_delete_: true, policy: fixed}
END
cat >ssd.yaml <<'END'
_base_: configs/ssd300_bccd.yaml
data_root: data/shapes
model: {backbone: {base_channels: 4}}
data:
  samples_per_gpu: 4
  train: {img_prefix: data/shapes/images}
  val: {img_prefix: data/shapes/images}
  test: {ann_file: data/shapes/instances_val.json, img_prefix: data/shapes/images}
lr_config: {_delete_: true, policy: fixed}
runner: {max_epochs: 1}
END
run=("$exp" run --device cpu)

# SSD and a classifier on the boxes that are cut out.
out=$("${run[@]}" ssd.yaml --name ssd) || fail "ssd: $out"
has "$out" "bbox_mAP"
for part in train val; do
  out=$("$exp" data crops "data/shapes/instances_$part.json" --images data/shapes/images --out "data/cells/$part")
  has "$out" "circle"
done
out=$("${run[@]}" configs/resnet50_bccd_cells.yaml --name cells --set data_root=data/cells --set runner.max_epochs=2 --set model.backbone.depth=18 \
  --set model.backbone.base_channels=8 --set data.train.crop_size=32 --set data.val.crop_size=32 --set data.val.resize=36 \
  --set 'lr_config={policy: fixed}' --set data.samples_per_gpu=8) || fail "cells: $out"
has "$out" "top1"
has "$("$exp" show cells)" "data/cells/train"
"$exp" data preview configs/resnet50_bccd_cells.yaml --set data_root=data/cells --out cells.html >/dev/null
has "$(cat cells.html)" "<figcaption>square: "

# Blocks whose inside is made again for the gradients (mmdetection's with_cp): less memory, the same bits.
for with_cp in false true; do
  "${run[@]}" tiny.yaml --name "cp-$with_cp" --set "model.backbone.with_cp=$with_cp" --set runner.max_epochs=1 >"cp-$with_cp"
done
"$exp" show cp-false --json >cp-false.json
"$exp" show cp-true --json >cp-true.json
python 'import json
a, b = (json.load(open(f"cp-{x}.json"))["epochs"] for x in ("false", "true"))
assert a[0]["weights_hash"] == b[0]["weights_hash"], (a, b)'

# Evaluation: from a run, from a file, with augmentation; what the model can't give is refused.
out=$("$exp" eval ssd --device cpu --out evaluated) || fail "eval: $out"
has "$out" "circle"; has "$out" "(background)"
for file in report.json precision.csv confusion.csv detections.json; do [ -s "evaluated/$file" ] || fail "no $file"; done
"${run[@]}" tiny.yaml --name first >/dev/null
"$exp" show first --json >run.json
"$exp" eval first --device cpu --json >eval.json
python 'import json
run, now = json.load(open("run.json"))["epochs"][-1]["metrics"], json.load(open("eval.json"))["metrics"]
assert abs(run["bbox_mAP"] - now["bbox_mAP"]) < 1e-12, (run, now)'
checkpoint=$(find work_dirs -path '*first*' -name epoch_2.safetensors)
cp "$checkpoint" moved.safetensors
"$exp" eval moved.safetensors --device cpu --json >moved.json
python 'import json; assert json.load(open("eval.json"))["metrics"] == json.load(open("moved.json"))["metrics"]'
out=$("$exp" eval first --device cpu --tta-flip --tta-scales 96x96,128x128) || fail "tta: $out"
has "$out" "AP50"
# Each is a row of the run's record, also of weights that were moved; but for --no-record.
has "$out" "recorded as evaluation 3 of run"
has "$("$exp" eval first --device cpu --no-record)" "AP50"
has "$("$exp" show first)" "on val, moved.safetensors: bbox_mAP"
"$exp" show first --json >run.json
python '
import json
run, now = json.load(open("run.json")), json.load(open("eval.json"))
rows = run["evaluations"]
assert [r["number"] for r in rows] == [1, 2, 3], rows
assert rows[0]["report"]["metrics"] == now["metrics"] and rows[0]["part"] == "val" and len(rows[0]["ann_hash"]) == 32
assert rows[0]["weights_hash"] in [c["hash"] for c in run["checkpoints"]]
assert "--tta-flip" in rows[2]["command"], rows[2]'
refused 2 "gives no \`segm\`" "$exp" eval first --device cpu --metric segm
refused 2 "--config" "$exp" eval moved.safetensors --device cpu --store elsewhere
# A file's own word for its run: an id, nothing that stands for some run; and no terminal obeys it.
for word in @ first $'\e[31mevil'; do
  python 'import json, struct, sys
header = json.dumps({"__metadata__": {"exp.run": sys.argv[1], "exp.\x1b[2Jk": "v"}, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
open("says.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(4))' "$word"
  expect 0 "no store here knows this file" "$exp" audit says.safetensors
  hasnt "$(cat out)" $'\e'
  refused 2 "give one with --config" "$exp" eval says.safetensors --device cpu
done
out=$("$exp" eval cells --device cpu); has "$out" "TOP1"
out=$("$exp" eval cells --device cpu --tta-flip --tta-scales 36x36,48x40) || fail "tta of a classifier: $out"
has "$out" "TOP1"
refused 2 "the shorter side of a scale is 16, and the crop's is" "$exp" eval cells --device cpu --tta-scales 16x16

# Prediction.
out=$("$exp" predict first data/shapes/images/val_000001.jpg --out predicted --device cpu --min-score 0.01) || fail "predict: $out"
[ -s predicted/val_000001.jpg ] || fail "nothing drawn: $(ls predicted)"
python 'import json
rows = json.load(open("predicted/results.json")); ids = json.load(open("predicted/images.json"))
assert all(set(r) == {"image_id", "category_id", "bbox", "score"} for r in rows), rows
assert [c["name"] for c in ids["categories"]] == ["circle", "square", "triangle"], ids'
out=$("$exp" predict cells data/cells/val --out classes --device cpu) || fail "classify: $out"
has "$out" "circle"
[ "$(grep -c file_name classes/results.json)" = "$(find data/cells/val -name '*.jpg' | wc -l)" ] || fail "folders inside a folder"
# Files of any kind: what can't be read is named and left out, and the exit code says so.
mkdir -p odd/inside empty
cp data/shapes/images/val_000001.jpg odd/inside/$'caf\xe9 \x1b[31m.jpg'
cp data/shapes/images/val_000002.jpg odd/
head -c 900 odd/val_000002.jpg >odd/cut.jpg
ln -s nowhere odd/link.png; mkfifo odd/pipe.jpg; : >odd/empty.webp; echo text >odd/notes.txt
expect 1 "cut.jpg: can't be decoded as a JPEG: the file is truncated; it is left out" \
  "$exp" predict first odd --out odd_out --device cpu
has "$(cat out)" 'x1b[31m.jpg: '; has "$(cat out)" "empty.webp: the file is empty"; hasnt "$(cat out)" $'\x1b'
python 'import json; images = json.load(open("odd_out/images.json"))["images"]; assert len(images) == 2, images'
refused 2 "no image is in it" "$exp" predict first empty --out odd_out --device cpu
refused 2 "is not a regular file" "$exp" predict first odd/pipe.jpg --out odd_out --device cpu

# Resuming: the same bits in three ways; a changed config must be confirmed and is another run.
hashes() { "$exp" show "$1" --json | python3 -c 'import json,sys
for e in json.load(sys.stdin)["epochs"]: print(e["epoch"], e["weights_hash"], e["optimizer_hash"])'; }
"${run[@]}" tiny.yaml --name whole --set runner.max_epochs=4 >/dev/null
for way in run resume folder; do
  begin "$way.log" "${run[@]}" tiny.yaml --name "$way" --set runner.max_epochs=4 --work-dir "out_$way"
  await 'epoch 1/4 ' "$way.log"
  kill -INT $pid; code=0; wait $pid || code=$?
  [ $code = 130 ] || fail "interrupted run gives $code: $(cat "$way.log")"
  case $way in
    run) "${run[@]}" tiny.yaml --set runner.max_epochs=4 --resume run >/dev/null ;;
    resume) "$exp" resume resume >/dev/null ;;
    folder) "${run[@]}" tiny.yaml --set runner.max_epochs=4 --resume out_folder >/dev/null ;;
  esac || fail "resume by $way"
  [ "$(hashes whole)" = "$(hashes $way | sort -un)" ] || fail "resumed by $way differs"
done
refused 2 "optimizer.lr" "$exp" resume whole --set optimizer.lr=0.001
has "$(cat out)" "--accept-changes"; has "$(cat out)" "0.001"
out=$("$exp" resume whole --set runner.max_epochs=5 --set optimizer.lr=0.001 --accept-changes) || fail "changed: $out"
has "$out" "finished"
has "$("$exp" show @)" "continues"
[ "$(hashes @ | wc -l)" = 1 ] || fail "one more epoch was to be run"
"$exp" reproduce @ >/dev/null || fail "a continued run is reproduced from its checkpoint"
# Killed before it has a checkpoint of its own, it begins again at the other run's.
begin killed.log "$exp" resume whole --set runner.max_epochs=5 --set optimizer.lr=0.001 --accept-changes
await 'training on' killed.log
kill -KILL $pid; wait $pid || true
out=$("$exp" resume @) || fail "resume of a continued run: $out"
has "$out" "has no checkpoint yet: it begins again"
[ "$(hashes @)" = "$(hashes @~2)" ] || fail "it began elsewhere: $("$exp" ls)"

# bf16 on the CPU trains and repeats, and isn't fp32; what isn't computed as asked is said, and recorded.
out=$("${run[@]}" tiny.yaml --name narrow --set precision=bf16 2>&1) || fail "bf16: $out"
"$exp" reproduce narrow >/dev/null || fail "a bf16 run repeats"
if [[ $out == *"fp32 is computed instead"* ]]; then # no AVX-512
  [ "$(hashes narrow)" = "$(hashes first)" ] || fail "fp32 in place of bf16 is not fp32"
else
  [ "$(hashes narrow)" != "$(hashes first)" ] || fail "bf16 has the bits of fp32"
fi
ONEDNN_MAX_CPU_ISA=AVX2 "${run[@]}" tiny.yaml --name older --set precision=bf16 >/dev/null || fail "bf16 on an older processor"
has "$("$exp" show older)" "fp32 is computed instead"
"${run[@]}" tiny.yaml --name half --set precision=fp16 >/dev/null || fail "fp16"
has "$("$exp" show half)" "precision fp16: fp32 is computed instead"
[ "$(hashes half)" = "$(hashes first)" ] || fail "fp32 in place of fp16 is not fp32"

# A loss that blows up: reported with images and causes, and the step runs again to the same bits.
refused 1 "image ids" "${run[@]}" tiny.yaml --name bad --set optimizer.lr=1e18
has "$(cat out)" "gradients by layer"; has "$(cat out)" "learning rate"
step=$(find work_dirs -path '*bad*' -name 'nonfinite_step_*' | sed 's/.*_//')
out=$("$exp" replay bad "$step") || fail "replay: $out"
has "$out" "the same bits"
refused 2 "one of the steps that it saved: $step" "$exp" replay bad 99999
out=$("${run[@]}" tiny.yaml --name calm --set optimizer.lr=1e18 --set +non_finite.policy=roll_back --set +non_finite.lr_factor=1e-20) || fail "roll back: $out"
has "$out" "rolled_back"; has "$out" "finished"
"$exp" log calm --json --name lr >rates.jsonl
python '
import json
rates = [json.loads(line)["values"]["lr"] for line in open("rates.jsonl")]
assert rates and all(abs(rate / 0.01 - 1) < 1e-9 for rate in rates), rates  # 1e18 x 1e-20, from the first step on'
echo "training works from end to end"
