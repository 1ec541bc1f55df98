#!/bin/bash
# Puts NVIDIA's cudnn-frontend headers (header-only, MIT) where CMake looks for them, from the wheel
# nvidia-cudnn-frontend. 1.18 is the newest that links with cuDNN alone: later ones need NVRTC and
# libcuda at link time. Does nothing when they are there already.
set -euo pipefail
version=${1:-1.18.0}
target=${EXP_CUDNN_FRONTEND_DIR:-$HOME/.cache/exp/cudnn-frontend}
if [ -f "$target/include/cudnn_frontend.h" ] && [ "$(cat "$target/version" 2>/dev/null)" = "$version" ]; then
  exit 0
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
  run=(); [ "$(id -u)" -eq 0 ] || run=(sudo)
  "${run[@]}" apt-get update -qq && "${run[@]}" apt-get install -y -qq --no-install-recommends python3-pip >/dev/null
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Any interpreter's wheel holds the same headers; asking for one makes the choice repeatable.
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --python-version 3.11 --platform manylinux_2_28_x86_64 -d "$work" "nvidia-cudnn-frontend==$version"
python3 -m zipfile -e "$work"/nvidia_cudnn_frontend-*.whl "$work/wheel"
mkdir -p "$target"
rm -rf "$target/include"
mv "$work/wheel/include" "$target/include"
echo "$version" > "$target/version"
echo "cudnn-frontend $version: $target/include"
