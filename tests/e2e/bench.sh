#!/usr/bin/env bash
# exp bench: a matrix, files, the store, comparisons, a peer that isn't there, mistakes.
source "$(dirname "$0")/helpers.sh" "$@"

cat >tiny.yaml <<'END'
models: [resnet18]
batches: [1, 2]
devices: [cpu]
fusion: [true, false]
seconds_a_repeat: 0.02
settle_seconds: 0.02
repeats: 3
warmup: 1
loader: {workers: [1, 2], batches: [4], count: 8, size: 32}
end_to_end: {models: [resnet18], batches: [4], workers: [2], count: 8, size: 32, epochs: 2, images_an_epoch: 8}
END
small=(--height 32 --width 32 --threads 1)
out=$("$exp" bench tiny.yaml "${small[@]}" --label one --markdown t.md --csv t.csv --html t.html) || fail "bench: $out"
for text in "img/s" "fused" "plain" "loader" "from JPEGs" "first epoch" "stored as"; do has "$out" "$text"; done
[ "$(wc -l <t.csv)" = 8 ] || fail "rows of the CSV: $(cat t.csv)"
has "$(cat t.md)" "| exp | resnet18 | 2 |"
has "$(cat t.html)" "class=\"bar"
"$exp" bench --show one --json >one.json
fits bench one.json
"$exp" bench tiny.yaml "${small[@]}" --label two --set batches=[1] --set fusion=true --set ~loader --set ~end_to_end --json >two.json
python3 - <<'END'
import json
r = json.load(open("two.json"))
assert r["label"] == "two" and len(r["rows"]) == 1, r
row = r["rows"][0]
assert row["status"] == "ok" and row["images_per_second"] > 0 and row["tflop_per_second"] > 0, row
assert r["matrix"]["batches"] == [1] and r["environment"]["os"]["glibc"]
END

fits bench two.json
sed 's/"status": "ok"/"status": "good"/' two.json >wrong.json
! (fits bench wrong.json) 2>/dev/null || fail "a status that there isn't fits the schema"

# Options stand above the file, in its parts, too; a peer that isn't known is refused before anything is measured.
printf 'devices: [cuda]\nseconds_a_repeat: 900\nsettle_seconds: 900\nparts:\n- {models: [resnet50], batches: [4, 8]}\n- {models: [resnet34], batches: [8]}\n' >parts.yaml
"$exp" bench parts.yaml "${small[@]}" --model resnet18 --batch 1 --device cpu --seconds 0.02 --settle 0.02 --repeats 2 --no-store --json >parts.json
python3 -c '
import json
rows = json.load(open("parts.json"))["rows"]
assert [(r["model"], r["batch"], r["device_asked"], r["repeats"]) for r in rows] == [("resnet18", 1, "cpu", 2)], rows'
"$exp" bench tiny.yaml "${small[@]}" --against caffe --no-store >out 2>&1 && fail "caffe is known"
hasnt "$(cat out)" "img/s"

# What was measured can be seen and compared later.
out=$("$exp" bench --history); has "$out" "one"; has "$out" "two"
out=$("$exp" bench --history --model resnet18); has "$out" "IMG/S"
out=$("$exp" bench --compare one two); has "$out" "ratio"; has "$out" "geometric mean"
out=$("$exp" bench --compare @~1 @ --json --csv c.csv --html c.html --markdown c.md); has "$out" '"mean_ratio"'
# Also calls of stores that are apart, as files.
"$exp" bench --show one --json >here.json; "$exp" bench --show two --json >there.json
mkdir elsewhere
same() { (cd "$1" && "$exp" bench --compare "$2" "$3" --json) | python3 -c 'import json, sys; print(json.load(sys.stdin)["mean_ratio"])'; }
[ "$(same elsewhere ../here.json ../there.json)" = "$(same . one two)" ] || fail "files of --json compare otherwise than their calls"
[ "$(same . here.json two)" = "$(same . one two)" ] || fail "a file beside a call"
has "$("$exp" bench --show ./here.json)" "(one)"
refused 2 "it is no call" "$exp" bench --compare ./tiny.yaml here.json
refused 2 "there is no such file" "$exp" bench --compare nowhere.json here.json
refused 2 "names no call" "$exp" bench --continue ./here.json
has "$(cat c.md)" "| ratio |"; has "$(head -1 c.csv)" ",ratio"; has "$(cat c.html)" 'class="bar second"'
out=$("$exp" bench --show one --csv again.csv); has "$out" "best of cpu fp32"
cmp t.csv again.csv || fail "the stored rows differ from the measured ones"
has "$("$exp" query 'SELECT count(*) AS n FROM bench_row')" "8"

# What was measured before an interruption stays, and says on what.
for signal in INT KILL; do
  begin out "$exp" bench tiny.yaml "${small[@]}" --set "batches=[1,2,3,4,5,6,7,8]" --label $signal
  await "^resnet18  *2 " out
  kill -$signal $pid; got=0; wait $pid || got=$?
  [ $got = $([ $signal = INT ] && echo 130 || echo 137) ] || fail "exit $got"
  has "$("$exp" query "SELECT count(*)>=2 AND count(*)<19 AS n, b.device FROM bench_row r JOIN bench b ON b.id=r.bench WHERE b.label='$signal'")" "1  cpu"
  has "$("$exp" bench --show $signal)" "resnet18"
  [ $signal = KILL ] || has "$(cat out)" "\`exp bench --continue"
done

# It is continued: what is missing is measured, what is there stays; what failed is measured again, in its place.
"$exp" bench --show INT --json >before.json
expect 0 "continues" "$exp" bench --continue INT --csv whole.csv
[ "$(wc -l <whole.csv)" = 20 ] || fail "rows of the CSV: $(cat whole.csv)"
# The CSV tells when and where each row was measured, those that were taken over, too.
"$exp" bench --compare one INT --csv pairs.csv --json >pairs.json
"$exp" bench --history --csv all.csv --markdown all.md --html all.html --json >all.json
"$exp" bench --history --model resnet18 >history.txt
python3 - <<'END'
import csv, json
rows, call = list(csv.DictReader(open("whole.csv"))), json.load(open("before.json"))
times = [r["measured_at"] for r in rows]
assert times == sorted(times) and all(len(t) == 20 and t[10] == "T" and t[19] == "Z" for t in times), times
assert {(r["call"], r["label"], r["machine"]) for r in rows} == {(call["name"], "INT", call["machine"])}, rows[0]
build = "exp's build: " + call["environment"]["program"]["build_id"][:12]
assert all(build in r["environment"] for r in rows), rows[0]
pairs = [p for p in csv.DictReader(open("pairs.csv")) if p["one"] and p["INT"]]
assert pairs and all(p["a_machine"] == p["b_machine"] == call["machine"] and p["a_measured_at"] < p["b_measured_at"] for p in pairs), pairs
assert [d["b"] for d in json.load(open("pairs.json"))["differences"] if d["name"] == "call"] == [call["name"] + " (INT)"]
everything = list(csv.DictReader(open("all.csv")))
assert {r["label"] for r in everything} == {"one", "two", "INT", "KILL"}
assert len(everything) == sum(len(c["rows"]) for c in json.load(open("all.json")))
assert "| ratio |" in open("all.md").read() and 'class="bar first"' in open("all.html").read()
assert "RATIO" in open("history.txt").read() and "1.000" in open("history.txt").read()
END
"$exp" bench --show INT --json >after.json
fits bench after.json
python3 -c '
import json
before, after = (json.load(open(f + ".json")) for f in ("before", "after"))
n = len(before["rows"])
assert 2 <= n < 19 and after["rows"][:n] == before["rows"], before
assert len({json.dumps([r[k] for k in ("kind", "batch", "fusion", "workers") if k in r]) for r in after["rows"]}) == len(after["rows"]) == 19
assert {k: v for k, v in after.items() if k not in ("rows", "speeds")} == {k: v for k, v in before.items() if k not in ("rows", "speeds")}'
expect 0 "19 rows are there" "$exp" bench --continue INT --csv again.csv
cmp whole.csv again.csv || fail "a call with nothing missing changed"
expect 1 "is not there at all" "$exp" bench --continue INT --against torch --python "$PWD/is not there at all" --csv first.csv
expect 1 "is not there at all" "$exp" bench --continue INT --against torch --python "$PWD/is not there at all" --csv second.csv
# Rows of the peer that failed are tried anew, at another time.
untimed() { sed -E '/^torch/s/,[0-9-]+T[0-9:]+Z,/,,/' "$1"; }
cmp <(untimed first.csv) <(untimed second.csv) && [ "$(wc -l <first.csv)" = 28 ] || fail "rows of the peer: $(cat second.csv)"
refused 2 "own matrix" "$exp" bench tiny.yaml --continue INT
refused 2 "own matrix" "$exp" bench --continue INT --batch 4
refused 2 "names no call" "$exp" bench --continue nothing
for both in "--history --show INT" "--show INT --compare INT KILL" "--continue INT --history" "tiny.yaml --show INT" "--compare INT KILL --batch 4" \
  "--show INT --model resnet18" "--history --label new" "--show INT --against torch"; do
  refused 2 "exp bench --help" "$exp" bench $both
done
# Begun on another machine of the kind: rows are of the machine that measured them, also where they answer a second case.
"$exp" bench tiny.yaml "${small[@]}" --batch 1 --set fusion=true --set ~loader --set ~end_to_end --label moved >/dev/null
python3 - <<'END'
import json, sqlite3
db = sqlite3.connect(".exp/exp.db")
matrix = json.loads(db.execute("SELECT matrix FROM bench WHERE label='moved'").fetchone()[0])
matrix.update(precisions=["fp32", "tf32"], batches=[1, 2])
db.execute("UPDATE bench SET machine='elsewhere', matrix=? WHERE label='moved'", (json.dumps(matrix),))
db.commit()
END
expect 0 "on another machine" "$exp" bench --continue moved --csv moved.csv
"$exp" bench --show moved --json >moved.json
fits bench moved.json
python3 - <<'END'
import csv, json
rows, call = list(csv.DictReader(open("moved.csv"))), json.load(open("moved.json"))
here = json.load(open("one.json"))["machine"]
assert [(r["batch"], r["machine"]) for r in rows] == [("1", "elsewhere"), ("2", here), ("1", "elsewhere"), ("2", here)], rows
assert rows[0]["measured_at"] == rows[2]["measured_at"] and rows[0]["matrix_share"] == rows[2]["matrix_share"] != "", rows
assert sorted(call["speeds"]) == ["cpu fp32", "cpu fp32 on " + here], call["speeds"]
END
# Of another build it is refused.
python3 -c '
import json, sqlite3
build = json.load(open("after.json"))["environment"]["program"]["build_id"]
db = sqlite3.connect(".exp/exp.db")
assert db.execute("UPDATE document SET json=replace(json, ?, ?)", (build, "another")).rowcount > 0
db.commit()'
refused 2 "s build: another there" "$exp" bench --continue INT

# A measurement that takes an hour is interrupted within a step.
begin out "$exp" bench tiny.yaml "${small[@]}" --batch 2 --repeats 100 --seconds 36 --label hour
await "^model  *batch" out
sleep 1; kill -TERM $pid; got=0; SECONDS=0; wait $pid || got=$?
[ $got = 130 ] && [ $SECONDS -lt 20 ] || fail "exit $got after $SECONDS s"
has "$(cat out)" "the rows so far are kept"

# A disk that gets full in the middle: the rest is measured and shown.
if mkdir -p full && mount -t tmpfs -o size=600k none full 2>/dev/null; then
  expect 0 "img/s" "$exp" bench tiny.yaml "${small[@]}" --batch 1 --set ~loader --set ~end_to_end --store full/store --csv rest.csv
  head -c 600k /dev/zero >full/rest || true
  expect 0 "aren't stored" "$exp" bench tiny.yaml "${small[@]}" --store full/store --csv rest.csv
  umount full
  [ "$(wc -l <rest.csv)" = 8 ] || fail "rows of the CSV: $(cat rest.csv)"
fi

# A case that can't fit is a row with the largest batch that would, not a crash; larger ones aren't tried.
out=$("$exp" bench --model resnet18 --batch 60000,65000 --height 400 --width 400 --device cpu --no-store)
has "$out" " GiB are free; the plan of batch "
has "$out" "mem lim batch 60000 doesn't fit already"
"$exp" bench --model resnet18 --batch 60000 --height 400 --width 400 --device cpu --no-store --json >limit.json
fits bench limit.json

# One that takes too long is a row with the time of a step, larger ones aren't begun; the rest goes on.
expect 0 "a step takes" "$exp" bench --model resnet18 --batch 64,128,1 --height 96 --width 96 --device cpu --threads 1 --seconds 0.01 --repeats 100 \
  --settle 0.01 --seconds-a-case 2 --no-store --json
fits bench out
python3 -c '
import json
rows = json.load(open("out"))["rows"]
assert [r["status"] for r in rows][:2] == ["time lim"] * 2, rows
assert rows[0]["milliseconds"] > 20 and "the bound is 2 s a case" in rows[0]["reason"], rows
assert "batch 64 takes too long already" in rows[1]["reason"] and "milliseconds" not in rows[1], rows
assert 0 < rows[2]["milliseconds"] < rows[0]["milliseconds"], rows'
refused 2 "more than 5 seconds: 5 repeats of 1" "$exp" bench --set +seconds_a_case=5 --no-store
refused 2 "can't be taken; expected" "$exp" bench --seconds-a-case 0

# The search of the largest batch, where memory is short: to its end, and within the bound.
search=("$exp" bench --model resnet18 --batch 1 --height 64 --width 64 --device cpu --threads 1 --seconds 0.01 --repeats 1 --settle 0.01 --set +warmup=1 --largest --no-store)
(ulimit -v 700000 && "${search[@]}" --json) >out 2>&1 || fail "largest: $(cat out)"
fits bench out
python3 -c '
import json
small, largest = json.load(open("out"))["rows"]
assert largest["status"] == "ok" and largest["largest"] and 2 <= largest["batch"] < 300, largest
assert small["bytes"] < largest["bytes"] < 700000 * 1024, largest'
(ulimit -v 700000 && "${search[@]}" --seconds-a-case 0.1) >out 2>&1 || fail "largest: $(cat out)"
has "$(tail -3 out)" "max"
has "$(cat out)" "time lim"

# What the CPU doesn't have is computed in fp32: once.
"$exp" bench tiny.yaml "${small[@]}" --batch 1 --precision fp32,tf32,fp16 --set fusion=true --set ~loader --set ~end_to_end --no-store --json >once.json
python3 -c '
import json
rows = json.load(open("once.json"))["rows"]
assert [r["precision"] for r in rows] == ["fp32"] * 3 and len({r["milliseconds"] for r in rows}) == 1, rows
assert "tf32" in rows[1]["reason"] and "fp16" in rows[2]["reason"] and "measured once" in rows[2]["reason"], rows'
# A peer that isn't there is a row, and the exit code says so.
refused 1 "can't be started" "$exp" bench tiny.yaml "${small[@]}" --set ~loader --set ~end_to_end --set batches=[1] \
  --against torch --python /nonexistent/python --no-store
printf '#!/bin/sh\necho "{\\"missing\\": \\"ModuleNotFoundError: torch\\"}"\n' >python && chmod +x python
refused 1 "PyTorch isn't there" "$exp" bench tiny.yaml "${small[@]}" --against torch --only-peer --python ./python --no-store
# A peer that answers.
printf '#!/bin/sh\nwhile true; do echo "{\\"status\\":\\"ok\\",\\"images_per_second\\":50,\\"milliseconds\\":20,\\"repeats\\":3}"; done | head -2\n' >python
out=$("$exp" bench tiny.yaml "${small[@]}" --against torch --only-peer --python ./python --label peer)
has "$out" "torch resnet18"

# Mistakes.
refused 2 'is no key of a bench matrix' "$exp" bench tiny.yaml --set +modls=[resnet50]
refused 2 "resnet51" "$exp" bench --model resnet51
refused 2 "fp8" "$exp" bench --precision fp8
refused 2 "can't be taken; expected" "$exp" bench --threads -1
refused 2 "can't be taken; expected" "$exp" bench --height -1
refused 2 "can't be taken; expected" "$exp" bench --seconds 0
refused 2 "an empty text is no value" "$exp" bench --show ''
refused 2 "resnet51" "$exp" bench --history --model resnet51
refused 2 "no folder" "$exp" bench --history --csv nowhere/x.csv
# Before anything is measured.
mkdir -p empty
for wrong in "--html nowhere/x.html" "--csv empty" "--set +loader.images=empty" "--csv /proc/x" "--csv x --html ./x" "--set end_to_end.epochs=1" "--label @~1"; do
  refused 2 "error" "$exp" bench tiny.yaml "${small[@]}" $wrong --no-store
  hasnt "$(cat out)" "img/s"
done
refused 2 "no peer to measure alone" "$exp" bench tiny.yaml "${small[@]}" --only-peer --no-store
refused 2 "no peer" "$exp" bench tiny.yaml "${small[@]}" --against caffe --no-store
refused 2 "names no call" "$exp" bench --compare one nobody
# One damaged JPEG among many: the row says which.
"$exp" data shapes --out photos --images 8 --val 1 --size 64x64 >/dev/null
echo "no JPEG" >photos/images/damaged.jpg
expect 1 "photos/images/damaged.jpg: not an image" "$exp" bench tiny.yaml "${small[@]}" --batch 1 --set fusion=true --set ~end_to_end \
  --set +loader.images=photos/images --no-store

# No folder for drawn JPEGs costs the rows that want them, not the call.
expect 1 "no temporary folder can be made" env TMPDIR=/proc "$exp" bench tiny.yaml "${small[@]}" --batch 1 --set fusion=true --no-store --csv rest.csv
[ "$(grep -c ',fail,' rest.csv) $(grep -c '^exp,step,.*,ok,' rest.csv)" = "3 1" ] || fail "$(cat rest.csv)"

# A file that can't be written after all doesn't cost the others.
if [ -w /dev/full ]; then
  "$exp" bench --show one --csv fresh.csv >/dev/null
  refused 1 "No space left" "$exp" bench --show one --markdown /dev/full --csv left.csv
  cmp fresh.csv left.csv || fail "the CSV behind a Markdown that couldn't be written"
fi
refused 2 "no store" "$exp" bench --history --store nowhere
for matrix in "$configs"/bench/*.yaml; do
  refused 2 "nonsense" "$exp" bench "$matrix" --set models=[nonsense]
done
echo ok
