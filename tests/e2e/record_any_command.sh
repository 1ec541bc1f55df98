#!/usr/bin/env bash
# Any trainer under the recorder: run, killed, interrupted, resumed by hand, audited, diffed, reproduced.
source "$(dirname "$0")/helpers.sh" "$@"

git init -q -b main .
cat >train.sh <<'END'
#!/bin/sh
# Loss falls by the lr in the config; what a training does, in a few lines.
config=$1; work_dir=$2
lr=$(sed -n 's/^ *lr: //p' "$config" | head -1)
for epoch in 0 1; do
  for i in 0 1 2; do
    step=$((epoch * 3 + i))
    awk -v s=$step -v lr="$lr" 'BEGIN { printf "{\"step\": %d, \"loss\": %.17g, \"odd\": NaN}\n", s, 1 / (1 + s * lr) }' >>"$EXP_METRICS"
  done
  echo "weights $lr $epoch" >"$work_dir/epoch_$epoch.pth"
  printf '{"epoch": %d, "step": %d, "metrics": {"acc": 0.%d%s}, "checkpoint": "epoch_%d.pth"}\n' $epoch $((epoch * 3 + 3)) $epoch "$NOISE" $epoch >>"$EXP_METRICS"
done
[ -z "$HANG" ] || { echo hanging; sleep 60; }
echo "last" >"$work_dir/unnamed.ckpt"
exit ${CODE:-0}
END
chmod +x train.sh
printf 'optimizer:\n  lr: 0.5\nname: x\n' >a.yaml
git add -A && git commit -qm one
echo untracked >notes
export NOISE=5 HANG=

# Each of its arguments comes as it was given.
odd=('' '[a,b]' '["x"]' '[' '[]' '%%' "'q'" '"dq"' 'a,b' '--flag=[1,2]' '-h' '{}' ' ' '--')
"$exp" run a.yaml --name odd --store odd -- printf '[%s]' "${odd[@]}" >out || fail "odd arguments: $(cat out)"
has "$(cat out)" "$(printf '[%s]' "${odd[@]}")"
expect 0 '  [old]' "$exp" run a.yaml --name '[old]' --store odd -- true
rm -r odd out

# A terminal shows what names hold, and obeys none of it: an import may be anybody's.
printf '"k\\e[31m\\u009b2J": "\\e[32m"\n' >odd.yaml
name=$(printf 'x\033[31m\302\2332Jy')
"$exp" run odd.yaml --name "$name" --store odd -- sh -c 'echo 1 >"$0/a\033.pth"; printf "{\"note\": \"\\302\\2332J\"}\n" >>"$EXP_METRICS"' {work_dir} >out 2>&1 || fail "odd names: $(cat out)"
for command in "show @" "show @ --config --origins" ls "log @" "ls --columns name" "audit $(echo work_dirs/x*/a*.pth)" "reproduce @" verify; do
  IFS=' ' read -r -a words <<<"$command"
  "$exp" "${words[@]}" --store odd >>out 2>&1 || fail "$command: $(cat out)"
done
! LC_ALL=C grep -qP '\x1b|\xc2[\x80-\x9f]' out || fail "control characters reach a terminal: $(cat -v out)"
rm -r odd odd.yaml out work_dirs

out=$("$exp" run a.yaml --name first --tag t -- ./train.sh {config} {work_dir}) || fail "run: $out"
has "$out" "finished"
[ -f .exp/exp.db ] || fail "no store beside .git"
[ -z "$(git status --porcelain .exp)" ] || fail "the store shows in git status"
"$exp" run a.yaml --set optimizer.lr=0.25 --name second -- ./train.sh {config} {work_dir} >/dev/null
out=$("$exp" ls)
has "$out" "first"; has "$out" "second"; has "$out" "finished"
out=$("$exp" ls --where 'optimizer.lr > 0.3 and metric.acc >= 0.15' --json)
has "$out" '"name": "first"'
[[ $out != *second* ]] || fail "where: $out"
out=$("$exp" show first)
has "$out" "main"; has "$out" "1 untracked"; has "$out" "epoch_1.pth"; has "$out" "unnamed.ckpt"
out=$("$exp" log first)
has "$out" "NaN"
out=$("$exp" diff first second)
has "$out" "optimizer.lr"; has "$out" "--set #1"; has "$out" "a.yaml:2:"

# A checkpoint that was renamed still leads to its run, its parameters and the command.
mv work_dirs/first-*/epoch_0.pth /"$dir"/mystery
out=$("$exp" audit mystery)
has "$out" "first"; has "$out" "after epoch  1"; has "$out" "optimizer.lr"; has "$out" "exp reproduce"
echo other >other
! "$exp" audit other 2>err || fail "audit of an unknown file"
has "$(cat err)" "no recorded run"

# From the record alone: the config file is gone.
rm a.yaml
out=$("$exp" reproduce first) || fail "reproduce: $out"
has "$out" "bit for bit"
code=0; NOISE=6 "$exp" reproduce first >out || code=$?
[ $code = 3 ] || fail "a diverged run gives $code: $(cat out)"
has "$(cat out)" "epoch 1"; has "$(cat out)" "metric acc: 0.05 -> 0.06"
"$exp" reproduce first --json 2>err | python3 -m json.tool >out || fail "standard output isn't JSON alone: $(cat err)"
has "$(cat out)" '"same": true'; has "$(cat err)" "again from its record: ./train.sh"
code=0; CODE=4 "$exp" reproduce first >out 2>&1 || code=$?
[ $code = 1 ] || fail "a run that fails gives $code: $(cat out)"
git checkout -q a.yaml

# Endings.
printf '#!/nowhere/python\n' >script && chmod +x script
refused 2 "./script: the program can't be started: what runs it (the \`#!\` of its first line" "$exp" run a.yaml --name broken -- ./script
rm script out
code=0; CODE=9 "$exp" run a.yaml --name failing -- ./train.sh {config} {work_dir} >out || code=$?
[ $code = 1 ] || fail "failing: $code"
has "$("$exp" show failing)" "failed: the program ended with code 9"
begin out env HANG=1 setsid "$exp" run a.yaml --name victim -- ./train.sh {config} {work_dir}
await "^hanging" out
has "$("$exp" ls --where 'name = victim')" "running"
victim=$("$exp" ls --where 'name = victim' --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
! "$exp" rm victim 2>err || fail "a running run was removed"
has "$(cat err)" "is running"
for _ in $(seq 600); do ! "$exp" show victim | grep epoch_1.pth >/dev/null || break; sleep 0.1; done
kill -9 "$victim"; wait || true
out=$("$exp" show victim)
has "$out" "killed"; has "$out" "epoch_1.pth"
begin out env HANG=1 setsid "$exp" run a.yaml --name stopped -- ./train.sh {config} {work_dir}
await "^hanging" out
runner=$("$exp" ls --where 'name = stopped' --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
kill -TERM "$runner"
code=0; wait $pid || code=$?
[ $code = 130 ] || fail "interrupted gives $code: $(cat out)"
has "$("$exp" show stopped)" "interrupted: SIGTERM"

# The tree that ran, again.
echo changed >>train.sh
"$exp" checkout first as-it-was >/dev/null
cmp notes as-it-was/notes
! cmp -s train.sh as-it-was/train.sh || fail "checkout took today's train.sh"

# Selectors, queries, bad input: one message each, never a crash.
has "$("$exp" query 'SELECT count(*) AS n FROM run')" "n"
for bad in "show nobody" "show @~99" "ls --where optimizer.lr>" "query DROP" "audit nothing.pth" \
           "run missing.yaml" "run a.yaml b.yaml" "reproduce nobody" "show @ --store /nonexistent" "diff nobody"; do
  code=0; "$exp" $bad >out 2>&1 || code=$?
  [ $code = 2 ] || fail "\`$bad\` gives $code: $(cat out)"
  has "$(cat out)" "error:"
done
"$exp" rm first >/dev/null
"$exp" gc >/dev/null
has "$("$exp" verify)" " 0 problems"
echo "ok"
