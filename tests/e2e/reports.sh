#!/usr/bin/env bash
# What people report of other programs' training, each as a user of this one meets it: what is said, the exit code, what is
# recorded. By number:
#  1 mmdetection#1710, #4616, #1411: NaN after a change of batch or rate     5 vision#2740: a box of zero width ends an epoch
#  2 mmdetection#4327, #2896, #8734: num_classes isn't the data's            6 mmdetection#6572, detectron2#3381, open_clip#413:
#  3 mmdetection#5650, #3796: segm of a box model fails after the epoch        a resumed run begins with another learning rate
#  4 vision#2144, #1598: images without boxes give NaN                       7 mmdetection#10019: crowds; 8 detectron2#143: cut JPEGs
source "$(dirname "$0")/helpers.sh" "$@"
tiny_detector detector.yaml
cat >tiny.yaml <<'YAML'
_base_: detector.yaml
data: {train: {times: 1, filter_empty_gt: false}}
lr_config: {_delete_: true, policy: fixed}
YAML
run=("$exp" run --device cpu)
annotations=data/shapes/instances_train.json
# edit PYTHON FILE: the training annotations `j`, changed, as another file.
edit() { python3 -c "import json; j = json.load(open('$annotations')); $1; json.dump(j, open('$2', 'w'))"; }
# of RUN PYTHON: an expression over the run's record `r`.
of() { "$exp" show "$1" --json | python3 -c "import json, sys; r = json.load(sys.stdin); print($2)"; }
hashes() { of "$1" '[(e["weights_hash"], e["optimizer_hash"], e["losses"]) for e in r["epochs"]]'; }
# warned RUN CODE TEXT: the run's record has a warning of that code that says so.
warned() { has "$(of "$1" "[w['message'] for w in r['warnings'] if w['code'] == '$2']")" "$3"; }
# refused_run NAME TEXT ARGUMENTS: refused before the first step, without a run.
refused_run() {
  local name=$1 text=$2
  shift 2
  refused 2 "$text" "${run[@]}" tiny.yaml --name "$name" "$@"
  hasnt "$(cat out)" "training on"
  [ "$("$exp" ls --where "name = '$name'" --json)" = "[]" ] || fail "$name was recorded: $("$exp" ls)"
}

# 1. Another batch at the same rate is said before training, with the rate that fits. The first number that isn't finite stops it,
# with term, step, images and causes; the record has it.
expect 0 "lr 0.02 was set for batch 4" "${run[@]}" tiny.yaml --name batch --set data.samples_per_gpu=1
warned batch config.lr "the linear rule gives lr 0.005"
refused 1 "step 1 (epoch 1)" "${run[@]}" tiny.yaml --name nan --set optimizer.lr=1e18 --set data.train.times=20
for text in "image ids" "loss_rpn_box_reg" "gradients by layer" "1. learning rate" "lower optimizer.lr" "exp replay"; do has "$(cat out)" "$text"; done
refused 1 "--set optimizer.lr=2.5e+17" "${run[@]}" tiny.yaml --name nan1 --set data.samples_per_gpu=1 --set optimizer.lr=1e18
[ "$(of nan 'r["state"], len(r["epochs"])')" = "failed 0" ] || fail "not recorded: $("$exp" show nan)"
has "$(of nan 'r["reason"]')" "isn't finite at step 1"
# Not at the end of its epoch of 60 steps: losses are looked at two steps late.
[ "$("$exp" log nan --json | tail -1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["step"] <= 3)')" = True ] ||
  fail "it went on: $("$exp" log nan | tail -3)"
warned nan nonfinite.report "train_0000"
has "$("$exp" show nan)" $'\n               next: likeliest learning rate'

# 2. The head's classes against the data's, by name.
for classes in 2 80; do
  refused_run "head$classes" "num_classes is $classes" --set "model.roi_head.bbox_head.num_classes=$classes"
  has "$(cat out)" "3 categories: circle, square, triangle"
  has "$(cat out)" "expected: num_classes: 3"
done
refused_run chosen "num_classes is 3" --set '+data.train.classes=[square, circle]'
has "$(cat out)" "square, circle"
# The same number of other classes: training and validation differ.
edit 'j["categories"][2]["name"] = "star"' star.json
refused_run star "star" --set data.train.ann_file=star.json
has "$(cat out)" "triangle"

# 3. A metric that the model doesn't give.
for metric in segm '[bbox, segm]' accuracy; do
  refused_run "metric" "evaluation.metric" --set "evaluation.metric=$metric"
  has "$(cat out)" "expected:"
  has "$(cat out)" "bbox"
done

# 4. Images without boxes: some, all of a batch, all of the set.
edit 'j["annotations"] = [a for a in j["annotations"] if a["image_id"] % 3 == 0]' some.json
edit 'j["annotations"] = []' none.json
for few in some none; do
  expect 0 "finished" "${run[@]}" tiny.yaml --name "$few" --set "data.train.ann_file=$few.json"
  [ "$(of "$few" 'len(r["epochs"]), all(float(v) < 1e3 for e in r["epochs"] for v in e["losses"].values())')" = "2 True" ] ||
    fail "losses of $few: $(of "$few" 'r["epochs"]')"
done
refused_run left "filter_empty_gt: false" --set data.train.ann_file=none.json --set data.train.filter_empty_gt=true

# 5. A box without width, or with a negative one, is found before the first step, by its id and place.
edit 'j["annotations"][3]["bbox"][2] = 0; j["annotations"][4]["bbox"][3] = -4' thin.json
edit 'del j["annotations"][3:5]' mended.json
line="annotation 4 (image"
expect 0 "$line" "${run[@]}" tiny.yaml --name thin --set data.train.ann_file=thin.json
warned thin data.box.no_area "$line"
expect 0 "finished" "${run[@]}" tiny.yaml --name mended --set data.train.ann_file=mended.json
[ "$(hashes thin)" = "$(hashes mended)" ] || fail "a box that is left out trains"
refused_run strict "$line" --set data.train.ann_file=thin.json --set +data.train.policy=strict
has "$(cat out)" "thin.json:1:"

# 6. The rate after resuming: in the middle of a warm-up, and at a milestone.
steps=(--set runner.max_epochs=5 --set 'lr_config={policy: step, step: [3, 4], warmup: linear, warmup_iters: 8, warmup_ratio: 0.1}')
rates() { "$exp" log "$1" --json --name lr | python3 -c 'import json, sys
for line in sys.stdin: row = json.loads(line); print(row["step"], row["values"]["lr"].hex())'; }
expect 0 "finished" "${run[@]}" tiny.yaml --name whole "${steps[@]}"
rates whole >whole.rates
[ "$(cut -d' ' -f2 whole.rates | sort -u | wc -l)" -ge 10 ] || fail "no warm-up and milestones: $(cat whole.rates)"
for epoch in 1 3; do
  # The next checkpoint can't be written: the run fails, deterministically there.
  mkdir -p "cut$epoch/epoch_$((epoch + 1)).safetensors/full"
  refused 1 "epoch_$((epoch + 1)).safetensors" "${run[@]}" tiny.yaml --name "cut$epoch" --work-dir "cut$epoch" "${steps[@]}"
  rm -r "cut$epoch/epoch_$((epoch + 1)).safetensors"
  expect 0 "finished" "$exp" resume "cut$epoch"
  rates "cut$epoch" | diff whole.rates - || fail "other rates, resumed after epoch $epoch"
  [ "$(hashes "cut$epoch")" = "$(hashes whole)" ] || fail "other bits, resumed after epoch $epoch"
done

# 7. Crowds: never trained on (the bits are those without them), said by the audit, and never missed in evaluation.
edit '[a.update(iscrowd=1) for a in j["annotations"] if a["image_id"] % 2]' crowd.json
edit 'j["annotations"] = [a for a in j["annotations"] if a["image_id"] % 2 == 0]' single.json
for set in crowd single; do
  expect 0 "finished" "${run[@]}" tiny.yaml --name "$set" --set "data.train.ann_file=$set.json"
done
[ "$(hashes crowd)" = "$(hashes single)" ] || fail "a crowd was trained on"
expect 0 "annotation.crowd" "$exp" data check crowd.json --images data/shapes/images
recall() { python3 -c 'import json; print(json.load(open("scored.json"))["metrics"]["bbox_AR_100"])'; }
for set in crowd single; do
  "$exp" eval whole --device cpu --no-record --json --set "data.val.ann_file=$set.json" >scored.json
  recall
done | sort -u >recalls
[ "$(wc -l <recalls)" = 1 ] && [ "$(cat recalls)" != 0.0 ] || fail "crowds count as missed: $(cat recalls)"

# 8. A truncated JPEG: named, an error or skipped by policy, and no hang.
for size in 0 1 300 900; do
  rm -rf cut && cp -r data/shapes/images cut
  truncate -s $size cut/train_000003.jpg
  refused 2 "cut/train_000003.jpg" timeout 60 "${run[@]}" tiny.yaml --name jpeg --set data.train.img_prefix=cut
  has "$(cat out)" "on_error: skip"
  [ $size -lt 300 ] || has "$(cat out)" "the file is truncated"
  expect 0 "finished" timeout 60 "${run[@]}" tiny.yaml --name "skip$size" --set data.train.img_prefix=cut --set +data.train.on_error=skip
  warned "skip$size" data.image_replaced "cut/train_000003.jpg"
done
echo "reports: all as expected"
