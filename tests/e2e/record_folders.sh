#!/usr/bin/env bash
# Folders of outputs that are folders of code, too: what was there stays as it was, and is in the record.
source "$(dirname "$0")/helpers.sh" "$@"
mkdir p && cd p
repo() { cd "$dir/p"; rm -rf -- * .[a-z]*; git init -q -b main .; printf 'a: 1\n' >c.yaml; echo one >tracked.py; git add -A; git commit -qm one; }
changed() { "$exp" show @ --code | python3 -c 'import json, sys; print(sorted(f["path"] for f in json.load(sys.stdin)["repositories"][0]["changed"]))'; }
is() { [ "$1" = "$2" ] || fail "expected \`$2\`, not \`$1\`"; }
run() { expect 0 finished "$exp" run "$@"; }

# A config.yaml and a metrics.jsonl that are there already are somebody's; each run gets its own.
repo
printf '# mine\na:   2\n' >config.yaml; echo precious >metrics.jsonl
for i in 1 2; do
  run config.yaml --work-dir . --name n$i -- sh -c 'cat "$EXP_CONFIG"; echo "{\"step\": 0, \"loss\": 1}" >>"$EXP_METRICS"'
  has "$(cat out)" "a: 2"
  has "$("$exp" log n$i)" "loss 1"
done
is "$(cat config.yaml metrics.jsonl)" $'# mine\na:   2\nprecious'
id=$("$exp" show n1 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')
[ -f "config-$id.yaml" ] && [ -f "metrics-$id.jsonl" ] || fail "$(ls)"

# Started in its work_dir, or below it: what differs from the commit is kept all the same, what runs wrote isn't.
is "$(changed)" "['config.yaml', 'out']"
repo; echo two >tracked.py; echo new >helper.py; mkdir sub
run c.yaml --work-dir . -- true; run c.yaml --work-dir . -- true
is "$(changed)" "['helper.py', 'out', 'tracked.py']"
"$exp" checkout @ "$dir/again" >/dev/null; cmp tracked.py "$dir/again/tracked.py"; cmp helper.py "$dir/again/helper.py"; rm -r "$dir/again"
cd sub; run ../c.yaml --work-dir .. -- true
has "$(changed)" "'helper.py'"; has "$(changed)" "'tracked.py'"
# Another config.yaml that the program reads there is the user's, whether git tracks it or not.
repo; echo 'lr: 1' >config.yaml; run c.yaml --work-dir . -- cat config.yaml
is "$(changed)" "['config.yaml', 'out']"
git add config.yaml; git commit -qm two; echo 'lr: 2' >config.yaml; chmod 600 config.yaml; run c.yaml --work-dir . -- cat config.yaml
is "$(changed)" "['config.yaml', 'out']"

# An experiment's folder, named as its work_dir from above: what git tracks there, and sources beside it, are code.
repo; mkdir e; echo one >e/train.py; echo 'b: 1' >e/own.yaml; git add -A; git commit -qm two
echo two >e/train.py; echo new >e/helper.py; echo w >e/last.pth; echo log >e/log.txt; mkdir e/logs; echo 'a: 1' >e/logs/dump.yaml
run e/own.yaml --work-dir e -- sh -c 'echo w >"$EXP_WORK_DIR/epoch_1.pth"'
is "$(changed)" "['e/helper.py', 'e/train.py', 'out']"
# The same that git doesn't know, where the command names a program of it.
repo; mkdir e; echo 'import helper' >e/train.py; touch e/helper.py; run c.yaml --work-dir e -- python3 e/train.py
is "$(changed)" "['e/helper.py', 'e/train.py', 'out']"
run c.yaml --work-dir e --name plain -- true
is "$(changed)" "['out']"

# What one run wrote is no code of the next one, wherever it was told to write.
repo; rm -f out; echo 'out' >.git/info/exclude
for name in a b; do run c.yaml --work-dir runs/$name --name $name -- sh -c 'echo w >"$EXP_WORK_DIR/x.pth"'; done
is "$(changed)" "[]"
expect 0 "no differences" "$exp" diff a b
expect 0 "the same, bit for bit" "$exp" reproduce a
has "$(cat out)" "code         same"

# A store among other files hides none of them.
repo; echo new >helper.py; run c.yaml --store . --work-dir wd -- true
export EXP_STORE=.
is "$(changed)" "['helper.py', 'out']"
[ ! -e .gitignore ] || fail "a store wrote .gitignore beside other files"
unset EXP_STORE

# With a slash at the end, and by a name that leads through a link.
repo; echo out >.git/info/exclude; mkdir images more; echo 1 >images/1.jpg; echo x >more/x.py; ln -s "$PWD" "$dir/link"
echo '{"images":[{"file_name":"1.jpg"}]}' >"$dir/ann.json"
run c.yaml --set "+data={train: {ann_file: $dir/ann.json, img_prefix: images/}}" --set '+snapshot={exclude: [more/]}' \
  --store "$dir/link/st" --work-dir "$dir/link/wd" -- true
export EXP_STORE=st
run c.yaml --set "+data={train: {ann_file: $dir/ann.json, img_prefix: $dir/link/images}}" --set "+snapshot={exclude: [$dir/link/more]}" -- true
is "$(changed)" "[]"
unset EXP_STORE

# Twenty begin at once where there is neither a store nor a folder for their checkpoints.
repo; pids=()
for i in $(seq 20); do "$exp" run c.yaml --name r$i -- true >"$dir/out$i" 2>&1 & pids+=($!); done
for i in $(seq 20); do wait "${pids[i - 1]}" || fail "run $i of 20: $(cat "$dir/out$i")"; done
is "$("$exp" ls --json | grep -c '"state": "finished"')" 20
echo "ok"
