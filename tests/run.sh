#!/usr/bin/env bash
# All tests: installs what they need, builds with warnings as errors, runs ctest, then once more under
# AddressSanitizer and UndefinedBehaviorSanitizer what feeds on user input. Prints the counts.
set -euo pipefail
cd "$(dirname "$0")/.."

examples/install_packages.sh tests
jobs=$(nproc)
build=${EXP_TEST_BUILD:-build-test}
cuda=OFF
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  examples/install_cudnn_frontend.sh && cuda=ON
fi

configure_and_build() {  # folder, cmake options
  local folder=$1
  shift
  cmake -B "$folder" -G Ninja -DEXP_WERROR=ON "$@" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
  cmake --build "$folder" -j "$jobs" >>"$folder.log" 2>&1 || { grep -E -A8 'error|FAILED' "$folder.log" | head -60; exit 1; }
  rm -f "$folder.log"
}

stage() { printf '== %s (%d s so far)\n' "$*" "$SECONDS"; }

# Only the test programs that are labelled: the rest of the program is built once. Not optimized: that takes half the time.
sanitized=(exp_base_test exp_config_test exp_data_test exp_weight_files_test)
# The recorder's inputs too where minutes don't count: they take as long to build as the others together.
[ -z "${EXP_LONG_TESTS:-}" ] || sanitized+=(exp_record_test exp_snapshot_test)
build_sanitized() {
  cmake -B "$build-asan" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O0 -g1" \
    -DEXP_SANITIZE=ON -DEXP_CUDA=OFF >"$build-asan.log" 2>&1 &&
    nice cmake --build "$build-asan" -j "$jobs" --target "${sanitized[@]}" >>"$build-asan.log" 2>&1
}

stage "build with warnings as errors (CUDA backend: $cuda)"
configure_and_build "$build" -DCMAKE_BUILD_TYPE=Release -DEXP_CUDA=$cuda -DEXP_CUDA_ARCHITECTURES=90
stage "tests; meanwhile the build under ASan and UBSan: ${sanitized[*]}"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
build_sanitized &
sanitized_build=$!
ctest --test-dir "$build" --output-on-failure -j "$jobs" --no-tests=error
stage "the build under ASan and UBSan goes on"
wait "$sanitized_build" || { grep -E -A8 'error|FAILED' "$build-asan.log" | head -60; exit 1; }
rm -f "$build-asan.log"
stage "tests of what users feed in, sanitized"
ulimit -S -s 65536 2>/dev/null || true  # frames of such a build are large
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
built=$(printf '%s\n' "${sanitized[@]}" | sed 's/^exp_//; s/_test$//' | paste -sd '|')
ctest --test-dir "$build-asan" --output-on-failure -j "$jobs" --no-tests=error -L sanitized -R "^($built)"

stage "parsers of configs, fuzzed for ten seconds each where clang has libFuzzer"
unset ASAN_OPTIONS UBSAN_OPTIONS
EXP_FUZZ_BUILD="$build-fuzz" tests/fuzz/run.sh 10
stage "all passed"
