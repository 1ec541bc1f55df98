#!/usr/bin/env bash
# Any trainer under the recorder: it only has to append JSON lines to the file that EXP_METRICS names.
# Run it from anywhere; it works in a folder of its own and leaves it for you to look at.
set -euo pipefail
exp=$(realpath "${EXP:-$(dirname "$0")/../build/exp}")
dir=$(mktemp -d)
cd "$dir"
unset EXP_STORE
show() { printf '\n$ %s\n' "$*"; "$@"; }

cat >train.sh <<'END'
#!/bin/sh
# A trainer in ten lines: reads the resolved config, reports steps and an epoch, writes a checkpoint.
lr=$(sed -n 's/^ *lr: //p' "$1")
for step in 0 1 2 3 4 5 6 7 8 9; do
  awk -v s=$step -v lr="$lr" 'BEGIN { printf "{\"step\": %d, \"loss\": %.17g}\n", s, exp(-s * lr) }' >>"$EXP_METRICS"
done
echo "weights after 10 steps at $lr" >"$2/last.pth"
echo '{"epoch": 0, "step": 10, "metrics": {"accuracy": 0.75}, "checkpoint": "last.pth"}' >>"$EXP_METRICS"
END
chmod +x train.sh
printf 'optimizer:\n  lr: 0.5\n' >config.yaml
git init -q . && git add -A && git -c user.name=me -c user.email=me@example.com commit -qm "my trainer"

show "$exp" run config.yaml --name first -- ./train.sh {config} {work_dir}
show "$exp" run config.yaml --set optimizer.lr=0.25 --name second -- ./train.sh {config} {work_dir}
show "$exp" ls
show "$exp" show first
show "$exp" diff first second
mv work_dirs/first-*/last.pth /"$dir"/found-it-somewhere.pth
show "$exp" audit found-it-somewhere.pth
show "$exp" reproduce first
printf '\neverything is in %s\n' "$dir"
