#!/usr/bin/env bash
# The main job from nothing: installs what is needed, builds, draws a small data set, trains a detector
# twice, re-runs the first training and checks that it comes out the same bit for bit.
# Takes about five minutes on two cores after the build. Run it from anywhere; it works in the clone.
set -euo pipefail
cd "$(dirname "$0")/.."

trap 'echo; echo "quickstart stopped: the command above failed" >&2' ERR
step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

step "install what is needed"
examples/install_packages.sh
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  echo "CUDA Toolkit found: the CUDA backend is built too"
  examples/install_cudnn_frontend.sh
else
  echo "no CUDA Toolkit found: the CUDA backend is left out, training runs on the CPU"
fi

step "build a release into build/"
cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DEXP_TESTS=OFF >build.log 2>&1 || { cat build.log; false; }
cmake --build build >>build.log 2>&1 || { tail -50 build.log; false; }
rm -f build.log
exp=build/exp
show $exp --version

step "draw a small COCO-format data set: 64 pictures, 3 classes"
show $exp data shapes --out data/shapes --images 64 --val 16 --size 192x160 --seed 1

device=(--device cpu)
step "train a small Faster R-CNN"
show $exp run configs/quickstart.yaml --set optimizer.lr=0.01 "${device[@]}" --name first

step "once more with another learning rate"
show $exp run configs/quickstart.yaml --set optimizer.lr=0.005 "${device[@]}" --name second

step "what was recorded"
show $exp ls
show $exp show @

step "run the first one again from its record and compare bit for bit"
show $exp reproduce first

step "a checkpoint somebody renamed: what made it?"
checkpoint=$(ls -t work_dirs/*/*.safetensors | tail -1)
cp "$checkpoint" /tmp/mystery.safetensors
show $exp audit /tmp/mystery.safetensors
rm -f /tmp/mystery.safetensors

step "what differs between the two runs?"
show $exp diff first second

step "done"
