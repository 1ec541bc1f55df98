#!/usr/bin/env bash
# The main job as a new user does it: draw data, train, look, reproduce bit for bit, audit, diff; then kill it,
# interrupt and resume it, and feed it broken things.
source "$(dirname "$0")/helpers.sh" "$@"

tiny_detector tiny.yaml
run=("$exp" run tiny.yaml --device cpu)

out=$("${run[@]}" --name first --set optimizer.lr=0.01) || fail "run: $out"
has "$out" "finished"; has "$out" "bbox_mAP"
"${run[@]}" --name second --set optimizer.lr=0.005 >/dev/null
out=$("$exp" ls); has "$out" "first"; has "$out" "second"
out=$("$exp" show first); has "$out" "loss"
mkdir aside && mv configs tiny.yaml aside
out=$("$exp" reproduce first) || fail "reproduce: $out"
has "$out" "same"
mv aside/* .
mv "$(find work_dirs -path '*first*' -name 'epoch_1.safetensors' | head -1)" mystery.bin
out=$("$exp" audit mystery.bin); has "$out" "optimizer.lr"; has "$out" "reproduce"
out=$("$exp" diff first second); has "$out" "optimizer.lr"

# Killed in the middle: the epochs before are there, and it shows as killed.
begin victim.log "${run[@]}" --name victim --set runner.max_epochs=200
await 'epoch 2/200 ' victim.log
kill -9 $pid; wait $pid 2>/dev/null || true
out=$("$exp" ls); has "$(grep victim <<<"$out")" "killed"
count=$("$exp" show victim --json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["epochs"]))')
[ "$count" -ge 2 ] || fail "only $count epochs of the killed run"

# Interrupted in the middle of an epoch and resumed: the same bits as never having stopped.
hashes() { "$exp" show "$1" --json | python3 -c 'import json,sys
for e in json.load(sys.stdin)["epochs"]: print(e["epoch"], e["weights_hash"], e["optimizer_hash"])'; }
"${run[@]}" --name whole --set runner.max_epochs=4 >/dev/null
begin parts.log "${run[@]}" --name parts --set runner.max_epochs=4
await 'epoch 1/4 ' parts.log
kill -INT $pid; code=0; wait $pid || code=$?
if [ $code != 0 ]; then
  [ $code = 130 ] || fail "interrupted run gives $code: $(cat parts.log)"
  "${run[@]}" --set runner.max_epochs=4 --resume parts >/dev/null || fail "resume"
fi
[ "$(hashes whole)" = "$(hashes parts | sort -un)" ] || fail "resumed differs: $(hashes whole) -- $(hashes parts)"

# Broken things: one clear message each, exit code 2.
refused 2 "none.yaml doesn't exist" "$exp" run none.yaml
printf 'model: {type: FasterRCNN\n' >broken.yaml
refused 2 "broken.yaml:" "$exp" run broken.yaml
refused 2 "optimizer.lr" "${run[@]}" --set optimizer.lrr=1
refused 2 "circle" "${run[@]}" --set model.roi_head.bbox_head.num_classes=80
printf '{"images": [}' >bad.json
refused 2 "bad.json:1:" "${run[@]}" --set data.train.ann_file=bad.json
refused 2 "segm" "${run[@]}" --set evaluation.metric=segm
image=data/shapes/images/train_000001.jpg
cp "$image" whole.jpg; head -c 300 whole.jpg >"$image"
refused 2 "$(basename "$image")" "${run[@]}"
cp whole.jpg "$image"
echo "no store" >notastore; mkdir -p bad_store && cp notastore bad_store/exp.db
refused 2 "exp.db" "$exp" ls --store bad_store
echo "the main job works from end to end"
