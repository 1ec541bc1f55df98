#!/usr/bin/env bash
# Losses and all gradients of the full-width Faster R-CNN R50-FPN and SSD300-VGG16 against torchvision's, from the same weights,
# images and targets: full_width.sh BUILD_FOLDER [FOLDER]. About ten minutes on two cores, 8 GB of memory and 1.2 GB of disk in
# FOLDER (a temporary one unless given; what is in it already isn't made again). Needs torch, torchvision, timm and safetensors.
set -euo pipefail
test_program=$(realpath "${1:?the folder of the build}")/exp_models_test
folder=${2:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
for name in frcnn_full frcnn_full_frozen ssd_full; do
  [ -s "$folder/$name.safetensors" ] || "${PYTHON:-python3}" "$(dirname "$0")/../fixtures/generate.py" "$folder" --only $name
done
EXP_FULL_FIXTURES=$(realpath "$folder") "$test_program" "[.full]"
