#!/usr/bin/env bash
# What programs do with the file of their numbers other than append to it, and lines as only some write them.
source "$(dirname "$0")/helpers.sh" "$@"
echo 'a: 1' >c.yaml
# trains NAME PYTHON: `line(STEP, LOSS)` is a line, `seen()` waits until the recorder has read what is there.
trains() {
  printf '%s\n' 'import json, os, time' 'path = os.environ["EXP_METRICS"]' \
    'line = lambda step, loss: json.dumps({"step": step, "loss": loss}) + "\n"' \
    'seen = lambda: time.sleep(0.4)' "$2" >$1.py
  expect 0 finished "$exp" run c.yaml --name $1 -- python3 $1.py
}
curve() { "$exp" log "$1" --json | python3 -c 'import json, sys; print([(r["step"], r["values"]["loss"]) for r in map(json.loads, sys.stdin)])'; }
warned() { "$exp" show "$1" --json | python3 -c 'import json, sys; print([w["code"] + " " + w["message"].replace(w["message"].split(":", 1)[0] + ":" if w["code"] == "metrics.rewritten" else "", "", 1) for w in json.load(sys.stdin)["warnings"]])'; }
is() { [ "$1" = "$2" ] || fail "expected \`$2\`, not \`$1\`"; }

# Shorter than it was, and other lines: all that it ever held is recorded.
trains shorter '
open(path, "w").write("".join(line(i, 0.5) for i in range(9))); seen()
open(path, "w").write(line(20, 1.5)); seen()
open(path, "a").write(line(21, 2.5))'
is "$(curve shorter)" "[$(printf '(%d, 0.5), ' 0 1 2 3 4 5 6 7 8)(20, 1.5), (21, 2.5)]"
is "$(warned shorter)" "['metrics.rewritten 1: the file was written anew; from this line on it differs, and is taken, too']"

# Written whole after each epoch, slowly: the recorder sees it empty, and each line counts once.
trains whole '
for n in range(1, 5):
    with open(path, "w") as f:
        f.flush(); seen()
        f.write("".join(line(i, 0.5) for i in range(n))[:-7]); f.flush(); seen()
    with open(path, "w") as f:
        f.write("".join(line(i, 0.5) for i in range(n)))
    seen()'
is "$(curve whole)" "[(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)]"
is "$(warned whole)" "[]"

# Another file in its place, at once longer than the first; and one that goes on where the first ended.
trains replaced '
open(path, "w").write(line(0, 0.5)); seen()
open(path + "~", "w").write("".join(line(i, 1.5) for i in range(1, 4))); os.rename(path + "~", path); seen()
open(path + "~", "w").write(open(path).read() + line(4, 2.5)); os.rename(path + "~", path); seen()
os.remove(path); seen()
open(path, "w").write(line(1, 1.5) + line(9, 3.5))'
is "$(curve replaced)" "[(0, 0.5), (1, 1.5), (2, 1.5), (3, 1.5), (4, 2.5), (9, 3.5)]"
has "$(warned replaced)" "metrics.rewritten 1: "
has "$(warned replaced)" "metrics.rewritten 2: "

# Numbers that aren't in an object keep the name they have; an empty name is one.
trains bare '
open(path, "w").write("""{"epoch": 0, "step": 1, "metrics": 0.25, "losses": [1, 2]}
{"epoch": 1, "step": 2, "metrics": {"": 1, "b": 2}, "losses": {"": {"b": 3}}, "acc": 4}
{"epoch": 2, "step": 3, "metrics": null}
{"step": 3, "loss": {"": {"b": 5}, "b": 6}}
""")'
is "$("$exp" show bare --json | python3 -c '
import json, sys
print([(e["metrics"], e["losses"]) for e in json.load(sys.stdin)["epochs"]])')" \
  "[({'metrics': 0.25}, {'losses': [1, 2]}), ({'': 1, 'acc': 4, 'b': 2}, {'/b': 3}), ({}, {})]"
is "$("$exp" log bare --json)" '{"attempt":1,"step":3,"values":{"loss//b":5,"loss/b":6}}'

# A checkpoint that is none is told, and not waited for.
trains pipe '
work = os.environ["EXP_WORK_DIR"]
os.mkfifo(work + "/pipe.pth"); os.mkdir(work + "/folder.pth")
open(path, "w").write("".join(json.dumps({"epoch": i, "metrics": {"a": i}, "checkpoint": c}) + "\n"
                              for i, c in enumerate(["pipe.pth", "folder.pth", "/dev/zero", "none.pth"])))'
for file in pipe.pth folder.pth /dev/zero; do has "$(warned pipe)" "$file: is no regular file"; done
has "$(warned pipe)" "none.pth: "
is "$("$exp" show pipe --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(len(r["epochs"]), r["checkpoints"])')" "4 []"
echo "numbers are recorded once, however their file is written"
