#!/usr/bin/env bash
# `exp check` as people call it: findings, levels, exit codes, --json, silence.
source "$(dirname "$0")/helpers.sh" "$@"
# check CODE ARGUMENTS: what it says is in $said.
check() {
  local want=$1 code=0
  shift
  said=$("$exp" check "$@" 2>&1) || code=$?
  [ "$code" = "$want" ] || fail "exit code $code instead of $want of: exp check $* ($said)"
}

mkdir -p data/images
cat > data/ann.json <<'J'
{"images": [{"id": 1, "file_name": "a.jpg", "width": 64, "height": 48}],
 "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 20], "area": 600, "iscrowd": 0}],
 "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]}
J
cat > good.yaml <<Y
_base_: $source_dir/configs/faster_rcnn.yaml
model: {roi_head: {bbox_head: {num_classes: 2}}}
data:
  samples_per_gpu: 16
  train: {ann_file: data/ann.json, img_prefix: data/images}
  val: {ann_file: data/ann.json, img_prefix: data/images}
lr_config: {warmup_iters: 10}
Y
check 0 good.yaml --strict
has "$said" '0 errors, 0 warnings'

# One mistake each: the rule's name, its level, its exit code.
finds() {  # rule, level, exit code, arguments
  local rule=$1 level=$2 code=$3
  shift 3
  check "$code" good.yaml "$@"
  has "$said" "[$rule]"
  has "$said" "$level: "
}
finds schema error 2 --set +optimizer.momentom=0.9
has "$said" '`momentum`'
finds schema error 2 --set optimizer.lr=fast
finds classes error 2 --set model.roi_head.bbox_head.num_classes=80
has "$said" 'cat, dog'
finds metric-model error 2 --set evaluation.metric=segm
finds lr-batch warning 0 --set data.samples_per_gpu=4
has "$said" 'ratio 0.25'
check 2 good.yaml --set data.samples_per_gpu=4 --strict
has "$said" '0 errors, 1 warning'
hasnt "$said" '1 warnings'
check 2 good.yaml --devices 0
has "$said" '65536'
check 2 good.yaml --devices 99999999999
check 0 good.yaml --set data.samples_per_gpu=4 --devices 4
has "$said" '0 warnings'
check 0 good.yaml --set data.samples_per_gpu=4 --set optimizer_config.cumulative_iters=4
has "$said" '0 warnings'
finds lr-batch error 2 --set data.samples_per_gpu=4 --set auto_scale_lr.policy=error
finds step-past-end warning 0 --set 'lr_config.step=[16, 26]'
finds warmup-too-long warning 0 --set lr_config.warmup_iters=1000
finds absolute-lr warning 0 --set lr_config.policy=cosine --set lr_config.min_lr=0.001 --set auto_scale_lr.policy=scale
finds missing-path warning 0 --set data.train.img_prefix=data/nothing
finds override-no-change warning 0 --set optimizer.lr=0.02
check 2 nothing.yaml
has "$said" '[load]'

# A key that only the schema knows here, not this model, nor this optimizer.
finds unused-key warning 0 --set model.bbox_head.num_classes=2
finds unused-key warning 0 --set optimizer.type=AdamW
has "$said" 'never reads `optimizer.momentum`'
finds unused-key warning 0 --set lr_config.policy=cosine
# What a run would refuse.
finds optimizer error 2 --set optimizer.momentum=0 --set +optimizer.nesterov=true
finds schema error 2 --set optimizer.lr=.nan
finds schema error 2 --set optimizer.weight_decay=.inf
has "$said" '--set #1: error: `optimizer.weight_decay` is .inf; expected a number >= 0, finite'
finds schema error 2 --set optimizer_config.cumulative_iters=4611686018427387904
finds optimizer error 2 --set 'lr_config.step=[8, 8]'
finds optimizer error 2 --set lr_config.policy=cosine --set lr_config.min_lr=1

# What the model doesn't have, as a run would say it, before there is any data.
finds optimizer error 2 --set '+optimizer.paramwise_cfg.custom_keys={bakcbone: {lr_mult: 0.1}}'
has "$said" 'they begin with `backbone.body`'
finds param-groups warning 0 --set '+optimizer.paramwise_cfg.custom_keys={conv1: {lr_mult: 0.1}}' --set model.backbone.frozen_stages=4
finds model error 2 --set model.backbone.frozen_stages=5
finds run error 2 --set +evaluation.save_best=bbox_map
finds data error 2 --set data.train.multiscale_mode=range
finds unused-key warning 0 --set '+reset=[roi_heads.*]'
python3 - <<'P'
import json, struct
header = json.dumps({"backbone.body.conv1.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
open("other.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
P
finds weights error 2 --set load_from=other.safetensors
has "$said" 'backbone.body.conv1.weight has shape [1]'
finds weights error 2 --set load_from=other.safetensors --set '+reset=[roi_head]'
finds missing-path warning 0 --set load_from=nothing.pth
"$exp" run good.yaml --dry-run --store dry --set model.backbone.frozen_stages=5 2>dry.txt && fail "a dry run checks nothing"
has "$(cat dry.txt)" '-1 to 4'
[ ! -e dry ] || fail "a dry run makes a store"

# A classifier's folders.
mkdir -p cells/{train,val}/{red,white}
for folder in cells/*/*; do cp "$source_dir/tests/e2e/check.sh" "$folder/a.jpg"; done
cat > cells.yaml <<Y
_base_: $source_dir/configs/resnet50_imagenet.yaml
data_root: cells
model: {head: {num_classes: 2}}
Y
check 0 cells.yaml
hasnt "$said" '[classes]'
check 2 cells.yaml --set model.head.num_classes=5
has "$said" 'red, white'
check 2 cells.yaml --set evaluation.metric=bbox
has "$said" '[metric-model]'
mkdir -p cells/val/platelet && cp cells/val/red/a.jpg cells/val/platelet/
check 2 cells.yaml
has "$said" 'training never sees: platelet'

# A name that disagrees with the config, and its silence.
sed '$ a auto_scale_lr: {base_batch_size: 64}' good.yaml > net_8xb2.yaml
check 0 net_8xb2.yaml
has "$said" '[name-batch]'
has "$said" 'net_8xb2.yaml:8:'
sed '$ a auto_scale_lr: {base_batch_size: 64}  # exp: ignore[name-batch, lr-batch]' good.yaml > net_8xb2.yaml
check 0 net_8xb2.yaml
hasnt "$said" '[name-batch]'

# --json: one list, stable keys.
"$exp" check good.yaml net_8xb2.yaml --set evaluation.metric=segm --json > out.json && fail "an error ended with 0"
python3 - out.json <<'P'
import json, sys
found = json.load(open(sys.argv[1]))
assert {f['file'] for f in found} == {'good.yaml', 'net_8xb2.yaml'}, found
for f in found:
    assert list(f) == ['file', 'rule', 'level', 'path', 'where', 'message', 'next'], f
    assert f['level'] in ('error', 'warning', 'info'), f
assert any(f['rule'] == 'metric-model' and f['path'] == 'evaluation.metric' and f['where'] == '--set #1' for f in found), found
P

# Another project's config: only what holds for any.
printf "_base_ = []\nauto_scale_lr = dict(base_batch_size=16)\noptim_wrapper = dict(optimizer=dict(type='SGD', lr=0.004))\ntrain_dataloader = dict(batch_size=32)\n" > rtmdet_l_8xb32-300e_coco.py
check 0 rtmdet_l_8xb32-300e_coco.py
has "$said" '8x32 = 256 images a step, but base_batch_size is 16'
hasnt "$said" '[schema]'
check 0 "$source_dir"/configs/*.yaml
hasnt "$said" 'error: '
has "$("$exp" check --help)" "Example:"
echo "check: all as expected"
