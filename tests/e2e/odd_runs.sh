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
"${run[@]}" --name killed --work-dir runs/killed --set data.train.times=1000 >killed.log 2>&1 &
for _ in $(seq 600); do [ -d runs/killed ] && break || sleep 0.1; done
refused 2 "is still running and has written no checkpoint yet" evaluate killed
kill -9 $! && wait $! 2>/dev/null || true
refused 2 "was killed (process $! ended without a word) before its first checkpoint" evaluate killed
expect 0 "" "$exp" run small.yaml --name other --work-dir runs/other -- true
refused 2 "is another program's and left no checkpoint in its work_dir" evaluate other
refused 2 "--resume" "$exp" resume other
has "$(cat out)" "-- COMMAND goes on with it"

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
echo "odd runs: told as such"
