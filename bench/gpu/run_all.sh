#!/usr/bin/env bash
# On a machine with a GPU: unpacks build-gpu/exp-gpu.tar.xz and runs the tests of operations (CUDA
# against the CPU), the benchmarks and compute-sanitizer, each with a time limit; a failure is
# printed and the rest goes on. Full logs go to $OUT, short ones to the terminal, the summary last.
#   bench/gpu/run_all.sh [part...]     parts: tests bench sanitize; default: all three
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-/tmp/exp-gpu-out}
mkdir -p "$out"
parts=${*:-tests bench sanitize}
began=$SECONDS
summary=()

note() { summary+=("$*"); }

# The smaller of a limit and what is left of eight minutes, ten seconds at least.
left() {
  local rest=$((470 - (SECONDS - began)))
  [ "$rest" -lt 10 ] && rest=10
  echo $((rest < $1 ? rest : $1))
}

# attempt NAME SECONDS LINES COMMAND...: the log goes to $out/NAME.log, its last LINES are shown.
attempt() {
  local name=$1 limit=$2 lines=$3 start=$SECONDS rc
  shift 3
  timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
  rc=$?
  echo "---- $name: exit $rc, $((SECONDS - start)) s"
  tail -n "$lines" "$out/$name.log" | cut -c1-220
  note "$name: exit $rc, $((SECONDS - start)) s$([ $rc -eq 124 ] && echo ' (time limit)')"
  return $rc
}

work=/tmp/exp-gpu-work
if [ ! -f "$work/exp-gpu/commit" ] || [ build-gpu/exp-gpu.tar.xz -nt "$work/exp-gpu/commit" ]; then
  rm -rf "$work"; mkdir -p "$work"
  tar -C "$work" -xJmf build-gpu/exp-gpu.tar.xz || exit 1
fi
bin=$work/exp-gpu
# The tests were built to look for their files in the checkout where the package was made.
made_in=$(cat "$bin/source_dir")
if [ ! -e "$made_in" ]; then mkdir -p "$(dirname "$made_in")"; ln -s "$PWD" "$made_in"; fi
# PyTorch's cuDNN is the newer one there.
for folder in /opt/torch/.venv/lib/python3*/site-packages/nvidia/{cudnn,cu13,cublas}/lib; do
  [ -d "$folder" ] && LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
plans=$out/plans

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,power.draw --format=csv,noheader
uname -r; nproc; ls "$bin"; echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"

case " $parts " in *" tests "*)
  for test in graph cuda models train; do
    [ -x "$bin/exp_${test}_test" ] || continue
    attempt "test_$test" 150 25 "$bin/exp_${test}_test" --durations no
    # Which tests failed, once each.
    grep -hoE '^[^ ]+\.cpp:[0-9]+: FAILED' "$out/test_$test.log" | sort | uniq -c | sort -rn | head -12
    note "  $(grep -E '^(All tests passed|test cases:)' "$out/test_$test.log" | tail -1)"
  done
esac

case " $parts " in *" bench "*)
  export EXP_CUDA_TUNING=1
  # Model, batch, precision, time limit; the first searches for plans, the last starts warm.
  for work_item in "frcnn 16 bf16 200" "resnet50 256 bf16 90" "frcnn 2 bf16 90" "resnext101 128 bf16 60" \
    "seresnext101 128 bf16 60" "ssd300 128 bf16 60" "resnet50 256 fp16 60" "resnet50 256 tf32 60" \
    "resnet50 256 bf16 30"; do
    # shellcheck disable=SC2086
    set -- $work_item
    attempt "step_$1_$2_$3" "$(left "$4")" 14 "$bin/exp_gpu_bench" step "$1" "$2" "$3" --plans "$plans"
    note "  $(grep -hE '^step' "$out/step_$1_$2_$3.log" | tail -1)"
  done
  attempt kernels "$(left 60)" 8 "$bin/exp_kernel_bench"
esac

case " $parts " in *" sanitize "*)
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -n "$sanitizer" ]; then
    attempt memcheck "$(left 150)" 12 "$sanitizer" --tool memcheck --error-exitcode 9 \
      --print-limit 5 "$bin/exp_graph_test" "~*onvolution*"
  else
    note "compute-sanitizer: not there"
  fi
esac

echo "==== summary ($((SECONDS - began)) s, commit $(cat "$bin/commit"))"
printf '%s\n' "${summary[@]}"
