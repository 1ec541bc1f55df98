#!/bin/bash
# How fast configs resolve, beside mmengine: bench/config.sh [BUILD] [WORK of tests/conformance/run.sh] [CONFIGS, default 100].
# Prints: all in one process (both), one config as a whole command (both), and exp on large inputs.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$source_dir/build}" && pwd)
work=${2:-/tmp/exp-conformance}
count=${3:-100}
python=$work/venv/bin/python
[ -x "$python" ] || { echo "run tests/conformance/run.sh first: it installs mmengine into $work"; exit 1; }
list=$(mktemp)
trap 'rm -rf "$list" "$list.d"' EXIT
configs=$(echo "$work"/venv/lib/python3*/site-packages/mmdet/.mim/configs)
find "$configs" -name '*.py' -not -path '*_base_*' -not -name 'override_category.py' | sort |
  awk -v n="$(find "$configs" -name '*.py' | wc -l)" -v c="$count" 'int(NR * c / n) > int((NR - 1) * c / n)' > "$list"
seconds() { awk '{ for (i = 1; i < NF; i++) if ($(i + 1) == "s") print $i }' | tail -1; }
ours=$("$build/exp_config_dump" --quiet < "$list" 2>&1 | seconds)
theirs=$("$python" "$source_dir/tests/conformance/reference.py" --quiet < "$list" 2>&1 | seconds)
echo "exp $("$build/exp" --version | cut -d' ' -f2), mmengine $("$python" -c 'import mmengine; print(mmengine.__version__)'), $(nproc) cores"
echo "$(wc -l < "$list") mmdet configs in one process: exp $ours s, mmengine $theirs s, $(awk "BEGIN { printf \"%.0f\", $theirs / $ours }") times"
one=$configs/faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py
time_of() { local s e; s=$(date +%s.%N); for _ in 1 2 3 4 5; do "$@" > /dev/null; done; e=$(date +%s.%N); awk "BEGIN { printf \"%.4f\", ($e - $s) / 5 }"; }
ours=$(time_of "$build/exp" config "$one" --format json)
theirs=$(time_of "$python" -c "
import json
from mmengine.config import Config
print(json.dumps(Config.fromfile('$one').to_dict()))")
echo "one config as a command: exp $ours s, Python with mmengine $theirs s, $(awk "BEGIN { printf \"%.0f\", $theirs / $ours }") times"
mkdir -p "$list.d" && cd "$list.d"
python3 - <<'P'
with open('big.yaml', 'w') as f:  # 10 MB
    for i in range(330000): f.write(f'key_{i}:\n  lr: 0.0{i}\n')
    while f.tell() < 10_000_000: f.write(f'more_{f.tell()}: {{a: 1, b: [1, 2]}}\n')
with open('keys.yaml', 'w') as f:
    for i in range(100000): f.write(f'key_{i}: {i}\n')
for i in range(1000):
    with open(f'base_{i}.yaml', 'w') as f:
        if i: f.write(f'_base_: base_{i - 1}.yaml\n')
        f.write(f'own_{i}: {i}\nshared: {{a: {i}, b_{i}: 1}}\n')
with open('wide.yaml', 'w') as f:
    f.write('_base_: [' + ', '.join(f'leaf_{i}.yaml' for i in range(1000)) + ']\n')
for i in range(1000):
    with open(f'leaf_{i}.yaml', 'w') as f: f.write(f'own_{i}: {i}\n')
P
for file in big.yaml keys.yaml base_999.yaml wide.yaml; do
  echo "$file ($(stat -c %s $file) bytes): $(echo $file | "$build/exp_config_dump" --quiet 2>&1 | seconds) s"
done
