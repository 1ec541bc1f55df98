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
  mkdir -p wheels
  for package in mmdet==3.3.0 mmdet==2.28.2 mmyolo==0.6.0 mmpretrain==1.2.0 mmsegmentation==1.2.2 mmdet3d==1.4.0 mmpose==1.3.2; do
    venv/bin/pip -q download --no-deps -d wheels "$package"
  done
  venv/bin/pip -q install --no-deps wheels/mmdet-3.3.0* wheels/mmyolo* wheels/mmpretrain* wheels/mmsegmentation* wheels/mmdet3d* wheels/mmpose*
  python3 -m zipfile -e wheels/mmdet-2.28.2* mmdet2
  touch ready
fi
site=$(echo "$PWD"/venv/lib/python3*/site-packages)
echo "mmengine $(venv/bin/python -c 'import mmengine; print(mmengine.__version__)') against $("$build/exp" --version)"
echo '| corpus | configs | the peer reads | equal | share | deliberately other | only exp reads | broken for both | differ |'
echo '|---|---|---|---|---|---|---|---|---|'
status=0
for name in mmdet mmdet2 mmyolo mmpretrain mmseg mmdet3d mmpose; do
  folder=$site/$name/.mim/configs
  [ "$name" = mmdet2 ] && folder=$PWD/mmdet2/mmdet/.mim/configs
  find "$folder" -name '*.py' | sort | awk -v n="$every" 'NR % n == 0' > "$name.list"
  venv/bin/python "$here/reference.py" < "$name.list" > "$name.ref" 2> "$name.ref.err"
  "$build/exp_config_dump" < "$name.list" > "$name.ours" 2> "$name.ours.err"
  venv/bin/python "$here/compare.py" "$name" "$name.ref" "$name.ours" "$here/deliberate.tsv" 2> "$name.notes" || status=1
done
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
