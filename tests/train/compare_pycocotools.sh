#!/bin/bash
# Compares the bbox evaluation with pycocotools on random sets: compare_pycocotools.sh TEST_PROGRAM [SETS] [SEED]
# Uses $PYTHON, else python3; says so and ends well where pycocotools can't be imported.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=${1:?usage: compare_pycocotools.sh path/to/exp_train_test [SETS] [SEED]}
sets=${2:-50} seed=${3:-1} python=${PYTHON:-python3}
if ! "$python" -c 'import pycocotools' 2>/dev/null; then
  echo "skipped: $python has no pycocotools"
  exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
real=("${EXP_SHARED_DATA:-$here/../../../shared/data}"/bccd/instances_*.json)
[ -e "${real[0]}" ] || real=()
"$python" "$here/make_coco_sets.py" "$dir" "$sets" "$seed" 40 "${real[@]}"
EXP_COCO_SETS=$dir "$program" '[pycocotools]'
