#!/usr/bin/env bash
# Every command over a store, with the real program: lists, filters, live logs, plots, diffs of code and data, exports that
# other programs read, imports of what is damaged, rm, gc, verify, stores that are newer, read-only or broken.
source "$(dirname "$0")/helpers.sh" "$@"
cc -shared -fPIC -O1 -o "$dir/nvml.so" "$here/../snapshot/fake/fake_nvml.c"
python3 "$here/record/commands.py" "$exp" "$dir"
