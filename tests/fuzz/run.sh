#!/bin/bash
# Fuzzes each of the config's parsers, as many at once as there are cores:
#   tests/fuzz/run.sh [SECONDS a target, default 20] [TARGET...]
# Needs clang with libFuzzer (Debian: clang, Ubuntu: clang libclang-rt-18-dev). Says so and passes when it is absent.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-20}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(yaml python set schema json toml interpolate)
if ! command -v clang++ > /dev/null || ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer -x c++ - -o /dev/null 2> /dev/null; then
  echo "fuzz: skipped, clang++ with libFuzzer isn't installed"
  exit 0
fi
build=${EXP_FUZZ_BUILD:-build-fuzz}
mkdir -p "$build"
{ cmake -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1" -DEXP_TESTS=OFF -DEXP_FUZZ=ON -DEXP_CUDA=OFF &&
  cmake --build "$build" -j "$(nproc)" --target "${targets[@]/#/fuzz_}"; } > "$build/fuzz.build" 2>&1 || { tail -20 "$build/fuzz.build"; exit 1; }

fuzz() {  # target
  local target=$1 corpus="$build/corpus/$1" words=()
  mkdir -p "$corpus"
  case $target in
    yaml | schema | interpolate) find configs tests/conformance/cases -name '*.yaml' -exec cp {} "$corpus/" \; ;;
    python)
      cp tests/fuzz/seeds/*.py tests/conformance/golden/*.py tests/conformance/cases/*.py tests/conformance/cases/_base_/*.py "$corpus/"
      words=(-dict=tests/fuzz/python.dict) ;;
    json) cp schema/config.schema.json tests/conformance/cases/*.json "$corpus/" ;;
    set) printf 'a.b.1.c=[1, (2, "x"), {k: 1e-3}]' > "$corpus/seed" ;;
    toml) printf 'a = 1\n[b.c]\nd = [1.5, "x"]\n[[e]]\nf = 1979-05-27T07:32:00Z\n' > "$corpus/seed" ;;
  esac
  if "$build/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=8192 "${words[@]}" \
      -artifact_prefix="$build/crash-$target-" "$corpus" > "$build/fuzz_$target.log" 2>&1; then
    echo "fuzz: $target passed, $(grep -oE 'Done [0-9]+ runs' "$build/fuzz_$target.log" | tail -1)"
  else
    echo "fuzz: $target FAILED"
    tail -25 "$build/fuzz_$target.log"
    return 1
  fi
}
export -f fuzz
export build seconds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
