#!/bin/bash
# How fast configs resolve, beside mmengine: bench/config.sh [BUILD] [WORK of tests/conformance/run.sh] [CONFIGS, default all of mmdet's].
# Prints: all in one process (both), one config as a whole command (both), and exp on large inputs: 10 MB, 100,000 keys,
# 1,000 bases below and beside each other, each with half and a quarter of it, to see that time grows linearly.
# Each figure is the best of several runs; seconds of the processor stand beside those of the clock, for busy machines.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$source_dir/build}" && pwd)
work=${2:-/tmp/exp-conformance}
count=${3:-100000}
python=$work/venv/bin/python
[ -x "$python" ] || { echo "run tests/conformance/run.sh first: it installs mmengine into $work"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# best RUNS COMMAND...: "clock processor" of the quickest run, in seconds.
best() {
  local runs=$1 TIMEFORMAT='%R %U %S'
  shift
  for _ in $(seq "$runs"); do { time "$@" > out 2> err; } 2>&1; done |
    awk '{ c = $2 + $3; if (NR == 1 || $1 < wall) wall = $1; if (NR == 1 || c < cpu) cpu = c } END { printf "%.4f %.4f", wall, cpu }'
}
# compare WHAT "clock processor" of exp "clock processor" of mmengine
compare() {
  echo "$1: exp ${2% *} s (processor ${2#* }), mmengine ${3% *} s (${3#* }): $(awk -v a="$2" -v b="$3" 'BEGIN {
    split(a, x, " "); split(b, y, " "); printf "%.0f times (%.0f)", y[1] / x[1], y[2] / x[2] }')"
}

configs=$(echo "$work"/venv/lib/python3*/site-packages/mmdet/.mim/configs)
find "$configs" -name '*.py' -not -path '*_base_*' -not -name 'override_category.py' | sort > all
awk -v n="$(wc -l < all)" -v c="$count" 'int(NR * c / n) > int((NR - 1) * c / n)' all > list
echo "exp $("$build/exp" --version | cut -d' ' -f2), mmengine $("$python" -c 'import mmengine; print(mmengine.__version__)'), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
ours_all() { "$build/exp_config_dump" --quiet < list; }
theirs_all() { "$python" "$source_dir/tests/conformance/reference.py" --quiet < list; }
compare "$(wc -l < list) mmdet configs in one process" "$(best 3 ours_all)" "$(best 1 theirs_all)"

one=$configs/faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py
cat > one.py << 'P'
import json, sys
from mmengine.config import Config
print(json.dumps(Config.fromfile(sys.argv[1]).to_dict()))
P
compare "one config as a command" "$(best 20 "$build/exp" config "$one" --format json)" "$(best 7 "$python" one.py "$one")"

python3 - << 'P'
for part, name in ((4, 'quarter'), (2, 'half'), (1, 'whole')):
    with open(f'bytes_{name}.yaml', 'w') as f:
        i = 0
        while f.tell() < 10_000_000 // part:
            f.write(f'key_{i}:\n  lr: 0.0{i}\n  betas: [0.9, 0.999]\n  type: SGD\n')
            i += 1
    with open(f'keys_{name}.yaml', 'w') as f:
        for i in range(100_000 // part): f.write(f'key_{i}: {i}\n')
    with open(f'keys_{name}.py', 'w') as f:
        for i in range(100_000 // part): f.write(f'key_{i} = {i}\n')
    with open(f'wide_{name}.yaml', 'w') as f:
        f.write('_base_: [' + ', '.join(f'leaf_{i}.yaml' for i in range(1000 // part)) + ']\n')
for i in range(1000):
    with open(f'chain_{i}.yaml', 'w') as f:
        if i: f.write(f'_base_: chain_{i - 1}.yaml\n')
        f.write(f'own_{i}: {i}\nshared: {{a: {i}, b_{i}: 1}}\n')
    with open(f'leaf_{i}.yaml', 'w') as f: f.write(f'own_{i}: {i}\n')
P
cp chain_249.yaml deep_quarter.yaml && cp chain_499.yaml deep_half.yaml && cp chain_999.yaml deep_whole.yaml
large() {  # what, files' stem, ending
  local line="$1:" part
  for part in quarter half whole; do
    line+=" $(best 3 "$build/exp" config "$2_$part.$3" --hash | cut -d' ' -f2) s ($part)"
  done
  echo "$line"
}
large "10 MB of YAML" bytes yaml
large "100,000 keys of YAML" keys yaml
large "100,000 keys of Python" keys py
large "1,000 bases below each other" deep yaml
large "1,000 bases beside each other" wide yaml
