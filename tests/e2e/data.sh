#!/usr/bin/env bash
# exp data: shapes, check, preview, on good input and on bad.
source "$(dirname "$0")/helpers.sh" "$@"

expect 0 'drew 6 training and 3 validation images' "$exp" data shapes --out one --images 6 --val 3 --seed 1 --size 96x64
"$exp" data shapes --out two --images 6 --val 3 --seed 1 --size 96x64 >/dev/null
diff -r one two || fail 'the same seed drew other bytes'
expect 2 'is not a size' "$exp" data shapes --out three --size 96
expect 2 'out of range' "$exp" data shapes --out three --size 9x9

cat >config.yaml <<'YAML'
seed: 3
model: {roi_head: {bbox_head: {num_classes: 3}}}
data:
  samples_per_gpu: 2
  train: {ann_file: one/instances_train.json, img_prefix: one/images, img_scale: [96, 64], augment: {mosaic: {}}}
  val: {ann_file: one/instances_val.json, img_prefix: one/images, img_scale: [96, 64]}
YAML
expect 0 '0 errors, 0 warnings' "$exp" data check config.yaml --html page.html
grep -q '<figure>' page.html || fail 'no samples in the page'
expect 0 'wrote 4 images' "$exp" data preview config.yaml --out preview.html --images 4
[ "$(grep -o '<figure>' preview.html | wc -l)" -eq 4 ] || fail 'not four images in the preview'
expect 2 'the head has 7 classes' "$exp" data check config.yaml --set model.roi_head.bbox_head.num_classes=7

"$exp" data check one/instances_train.json --images one/images --json >check.json
grep -q '"images": 6' check.json || fail 'the JSON has no count'
head -c 700 one/images/train_000003.jpg >cut && mv cut one/images/train_000003.jpg
rm one/images/train_000004.jpg
cp one/images/train_000001.jpg one/images/val_000001.jpg
expect 2 'train_000003.jpg: can'"'"'t be decoded' "$exp" data check config.yaml
expect 2 'train_000004.jpg: No such file' "$exp" data check config.yaml --no-contents
expect 2 'val_000001.jpg of val is train_000001.jpg of train' "$exp" data check config.yaml
expect 0 'image.missing' "$exp" data check config.yaml --policy ignore
expect 2 'train_000004.jpg' "$exp" data preview config.yaml --out preview.html --images 6
echo '{"images": [,' >bad.json
expect 2 'bad.json:1:13: malformed JSON' "$exp" data check bad.json
expect 2 'none.json' "$exp" data check none.json
echo ok
