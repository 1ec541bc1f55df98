#!/usr/bin/env bash
# Runs that came to something else than a finished training, and what the commands that look back say of them: what happened,
# where, and what to do next.
source "$(dirname "$0")/helpers.sh" "$@"
smaller_detector small.yaml 1 1
run=("$exp" run small.yaml --device cpu)
evaluate() { "$exp" eval "$@" --device cpu --no-record; }

# No checkpoint that could be used.
expect 0 "" "${run[@]}" --name none --work-dir runs/none --set checkpoint_config.interval=0
refused 2 "wrote no checkpoint" evaluate none
has "$(cat out)" "next: train with checkpoint_config.interval above 0"
# A rate beyond all reason ends with the report of a loss that isn't finite.
refused 1 "likeliest learning rate" "${run[@]}" --name failed --work-dir runs/failed --set optimizer.lr=1e30 --set 'lr_config={policy: fixed}'
refused 2 "was ended by an error" evaluate failed
has "$(cat out)" "before its first checkpoint"
hasnt "$(cat out)" "likeliest"  # of the reason one line
has "$(cat out)" "next: \`exp resume "
begin killed.log "${run[@]}" --name killed --work-dir runs/killed --set data.train.times=1000
await "^training on" killed.log
refused 2 "is still running and has written no checkpoint yet" evaluate killed
kill -9 $pid && wait $pid 2>/dev/null || true
refused 2 "was killed (process $pid ended without a word) before its first checkpoint" evaluate killed
expect 0 "" "$exp" run small.yaml --name other --work-dir runs/other -- true
refused 2 "is another program's and left no checkpoint in its work_dir" evaluate other
refused 2 "--resume" "$exp" resume other
has "$(cat out)" "-- COMMAND goes on with it"

# Started by a program that ignores how its children end.
(trap '' CHLD; refused 1 "failed: the program ended with code 3" "$exp" run small.yaml --name ignored -- sh -c 'exit 3')
(trap '' CHLD; expect 0 " finished" "$exp" run small.yaml --name ignored -- true)

# What can't be repeated, and what to do instead.
none=$(sed -n 's/^run \([0-9a-f]*\) .*/\1/p' killed.log)
refused 1 "was killed before its first epoch ended" "$exp" reproduce killed
has "$(cat out)" "next: \`exp resume $none\` goes on with it; \`exp reproduce $none --epochs 1\`"
expect 0 "" "${run[@]}" --name zero --set runner.max_epochs=0
refused 1 "trained no epoch" "$exp" reproduce zero
has "$(cat out)" "next: "
refused 2 "saved nothing of step 3" "$exp" replay none 3
has "$(cat out)" "next: it saved no step at all"
refused 2 "saved nothing of step 99" "$exp" replay failed 99
step=$(basename runs/failed/nonfinite_step_*) && step=${step##*_}
has "$(cat out)" "expected: one of the steps that it saved: $step"
has "$(cat out)" "next: exp replay "
refused 2 "is another program's" "$exp" replay other 3
has "$(cat out)" "next: "

# A second run in another one's folder: the first one's checkpoints, of later steps, aren't its to count or to remove.
kept=(--work-dir runs/kept --set checkpoint_config.max_keep_ckpts=1)
expect 0 "finished" "${run[@]}" --name first "${kept[@]}" --set runner.max_epochs=3
expect 0 "finished" "${run[@]}" --name second "${kept[@]}" --set runner.max_epochs=2
[ "$(ls runs/kept)" = $'epoch_2.safetensors\nepoch_3.safetensors' ] || fail "kept: $(ls runs/kept)"
for name in first second; do expect 0 "" evaluate $name; done

# Checkpoints that are gone, changed, or moved with the whole folder.
mkdir before
cp -r configs data small.yaml before && cd before
expect 0 "" "${run[@]}" --name whole --work-dir runs/whole --store .exp
cd .. && mv before after && cd after
expect 0 "after/runs/whole/epoch_1.safetensors (run " evaluate whole
cp runs/whole/epoch_1.safetensors ../copy.safetensors
printf x | dd of=runs/whole/epoch_1.safetensors bs=1 seek=9000 conv=notrunc status=none
refused 2 "before/runs/whole/epoch_1.safetensors is gone" evaluate whole
has "$(cat out)" "give the path of a copy"
expect 0 "copy.safetensors (run " evaluate ../copy.safetensors
rm -r runs
refused 2 "none of the 1 checkpoints that run " evaluate whole

# A project that was moved with its store while a run of a folder in it wasn't done: it goes on there, and what it writes goes
# there too. Folders given by name mean where the user is.
cd ..
mkdir -p project/.exp project/sub && cp -r configs data small.yaml project/sub && cd project/sub
mkdir -p runs/part/epoch_2.safetensors/full
refused 1 "epoch_2.safetensors" "${run[@]}" --name part --work-dir runs/part --set runner.max_epochs=2 --store ../.exp
rmdir runs/part/epoch_2.safetensors/full runs/part/epoch_2.safetensors
cd ../.. && mv project elsewhere
expect 0 "going on at epoch 2" "$exp" resume part --store elsewhere/.exp
has "$(cat out)" "saved $PWD/elsewhere/sub/runs/part/epoch_2.safetensors"
[ ! -e project ] || fail "the folder that was moved away is there again"
expect 0 "elsewhere/sub/runs/part/epoch_2.safetensors (run " evaluate part --store elsewhere/.exp
expect 0 "no differences" "$exp" diff part --store elsewhere/.exp --section data
expect 0 "the same, bit for bit" "$exp" reproduce part --store elsewhere/.exp --epochs 1 --work-dir again
[ -e again/epoch_1.safetensors ] || fail "--work-dir isn't taken from here: $(cat out)"
cd after

# Which run made a file: whole, in the middle of an epoch, damaged, by its hash; what is no file.
cd ..
begin cut.log "${run[@]}" --name cut --work-dir runs/cut --set data.train.times=1000
await "step 50/" cut.log
kill -INT $pid && wait $pid || [ $? = 130 ] || fail "$(cat cut.log)"
middle=$(ls runs/cut/iter_*.safetensors)
step=${middle//[^0-9]/}
expect 0 "in epoch     1 (step $step)" "$exp" audit "$middle"
expect 0 "" "${run[@]}" --name two --work-dir runs/two --set runner.max_epochs=2
last=runs/two/epoch_2.safetensors
expect 0 "after epoch  2 (step 12)" "$exp" audit "$last"
has "$(cat out)" "written as   $PWD/$last"
hash=$(sed -n 's/^file hash *//p' out)
expect 0 "after epoch  2" "$exp" audit "${hash:0:8}"
expect 0 "after epoch  2" "$exp" audit "${hash^^}"
refused 2 "no recorded run wrote a file with this content" "$exp" audit 00000000
for damage in end header; do
  cp $last damaged.safetensors
  if [ $damage = end ]; then truncate -s -9 damaged.safetensors; else printf 9 | dd of=damaged.safetensors bs=1 seek=30 conv=notrunc status=none; fi
  before=$(cksum <damaged.safetensors)
  [ "$before" != "$(cksum <$last)" ] || fail "not damaged"
  expect 0 "damaged.safetensors isn't as it was written: " "$exp" audit damaged.safetensors
  has "$(cat out)" "its own metadata names the run"
  has "$(cat out)" "after epoch  2 (step 12)"
done
refused 2 "runs: is a folder" "$exp" audit runs
refused 2 "/dev/null: is no regular file" "$exp" audit /dev/null
refused 2 "nowhere: there is no such file, and it is no hash" "$exp" audit nowhere
refused 2 "no recorded run wrote a file" "$exp" audit small.yaml

# On a full disk everything can be looked at, and what is no longer needed be taken away.
mkdir full
if mount -t tmpfs -o size=24m none full 2>/dev/null; then
  trap 'umount "$dir/full"; rm -rf "$dir"' EXIT
  cp -r .exp full && cp "$last" full
  dd if=/dev/zero of=full/fill bs=4k status=none 2>/dev/null || true
  export EXP_STORE=$PWD/full/.exp
  expect 0 "two" "$exp" ls
  expect 0 "state        finished" "$exp" show two
  expect 0 "after epoch  2" "$exp" audit full/epoch_2.safetensors
  expect 0 "0 problems" "$exp" verify
  expect 0 "not recorded: $EXP_STORE: the store can't be written: its disk is full" "$exp" eval full/epoch_2.safetensors --device cpu
  refused 1 "its disk is full: free space there" "${run[@]}" --work-dir runs/none
  expect 0 "removed" "$exp" rm two
  expect 0 "removed" "$exp" gc
  hasnt "$("$exp" ls)" two
  unset EXP_STORE
else
  echo "not tried: a full disk (tmpfs can't be mounted here)"
fi

# Nobody reads what is said, or it can't be written: a result that is lost is an error, a training goes on.
if [ -w /dev/full ]; then
  code=0 && "$exp" ls >/dev/full 2>/dev/full || code=$?
  [ $code = 1 ] || fail "exp ls to a full disk: exit $code"
  code=0 && "$exp" ls --store nowhere 2>/dev/full || code=$?
  [ $code = 2 ] || fail "an error to a full disk: exit $code"
  "${run[@]}" --name untold --work-dir runs/untold --set data.train.times=20 >/dev/full 2>/dev/full || true
  has "$("$exp" show untold)" "state        finished"
fi
{ "${run[@]}" --name unread --work-dir runs/unread --set data.train.times=40; echo $? >unread.code; } | head -1 >/dev/null
[ "$(cat unread.code)" = 0 ] || fail "a training that nobody reads: exit $(cat unread.code)"
has "$("$exp" show unread)" "state        finished"
# Closed descriptors are given to no file: what is printed would be written into it. A result that is lost so is an error too.
for command in "ls" "show unread" "config small.yaml" "doctor --look --no-store --json" "--version" "ls --help"; do
  # shellcheck disable=SC2086
  code=0 && "$exp" $command >&- 2>err || code=$?
  [ $code = 1 ] && has "$(cat err)" "its standard output is closed" || fail "exp $command >&-: exit $code: $(cat err)"
done
"${run[@]}" --name mute --work-dir runs/mute <&- >&- 2>&- || fail "a training whose descriptors are closed: exit $?"
has "$("$exp" show mute)" "state        finished"
# Python refuses a folder as its standard input.
"$exp" run small.yaml --name heard --work-dir runs/heard -- python3 -c 'print(1)' <&- || fail "another program whose input is closed: exit $?"
has "$("$exp" audit runs/mute/*.safetensors)" mute
"$exp" verify >/dev/null || fail "the store, written with closed descriptors"
# A terminal that is closed ends it like Ctrl-C, unless nohup keeps it.
for way in hung kept; do
  nohup=(); [ $way = hung ] || nohup=(nohup)
  times=1000; [ $way = hung ] || times=40
  begin $way.log "${nohup[@]}" "${run[@]}" --name $way --work-dir runs/$way --set data.train.times=$times
  await "^training on" $way.log
  kill -HUP $pid && wait $pid || [ $way = hung ] || fail "$(cat $way.log)"
done
has "$("$exp" show hung)" "interrupted"
has "$("$exp" show hung)" "SIGHUP"
has "$("$exp" show kept)" "state        finished"

# A store of an older program that can't be written is read all the same, and stays as it is.
mkdir old
python3 - "$source_dir/schema/001_initial.sql" <<'END'
import sqlite3, sys
store = sqlite3.connect("old/exp.db")
store.executescript(open(sys.argv[1]).read())
store.executescript("PRAGMA application_id=0x65787073; PRAGMA user_version=1; PRAGMA journal_mode=DELETE")
END
before=$(cksum <old/exp.db)
chmod a-w old old/exp.db && chmod a+rx "$dir"
as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if "${as_user[@]}" test -x "$exp" 2>/dev/null; then
  expect 0 "no runs" "${as_user[@]}" "$exp" ls --store old
  refused 2 "the store can't be written" "${as_user[@]}" "$exp" gc --store old
  [ "$before" = "$(cksum <old/exp.db)" ] || fail "the old store was written"
else
  echo "not tried: what another user may not write (the program can't be run as one)"
fi

# Curves, exports and imports that aren't any.
refused 2 "recorded nothing called \`los\`" "$exp" log kept --name los
has "$(cat out)" "did you mean \`loss\`"
refused 2 "recorded no steps at all" "$exp" log other --name loss
expect 0 "recorded no steps" "$exp" log other
refused 2 "the folder can't be made: Not a directory" "$exp" export kept --format csv --out small.yaml
mkdir exported
expect 0 "exported/" "$exp" export kept --format json --out exported
run_file=$(ls exported/*.json)
head -c 1000 "$run_file" >cut.json
refused 2 "cut.json: the file ends in the middle: it was cut off" "$exp" import cut.json --store imported
sed 's/"kept"/"lost"/' "$run_file" >changed.json
refused 2 "changed.json: the export is damaged" "$exp" import changed.json --store imported
refused 2 "small.yaml: the file isn't JSON, at byte 1" "$exp" import small.yaml --store imported
expect 0 "imported" "$exp" import "$run_file" --store imported
expect 0 "kept" "$exp" ls --store imported

# Words that nothing is called, and numbers that aren't any.
refused 2 'error: there is no command `shwo`' "$exp" shwo
has "$(cat out)" 'next: did you mean `show`? `exp --help`'
refused 2 'error: nothing is called `--jsn`' "$exp" show --jsn
has "$(cat out)" 'next: did you mean `--json`? `exp show --help`'
refused 2 'error: nothing is called `a=2`' "$exp" config small.yaml --set optimizer.lr=0.1 a=2
has "$(cat out)" 'next: `--set a=2`: each change behind a --set of its own; `exp config --help`'
refused 2 'error: `a=2` is one argument too many' "$exp" run small.yaml --set optimizer.lr=0.1 a=2
has "$(cat out)" 'next: --set a=2: each change behind a --set of its own'
refused 2 'error: there is no command `chek`' "$exp" data chek
refused 2 "error: a command is missing" "$exp"
refused 2 "error: --device is given 2 times" "$exp" run small.yaml --device cpu --device cpu
refused 2 'error: --epochs: `0` can'"'"'t be taken; expected a whole number from 1 to 1000000' "$exp" reproduce kept --epochs 0
refused 2 'error: --limit: `99999999999999999999` can'"'"'t be taken; expected a whole number, at most' "$exp" ls -n 99999999999999999999
refused 2 'error: step: `1.5` can'"'"'t be taken; expected a whole number' "$exp" replay kept 1.5
[ "$("$exp" ls -n 010 | wc -l)" = 11 ] || fail "010 is ten: $("$exp" ls -n 010)"
expect 0 "Example: exp show" "$exp" help show
expect 0 "exp help COMMAND" "$exp" help
echo "odd runs: told as such"
