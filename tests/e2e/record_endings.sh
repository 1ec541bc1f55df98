#!/usr/bin/env bash
# All ways to end, with the real program: killed at random and at each write, failing and full disks, a paused process, a
# clock that is set back, no memory, a restarted machine, two that resume at once. EXP_LONG_TESTS=1 tries every write.
source "$(dirname "$0")/helpers.sh" "$@"
for shim in fault_io fake_clock; do cc -shared -fPIC -O1 -o "$dir/$shim.so" "$here/record/$shim.c" -ldl; done
python3 "$here/record/endings.py" "$exp" "$dir"
