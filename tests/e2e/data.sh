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

# A folder of class folders, files of other programs, and sets of which nothing is left.
expect 0 'cut ' "$exp" data crops two/instances_train.json --images two/images --out cells/train
for folder in cells/train cells/train/; do
  expect 0 "train ($folder)" "$exp" data check $folder
  has "$(cat out)" "images in 3 classes"
done
expect 2 'there is no class folder' "$exp" data check two/images
cat >cells.yaml <<'END'
model: {type: ImageClassifier, backbone: {type: ResNet, depth: 18}, head: {num_classes: 3}}
data: {train: {type: CocoDataset, ann_file: two/instances_train.json, img_prefix: two/images}}
optimizer: {type: SGD, lr: 0.1}
runner: {max_epochs: 1}
END
expect 2 'next: write `type: ImageFolder`; `ann_file` stays' "$exp" check cells.yaml
tiny_detector tiny.yaml
expect 2 'is of a classifier, and this model is a detector' "$exp" check tiny.yaml --set +data.train.type=ImageFolder
expect 2 "Pascal VOC's XML" "$exp" data check a.xml
"$exp" config tiny.yaml --format json >tiny.json
expect 0 "12 images" "$exp" data check tiny.json
expect 2 'nothing knows the key `data.train.clases`' "$exp" data check tiny.yaml --set +data.train.clases=[circle]
expect 2 'unpack it first' "$exp" data check a.json.gz
echo '{"version": "5", "shapes": [], "imagePath": "a.jpg"}' >labelme.json
expect 2 'this is a file of LabelMe' "$exp" data check labelme.json
echo '[{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]' >results.json
expect 2 'results.json:1:1: not a COCO annotation file: it is a list' "$exp" data check results.json
sed 's/"bbox":/"box":/g' two/instances_train.json >boxless.json
expect 2 '[box.none]' "$exp" data check boxless.json --images two/images
expect 2 'no box could be cut' "$exp" data crops boxless.json --images two/images --out none
expect 2 'next: make its folder' "$exp" data check cells/train --html nowhere/page.html

# Only images that training reads must be there; recorded are all that the file names, in the words of the data module.
"$exp" data crops two/instances_train.json --images two/images --out named >/dev/null
(cd named && find . -name '*.jpg' | sed -E 's|^./(.*)/(.*)|\1/\2 the \1|; s/the circle$/the round  one/') >list.txt
printf 'the round  one\nthe square\nthe triangle\n' >names.txt
cat >named.yaml <<'END'
model: {type: ImageClassifier, backbone: {type: ResNet, depth: 18, base_channels: 8}, head: {num_classes: 3}}
data: {samples_per_gpu: 8, train: {type: ImageFolder, img_prefix: named, ann_file: list.txt, classes: names.txt, crop_size: 32, resize: 40}}
optimizer: {type: SGD, lr: 0.001}
runner: {max_epochs: 1}
END
expect 0 'finished' "$exp" run named.yaml --device cpu --name named
"$exp" show named --json >named.json
python3 -c "
import json; d = json.load(open('named.json'))['datasets'][0]; n = len(open('list.txt').readlines())
assert d['images'] == n and d['missing'] == 0, d"
python3 - <<'END'
import json
f = json.load(open("data/shapes/instances_train.json"))
f["images"].append({"id": 999, "file_name": "gone.jpg", "width": 96, "height": 96})
json.dump({"info": {"mean": float("nan")}} | f, open("more.json", "w"))
END
few=("$exp" run tiny.yaml --device cpu --set runner.max_epochs=1 --set data.train.times=1 --set 'lr_config={policy: fixed}')
expect 2 'gone.jpg: No such file' "${few[@]}" --set data.train.ann_file=more.json
expect 0 'finished' "${few[@]}" --set data.train.ann_file=more.json --set +data.train.limit=4 --name limited
python3 -c "
import json, sys; d = json.load(sys.stdin)['datasets'][0]
assert d['images'] == 13 and d['missing'] == 1, d" <<<"$("$exp" show limited --json)"

# What the network sees of odd sets: what is left out is told on the terminal and on the page, why nothing is left, and what
# nobody knows is an error as in a run.
expect 2 'next: make its folder' "$exp" data preview config.yaml --out nowhere/page.html
expect 2 'did you mean `mosaic`?' "$exp" data preview config.yaml --out page.html --set 'data.train.augment={mosiac: {}}'
preview() { "$exp" data preview config.yaml --out preview.html --set data.train.img_prefix=two/images --set data.train.ann_file=odd.json "$@"; }
# odd CODE: the set `two` changed by Python code on its images, annotations and the whole file.
odd() {
  python3 -c "
import json
f = json.load(open('two/instances_train.json')); images, boxes = f['images'], f['annotations']
$1
json.dump(f, open('odd.json', 'w'))"
}
odd 'boxes[0]["bbox"][2] = 0; boxes[1]["bbox"][0] = -500'
expect 0 'wrote 6 images of data.train' preview --images 50
[ "$(grep -c '^warning: odd.json.*left out' out)" = 2 ] && [ "$(grep -c 'class="warning">odd.json.*left out' preview.html)" = 2 ] || fail "what is left out: $(cat out)"
odd 'for b in boxes: b["iscrowd"] = 1'
expect 2 'boxes are crowds, which are never trained on' preview
odd 'images.clear(); boxes.clear()'
expect 2 'next: check `ann_file`: its `images` are empty' preview
odd 'for b in boxes: b["bbox"][2] = 0'
expect 2 'records are left out, the first at odd.json:1:' preview
odd 'del images[1:]; n = images[0]["id"]; f["annotations"] = [b for b in boxes if b["image_id"] == n]'
for augment in '{mosaic: {}}' '{mixup: {probability: 1}}' '{mosaic: {}, mixup: {probability: 1}, expand: {probability: 1}, min_iou_crop: {}, random_crop: {}}'; do
  expect 0 'wrote 1 images' preview --set "data.train.augment=$augment"
  [ "$(grep -o '<figure>' preview.html | wc -l)" = 1 ] && grep -q '<rect' preview.html || fail "$augment of one image"
done
odd 'n = images[0]["id"]; f["annotations"] = [b for b in boxes if b["image_id"] == n]'
expect 0 'wrote 1 images' preview --images 9
expect 0 'wrote 6 images' preview --images 9 --set +data.train.filter_empty_gt=false
head -c 700 two/images/train_000003.jpg >cut && mv cut two/images/train_000003.jpg
odd ''
expect 2 "train_000003.jpg: can't be decoded as a JPEG: the file is truncated" preview
expect 0 'warning: two/images/train_000003.jpg: can' preview --set +data.train.on_error=skip
sed "s/type: CocoDataset, ann_file: two.instances_train.json, img_prefix: two.images/type: ImageFolder, img_prefix: cells\/train, crop_size: 32, resize: 40/" cells.yaml >folder.yaml
expect 0 'of data.train into preview.html' "$exp" data preview folder.yaml --out preview.html --images 1000
[ "$(grep -o '<figure>' preview.html | wc -l)" = "$(find cells/train -name '*.jpg' | wc -l)" ] || fail "not each image of the folder"
echo ok
