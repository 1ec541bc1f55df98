#!/usr/bin/env bash
# What takes long shows how far it is, on a terminal as a live line, and Ctrl-C ends it: while images are hashed, before a run
# is recorded; while a validation set is gone through.
source "$(dirname "$0")/helpers.sh" "$@"
tiny_detector tiny.yaml

cat >in_terminal.py <<'END'
"""in_terminal.py TEXT COMMAND...: runs it on a terminal and a CPU of its own, its output goes to stdout; types Ctrl-C when TEXT
was shown, if it isn't empty. Exits as the command does."""
import os, pty, sys, time
until, command = sys.argv[1].encode(), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    os.execv(command[0], command)
seen, deadline = b"", time.time() + 120
while time.time() < deadline:
    try:
        some = os.read(terminal, 65536)
    except OSError:  # the other side is closed
        some = b""
    if not some:
        break
    seen += some
    if until and until in seen:
        os.write(terminal, b"\x03")
        until = b""
sys.stdout.buffer.write(seen.replace(b"\r", b"\n"))
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END

# 60 GB of holes: no disk has to hold them, and no CPU hashes them within the second in which nothing is shown.
python3 - <<'END'
import json, os
data = json.load(open("data/shapes/instances_train.json"))
os.mkdir("holes")
data["images"] = [{"id": i, "file_name": f"{i}.jpg", "width": 96, "height": 96} for i in range(3000)]
for image in data["images"]:
    with open("holes/" + image["file_name"], "wb") as f:
        f.truncate(20_000_000)
category = data["categories"][0]["id"]
data["annotations"] = [{"id": i, "image_id": i, "category_id": category, "bbox": [5, 5, 30, 30], "area": 900, "iscrowd": 0}
                       for i in range(3000)]
json.dump(data, open("holes.json", "w"))
END
sleep 2.1  # of what was written a moment before no hash is kept
run=("$exp" run tiny.yaml --device cpu)
expect 130 "hashing data.train [" python3 in_terminal.py "hashing data.train [" \
  "${run[@]}" --work-dir holes_run --set data.train.ann_file=holes.json --set data.train.img_prefix=holes
has "$(cat out)" " of 3000 images  "
has "$(cat out)" "stopping: no run has begun; once more to quit at once"
has "$(cat out)" "holes: stopped while images were hashed: "
[ ! -e holes_run ] || fail "a folder of no run: $(find holes_run)"
has "$("$exp" ls)" "no runs"
# What was hashed is known the next time.
hashed=$(sed -n 's/.*were hashed: \([0-9]*\) of 3000.*/\1/p' out)
[ "$(wc -l <.exp/image-hashes)" = $((hashed + 1)) ] || fail "$hashed hashes and a first line, not $(wc -l <.exp/image-hashes)"
rm -r holes

expect 0 "epoch 1/2 [" python3 in_terminal.py "" "${run[@]}" --name watched --set data.samples_per_gpu=1
has "$(cat out)" "getting ready: steps (kernels, plans, memory)"
has "$(cat out)" "epoch 1/2 evaluating ["
has "$(cat out)" "] 2/4  "  # images
expect 0 "epoch 2/2 " "${run[@]}" --name unwatched
hasnt "$(cat out)" "evaluating"
echo "long work shows how far it is, and can be ended"
