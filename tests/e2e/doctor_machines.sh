#!/usr/bin/env bash
# Two machines with GPUs, by a fake of NVML: what a run links to, and what exp diff tells of their reports.
source "$(dirname "$0")/helpers.sh" "$@"
command -v cc >/dev/null || { echo "skipped: no C compiler"; exit 0; }
cat >nvml.c <<'END'
#include <stdio.h>
#include <stdlib.h>
static const char* of(const char* name) { const char* v = getenv(name); return v ? v : ""; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code ? "fake error" : ""; }
int nvmlSystemGetDriverVersion(char* text, unsigned n) { snprintf(text, n, "%s", of("FAKE_DRIVER")); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* v) { *v = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) { static int one; *device = &one; return (int)i; }
int nvmlDeviceGetName(void* d, char* text, unsigned n) { snprintf(text, n, "NVIDIA H200"); return d == 0; }
int nvmlDeviceGetUUID(void* d, char* text, unsigned n) { snprintf(text, n, "%s", of("FAKE_UUID")); return d == 0; }
int nvmlDeviceGetEnforcedPowerLimit(void* d, unsigned* mw) { *mw = 1000 * atoi(of("FAKE_LIMIT")); return d == 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(void* d, unsigned* mw) { *mw = 700000; return d == 0; }
END
mkdir nvml && cc -shared -fPIC -o nvml/libnvidia-ml.so.1 nvml.c
# on UUID DRIVER LIMIT COMMAND...: on the machine with that card.
on() { LD_LIBRARY_PATH=$PWD/nvml FAKE_UUID=$1 FAKE_DRIVER=$2 FAKE_LIMIT=$3 "${@:4}"; }
look() { on "$@" "$exp" doctor --look >out || [ $? = 4 ] || [ $? = 1 ] || fail "doctor: $(cat out)"; }
echo 'a: 1' >a.yaml
run() { on "$1" "$2" 700 "$exp" run a.yaml --name "$3" -- true >/dev/null; }

# Libraries that end the process that loads them, print into its output or hang: rows, and JSON that is JSON.
for what in "abort()" "*(volatile int*)0 = 1" "puts(\"{\"); exit(0)" "__builtin_trap()"; do
  printf '#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void begin(void) { %s; }\n' "$what" >wild.c
  mkdir -p wild && cc -shared -fPIC -o wild/libnccl.so.2 wild.c
  cp wild/libnccl.so.2 wild/libcudart.so.13
  LD_LIBRARY_PATH=$PWD/wild "$exp" doctor --look --no-store --json >out 2>err || [ $? -lt 5 ] || fail "$what: $(cat out err)"
  fits doctor out
  has "$(cat out)" "wild/libnccl.so.2 doesn't load, or doesn't answer"
done

look GPU-1 550.54.14 700
look GPU-2 580.159.03 350
has "$(tr -s ' ' <out)" "WARN gpu.0.power limit 350 W, default 700 W"
run GPU-1 550.54.14 first
run GPU-2 580.159.03 second
out=$("$exp" diff first second --section machine | tr -s ' ')
has "$out" "driver ok: 550.54.14, runs CUDA 13.0; NVIDIA H200 ok: 580.159.03"
has "$out" "gpu.0.power ok: limit 700 W, default 700 W warning: limit 350 W, default 700 W"
hasnt "$out" "glibc"; hasnt "$out" " is of driver"
hasnt "$("$exp" show first)" "another state"

# The same card after an update of its driver: the report that there is says of which driver it is.
run GPU-1 580.159.03 updated
has "$("$exp" show updated)" "made in another state: driver 550.54.14 (the run: 580.159.03)"
has "$("$exp" show updated --json)" '"other_state": "driver 550.54.14 (the run: 580.159.03)"'
has "$("$exp" diff first updated --section machine | tr -s ' ')" "report report 1 report 1 is of driver 550.54.14"
look GPU-1 580.159.03 700
run GPU-1 580.159.03 later
hasnt "$("$exp" show later)" "another state"
out=$("$exp" diff first later --section machine --json)
has "$out" '"driver"'; hasnt "$out" "gpu.0.power"

# GPUs of which NVML doesn't tell one thing or another, or nothing any more: rows, and what is shown fits the schema.
cc -shared -fPIC -o odd.so "$here/../snapshot/fake/fake_nvml.c"
odd() { env EXP_NVML="$PWD/odd.so" "$@" "$exp" doctor --look --no-store --json >out 2>err || [ $? = 1 ] || [ $? = 4 ] || fail "$*: $(cat out err)"; fits doctor out; }
for name in $(sed -n 's/^int \(nvml[A-Za-z0-9_]*\)(.*/\1/p' "$here/../snapshot/fake/fake_nvml.c"); do
  odd FAKE_NVML_REFUSES="$name"
  hasnt "$(cat out)" "capability 0.0"
done
for fault in "load" "1 ends"; do odd FAKE_NVML_FAULT="$fault" FAKE_NVML_GPUS=4; has "$(cat out)" "NVML ends the process that asks it"; done
odd FAKE_NVML_GPUS=16; has "$(cat out)" "Fake A40 and Fake H200 (15)"
odd FAKE_NVML_MIG=0; has "$(cat out)" "split into MIG instances"
odd FAKE_NVML_LOST=/; has "$(cat out)" "card 0: GPU is lost"
odd EXP_NVML=/nonexistent; has "$(cat out)" "no NVIDIA driver (/nonexistent"

# A card that is lost while a run goes on: the run goes on, too, and says so.
EXP_NVML=$PWD/odd.so FAKE_NVML_LOST=$PWD/lost "$exp" run a.yaml --name lost --set +snapshot.gpu_interval=0.05 -- \
  sh -c 'sleep 0.5; touch lost; sleep 1' >/dev/null
has "$("$exp" show lost --json)" "GPU 0 (Fake H200): nothing is told of it any more: GPU is lost"
echo ok
