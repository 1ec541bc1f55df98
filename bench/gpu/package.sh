#!/usr/bin/env bash
# Builds for one GPU architecture and packs programs, tests and the libraries they need into
# build-gpu/exp-gpu.tar.xz: for a machine that has only a driver, CUDA and cuDNN (glibc 2.36 or
# newer). bench/gpu/run_all.sh unpacks and runs it there, in a checkout of the same commit.
#   bench/gpu/package.sh [ARCHITECTURE, 90 by default] [TARGET..., all by default]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build-gpu
architecture=${1:-90}
targets=("${@:2}")

mkdir -p "$build"
# An old-style run path reaches the libraries of libraries too.
cmake -B "$build" -G Ninja -DEXP_CUDA=ON -DEXP_BENCH=ON -DEXP_WERROR=ON -DEXP_CUDA_ARCHITECTURES="$architecture" \
  -DCMAKE_BUILD_RPATH='$ORIGIN/lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags >"$build/build.log" 2>&1 ||
  { cat "$build/build.log"; exit 1; }
# A program that doesn't build shall not hold up the others.
ninja -k0 -C "$build" "${targets[@]}" >>"$build/build.log" 2>&1 || grep -E 'error|FAILED' "$build/build.log" | head -20 || true

stage=$build/exp-gpu
rm -rf "$stage"
mkdir -p "$stage/lib"
for program in "$build"/exp "$build"/exp-commands "$build"/exp_*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  case $program in *exp_base_test | *exp_config_* | *exp_data_test | *exp_record_* | *exp_snapshot_test | *exp_cpu_bench) continue ;; esac  # need no GPU
  cp "$program" "$stage/"
  strip --strip-debug "$stage/$(basename "$program")"
  # What belongs to every system, or to the compiler's own runtime that newer systems have newer.
  ldd "$program" | awk '/=> \//{print $3}' |
    { grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' || true; } |
    while read -r library; do cp -Lnu "$library" "$stage/lib/" 2>/dev/null || true; done
done
pwd > "$stage/source_dir"  # tests look for their files there
git rev-parse HEAD > "$stage/commit"
# A window wide enough to see that the programs have most of their code in common.
tar -C "$build" -c exp-gpu | xz --lzma2=preset=3,dict=128MiB > "$build/exp-gpu.tar.xz"
ls "$stage"
du -h "$build/exp-gpu.tar.xz"
[ "$(stat -c %s "$build/exp-gpu.tar.xz")" -lt $((45 << 20)) ] || { echo "error: over 45 MiB" >&2; exit 1; }
