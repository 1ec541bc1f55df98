#!/usr/bin/env bash
# A trained model's use with odd arguments: what `exp predict`, `exp eval` and `exp weights convert` are given may be a pattern, a folder,
# the place of their own input, no place at all; images may be broken. Nothing is lost, and everything has a place in the message.
source "$(dirname "$0")/helpers.sh" "$@"
tiny_detector detector.yaml
"$exp" run detector.yaml --device cpu --name one --set runner.max_epochs=1 --set data.train.times=1 --set 'lr_config={policy: fixed}' \
  --set '+ema.momentum=0.5' --work-dir work >/dev/null
checkpoint=work/epoch_1.safetensors
images=data/shapes/images
predict=("$exp" predict one --device cpu)

# Where results go.
cp -r "$images" own
before=$(cat own/* | cksum)
refused 2 "would overwrite what it reads" "${predict[@]}" own --out own
ln -s own behind
refused 2 "would overwrite what it reads" "${predict[@]}" own --out behind
[ "$(cat own/* | cksum)" = "$before" ] || fail "predict wrote over the images that it was given"
[ ! -e own/results.json ] || fail "results beside the images"
echo >file
refused 2 "--out: an empty text is no value" "${predict[@]}" "$images/val_000001.jpg" --out ''
# Nor is an empty text a run, of which it would be the beginning: there is one run here.
for command in show log rm export reproduce resume eval audit; do
  refused 2 "an empty text is no value" "$exp" "$command" ''
done
expect 0 "one" "$exp" ls
for out in file file/below; do
  refused 2 "name another one with --out" "${predict[@]}" "$images/val_000001.jpg" --out "$out"
done
for out in file file/below; do refused 2 "name another one with --out" "$exp" eval one --device cpu --no-record --out "$out"; done
mkdir there && echo old >there/results.json
expect 0 "wrote" "${predict[@]}" "$images/val_000001.jpg" --out there  # a folder with results is used again
hasnt "$(cat there/results.json)" "old"
refused 2 "no file's name fits this pattern" "${predict[@]}" "$images/*.tiff" --out out
refused 2 "--min-score" "${predict[@]}" "$images/val_000001.jpg" --out out --min-score nan
refused 2 "--min-score" "$exp" eval one --device cpu --no-record --min-score inf
refused 2 "from 0 to 1" "$exp" eval one --device cpu --no-record --min-score 2
# Data whose classes are others than the model's, or in another order: scored, each box would be taken for another class.
other() { python3 -c "import json; f = json.load(open('data/shapes/instances_val.json')); c = f['categories']; $1; json.dump(f, open('other.json', 'w'))"; }
scored=("$exp" eval one --device cpu --no-record --json --set data.val.ann_file=other.json)
other 'c.reverse()'
refused 2 "the model has the classes circle, square, triangle, the data have triangle, square, circle" "${scored[@]}"
has "$(cat out)" "other.json"
has "$(cat out)" "next: name them in the model's order in data.val.classes"
"${scored[@]}" --set '+data.val.classes=[circle, square, triangle]' >in-order.json
"$exp" eval one --device cpu --no-record --json >whole.json
python3 -c "import json; a, b = (json.load(open(f))['metrics'] for f in ('in-order.json', 'whole.json')); assert a == b, (a, b)"
other 'c.append({"id": 9, "name": "star"})'
refused 2 "the data have circle, square, triangle, star" "${scored[@]}"
other 'f["images"], f["annotations"] = [], []'
refused 2 "no image is left to load: the file lists none" "${scored[@]}"

# Images by pattern, in folders of the same names, twice, with names of any kind; and no name at all.
refused 2 "images: an empty text is no value" "${predict[@]}" '' --out out
expect 0 "val_000002.jpg" "${predict[@]}" 'data/*/images/val_00000[12].jpg' --out pattern
[ "$(find pattern -name 'val_*.jpg' | wc -l)" = 2 ] || fail "a pattern of two files: $(ls pattern)"
mkdir -p one two 'sp ace'
cp -r "$images" '[old,new]'  # no list of two
expect 0 "val_000001.jpg" "${predict[@]}" '[old,new]' --out bracketed
cp "$images/val_000001.jpg" one/i.jpg && cp "$images/val_000002.jpg" two/i.jpg
cp "$images/val_000001.jpg" 'sp ace/bild ü [1]*.jpg'
expect 0 "i_2.jpg" "${predict[@]}" one two one/i.jpg ./one/../one/i.jpg --out both
[ "$(grep -c file_name both/images.json)" = 2 ] || fail "an image that is named twice counts twice: $(cat both/images.json)"
expect 0 "bild ü [1]*.jpg" "${predict[@]}" 'sp ace/bild ü [1]*.jpg' --out 'sp ace/out'
[ -s 'sp ace/out/bild ü [1]*.jpg' ] || fail "not drawn: $(ls 'sp ace/out')"

# A folder's images of other formats are told.
mkdir mixed && cp "$images/val_000001.jpg" mixed/ && cp "$source_dir/tests/data/fixtures/plain.gif" mixed/b.gif && echo >mixed/notes.txt
expect 0 "mixed: 1 images of other formats are passed over: b.gif" "${predict[@]}" mixed --out of-mixed
python3 - <<'P'
import json
ids = [r["image_id"] for r in json.load(open("of-mixed/results.json"))]
assert ids and set(ids) == {1}, ids
P
# Each image is drawn with its own boxes, whatever order the model saw the images in.
python3 - <<'P'
import struct, zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, w, h):
    rows = b"".join(b"\0" + bytes((x * 7 + y * 3 + c * 50) % 256 for x in range(w) for c in range(3)) for y in range(h))
    head = struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)
    open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
png("tall.png", 40, 90)
png("wide2.png", 90, 40)
P
for order in "wide2.png tall.png" "tall.png wide2.png"; do
  expect 0 "tall.jpg" "${predict[@]}" $order --out "drawn ${order%% *}" --min-score 0
done
for name in tall wide2; do
  cmp "drawn wide2.png/$name.jpg" "drawn tall.png/$name.jpg" || fail "$name is drawn otherwise behind another image"
done

# What is neither a run nor a file of weights.
for command in eval predict; do
  odd() { if [ "$command" = predict ]; then "$exp" predict "$1" "$images" --out odd --device cpu; else "$exp" eval "$1" --device cpu; fi; }
  refused 2 "there is no such file" odd nowhere.safetensors
  refused 2 "there is no such file" odd nowhere/at/all
  refused 2 "its newest checkpoint is work/epoch_1.safetensors" odd work
  refused 2 "is not a regular file" odd /dev/null
  refused 2 "is no file of weights" odd "$images/val_000001.jpg"
  refused 2 "no run is called" odd nobody
done
refused 2 "is no file of weights" "$exp" weights show "$images/val_000001.jpg"
refused 2 "is written as safetensors, not as \`.pth\`" "$exp" weights convert "$checkpoint" other.pth

# Larger than any JPEG: in the results, not drawn.
python3 - <<'P'
import struct, zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head = struct.pack(">IIBBBBB", 66000, 2, 8, 0, 0, 0, 0)
open("wide.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 66001 * 2)) + chunk(b"IEND", b""))
P
expect 0 "not drawn: a JPEG has at most 65500" "${predict[@]}" wide.png "$images/val_000001.jpg" --out wide
[ -s wide/val_000001.jpg ] && [ ! -e wide/wide.jpg ] || fail "drawn: $(ls wide)"

# An image of the validation that can't be used is said, and no other is scored twice in its place.
cp "$images/val_000002.jpg" kept.jpg
echo broken >"$images/val_000002.jpg"
refused 2 "val_000002.jpg" "$exp" eval one --device cpu --no-record
expect 0 "val_000002.jpg: not an image of a known format; it is left out" "$exp" eval one --device cpu --no-record --set +data.val.on_error=skip --out scored
python3 - <<'P'
import json
rows = [json.dumps(r, sort_keys=True) for r in json.load(open("scored/detections.json"))]
assert rows and len(set(rows)) == len(rows), "a detection is there twice"
assert all(set(json.loads(r)) >= {"image_id", "category_id", "bbox", "score"} for r in rows)
P
mv kept.jpg "$images/val_000002.jpg"

# Weights: what isn't there, has no place, or no room.
# A complex tensor beside the weights is passed over; one of the weights, made an 8-bit float, is named.
python3 - "$checkpoint" <<'END'
import json, struct, sys
content = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", content[:8])[0]
header, data = json.loads(content[8:8 + size]), content[8 + size:]
def write(name, header, data):
    text = json.dumps(header).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data)
header["__metadata__"].pop("exp.content")
write("complex.safetensors", header | {"other": {"dtype": "C64", "shape": [1], "data_offsets": [len(data), len(data) + 8]}}, data + bytes(8))
tensor = header["rpn.head.conv.0.0.bias"]
tensor.update(dtype="F8_E4M3", shape=[4 * tensor["shape"][0]])
write("eight.safetensors", header, data)
END
expect 0 'is of kinds that aren'"'"'t read: `other` (has dtype C64)' "$exp" predict complex.safetensors "$images/val_000001.jpg" --out complex --device cpu
expect 0 "not read: other  has dtype C64" "$exp" weights show complex.safetensors
refused 2 'eight.safetensors: tensor `rpn.head.conv.0.0.bias`: has dtype F8_E4M3' "$exp" predict eight.safetensors "$images/val_000001.jpg" --out eight --device cpu

convert=("$exp" weights convert)
refused 2 "out: an empty text is no value" "${convert[@]}" "$checkpoint" ''
refused 2 "is a folder" "${convert[@]}" "$checkpoint" there
refused 2 "its folder doesn't exist" "${convert[@]}" "$checkpoint" nowhere/out.safetensors
expect 0 "tensors" "${convert[@]}" "$checkpoint" ema.safetensors --ema
refused 2 "holds no averaged weights" "${convert[@]}" ema.safetensors twice.safetensors --ema
refused 2 "timm has no detectors" "${convert[@]}" "$checkpoint" timm.safetensors --to timm
expect 0 "tensors are left out, which have no place in torchvision names: roi_heads.box_head.fc6.bias" \
  "${convert[@]}" "$checkpoint" wrong.safetensors --from mmdetection
expect 0 "130 tensors" "${convert[@]}" "$checkpoint" right.safetensors
hasnt "$(cat out)" "left out"
cp right.safetensors same.safetensors
expect 0 "130 tensors" "${convert[@]}" same.safetensors same.safetensors  # in its own place
cmp right.safetensors same.safetensors || fail "a file converted into itself differs"
expect 0 "tensors" "${convert[@]}" "$checkpoint" backbone.safetensors --backbone
"$exp" weights show backbone.safetensors >out
! grep 'rpn\|optimizer\|ema\.' out || fail "more than the backbone: $(cat out)"
python3 - <<'P'
import json, struct
header = json.dumps({"conv1.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
open("large.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<ff", 1, 70000))
P
refused 2 "has the value 70000, beyond F16" "${convert[@]}" large.safetensors small.safetensors --dtype fp16
[ ! -e small.safetensors ] || fail "written all the same"
expect 0 "1 tensors" "${convert[@]}" large.safetensors small.safetensors --dtype bf16
# Images that training leaves out: all named in the record, on the terminal only as many as fit.
python3 - <<'P'
import json
data = json.load(open("data/shapes/instances_train.json"))
next_id = max(i["id"] for i in data["images"])
for n in range(40):
    data["images"].append({"id": next_id + 1 + n, "file_name": f"without_a_box_{n:02}.jpg", "width": 96, "height": 96})
json.dump(data, open("data/shapes/many_empty.json", "w"))
P
for n in $(seq -w 0 39); do cp "$images/train_000001.jpg" "$images/without_a_box_$n.jpg"; done
expect 0 "40 of 52 images are left out, without a box to train on, as filter_empty_gt asks: without_a_box_00.jpg, " \
  "$exp" run detector.yaml --device cpu --name empties --set data.train.ann_file=data/shapes/many_empty.json --set runner.max_epochs=1 \
  --set data.train.times=1 --set 'lr_config={policy: fixed}' --work-dir empties
has "$(cat out)" '... (`exp show --json` has all of it)'
hasnt "$(cat out)" "without_a_box_39.jpg"
has "$("$exp" show empties --json)" "without_a_box_39.jpg"
echo "use: all as expected"
