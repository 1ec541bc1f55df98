#!/bin/bash
# Resolves every config that the peers' packages carry with mmengine's own loader and with exp, and compares the trees
# with types. tests/conformance/run.sh [BUILD, default build] [WORK, default /tmp/exp-conformance] [EVERY, default 1: each config]
# Needs python3 with venv, pip, and the network for the first run. Prints a table; exits 1 when a tree differs.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$source_dir/build}" && pwd)
work=${2:-/tmp/exp-conformance}
every=${3:-1}
here=$source_dir/tests/conformance
mkdir -p "$work" && cd "$work"
if [ ! -e ready ]; then
  python3 -m venv venv
  venv/bin/pip -q install 'setuptools<70' wheel addict pyyaml rich termcolor yapf numpy packaging
  venv/bin/pip -q install --no-deps mmengine==0.10.7
  # Installed, because their configs have bases in each other (`mmdet::...`).
  venv/bin/pip -q install --no-deps mmdet==3.3.0 mmyolo==0.6.0 mmpretrain==1.2.0 mmsegmentation==1.2.2 mmdet3d==1.4.0 \
    mmpose==1.3.2 mmcls==1.0.0rc6 mmrazor==1.0.0 mmocr==1.0.1 mmaction2==1.2.0 mmrotate==0.3.4 mmselfsup==1.0.0 \
    mmtrack==0.14.0 mmagic==1.2.0
  # Older versions, and projects of the older mmcv, beside them.
  for package in mmdet==2.28.2 mmcls==0.25.0 mmpose==0.29.0 mmsegmentation==0.30.0 mmedit==0.16.1 mmflow==0.5.2; do
    name=${package//==/-}
    venv/bin/pip -q download --no-deps -d "wheels/$name" "$package"
    python3 -m zipfile -e "wheels/$name/"*.whl "old/$name"
  done
  touch ready
fi
site=$(echo "$PWD"/venv/lib/python3*/site-packages)
echo "mmengine $(venv/bin/python -c 'import mmengine; print(mmengine.__version__)') against $("$build/exp" --version)"
echo '| corpus | configs | the peer reads | equal | share | deliberately other | only exp reads | broken for both | differ |'
echo '|---|---|---|---|---|---|---|---|---|'
status=0
compare() {  # name, folder
  find "$2" -name '*.py' -o -name '*.yaml' -o -name '*.json' | grep -E '\.mim/configs/|/cases/' | grep -v '/cases/_base_/' |
    sort | awk -v n="$every" 'NR % n == 0' > "$1.list"
  venv/bin/python "$here/reference.py" < "$1.list" > "$1.ref" 2> "$1.ref.err"
  "$build/exp_config_dump" --search-path "$site" < "$1.list" > "$1.ours" 2> "$1.ours.err"
  venv/bin/python "$here/compare.py" "$1" "$1.ref" "$1.ours" "$here/deliberate.tsv" 2> "$1.notes" || status=1
}
for name in mmdet mmyolo mmpretrain mmseg mmdet3d mmpose mmcls mmrazor mmocr mmaction mmrotate mmselfsup mmtrack mmagic; do
  compare "$name" "$site/$name/.mim/configs"
done
for name in mmdet-2.28.2 mmcls-0.25.0 mmpose-0.29.0 mmsegmentation-0.30.0 mmedit-0.16.1 mmflow-0.5.2; do
  compare "$name" "$PWD/old/$name"
done
compare cases "$here/cases"  # what the corpora don't use, written for this test
# Random expressions, against CPython itself.
mkdir -p expressions && (cd expressions && "$work/venv/bin/python" "$here/expressions.py" 3 3000 > ../expressions.ref)
seq -f 'x%g.py' 3000 > expressions.list
(cd expressions && "$build/exp_config_dump") < expressions.list > expressions.ours 2> expressions.ours.err
venv/bin/python "$here/compare.py" expressions expressions.ref expressions.ours "$here/deliberate.tsv" 2> expressions.notes || status=1
data=${EXP_SHARED_DATA:-$source_dir/../shared/data}/config_corpora
for name in paddledetection detectron2; do
  if [ ! -d "$data/$name" ]; then
    echo "| $name | skipped: $data/$name isn't there |"
    continue
  fi
  zcat "$data/$name/resolved.jsonl.gz" | venv/bin/python -c 'import json, sys
for line in sys.stdin: print(json.loads(line)["config"])' > "$name.list"
  (cd "$data/$name" && "$build/exp_config_dump" --duplicates) < "$name.list" > "$name.ours" 2> "$name.ours.err"
  venv/bin/python "$here/compare.py" "$name" "$data/$name/resolved.jsonl.gz" "$name.ours" "$here/deliberate.tsv" 2> "$name.notes" || status=1
done
cat ./*.notes
exit $status
