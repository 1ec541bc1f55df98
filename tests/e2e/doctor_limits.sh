#!/usr/bin/env bash
# Where the system gives little (memory, file sizes, stack, threads, files, folders, /proc), doctor, bench and run end by
# themselves and say what was missing.
source "$(dirname "$0")/helpers.sh" "$@"
# under "LIMIT" CODES TEXT COMMAND...: with `ulimit LIMIT`, in a process of its own; all that it said is in `out`.
under() {
  local limit=$1 codes=$2 text=$3 got=0
  shift 3
  (ulimit $limit && "$@") >out 2>&1 || got=$?
  [[ " $codes " == *" $got "* ]] || fail "ulimit $limit: exit $got: $* -- $(cat out)"
  has "$(tr -s ' \n' ' ' <out)" "$text"
}
doctor=("$exp" doctor --device cpu --no-store)
bench=("$exp" bench --model resnet18 --batch 1 --height 32 --width 32 --device cpu --seconds 0.01 --repeats 1 --settle 0.01)

# ---- doctor: the limit is a finding, and the tests that it leaves no room for are left out
under "-f 10" 1 "10.0 KiB a file" "${doctor[@]}"
has "$(cat out)" "checks in"
under "-n 20" 1 "20 open files" "${doctor[@]}"
under "-S -s 64" "0 4 1" "checks in" "${doctor[@]}" --look
# The program and its libraries take some 85 MB of addresses.
for size in 110000 150000 300000 600000; do
  under "-v $size" 1 "of address space" "${doctor[@]}"
  has "$(cat out)" "checks in"
done
under "-v 110000" 1 "left out: it takes 96.0 MiB of memory" "${doctor[@]}"

# ---- run and bench: the record says that the run failed, and the message what to raise
tiny_detector tiny.yaml
under "-f 600" 1 "raise the limit of file sizes" "$exp" run tiny.yaml --device cpu --name large
under "-f 20" 1 "raise the limit of file sizes" "$exp" run tiny.yaml --device cpu --name none --store elsewhere
under "-v 200000" 1 "mem lim" "$exp" run tiny.yaml --device cpu --name addresses
for name in large addresses; do has "$("$exp" show $name)" "state        failed"; done
under "-v 200000" 0 "mem lim" "${bench[@]}" --no-store
under "-f 20" 0 "aren't stored" "${bench[@]}" --store elsewhere
has "$(cat out)" "raise the limit of file sizes"
# What a command starts isn't to ignore what exp ignores.
if command -v python3 >/dev/null; then
  under "-f 10" "1 2" "" "$exp" run tiny.yaml --store other -- python3 -c 'open("x", "wb").write(b"x" * 100000)'
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  chmod 755 "$dir"
  if "${nobody[@]}" "$exp" --version >/dev/null 2>&1; then
    under "-u 1" 1 "ulimit -u" "${nobody[@]}" "${doctor[@]}"
    mkdir theirs && chmod 777 theirs && chmod -R a+rX .
    under "-u 1" 1 "raise \`ulimit -u\`" "${nobody[@]}" "$exp" run tiny.yaml --device cpu --name alone --store theirs/store --work-dir theirs/work
    has "$("$exp" show alone --store theirs/store)" "state        failed"
    # A folder that can't be written.
    expect 1 "checks in" "${nobody[@]}" "$exp" doctor --look
    has "$(tr -s ' \n' ' ' <out)" "no folder that this user may write"
    has "$(cat out)" "isn't stored"
  fi
fi

# ---- surroundings that lack something
expect 0 "img/s" env TMPDIR=/gone "${bench[@]}" --no-store
env TMPDIR=/gone "$exp" doctor --look --no-store >out || [ $? -lt 5 ]
has "$(cat out)" "WARN  disk.tmp"
for setting in "-u HOME" "HOME=/etc/passwd" "-i" "LC_ALL=xx_XX.KOI8-R"; do
  env $setting "$exp" doctor --look --no-store >out 2>&1 || [ $? != 127 -a $? -lt 128 ] || fail "$setting: $(cat out)"
  has "$(cat out)" "checks in"
done
if [ -w /dev/full ]; then
  code=0; "$exp" doctor --look --no-store >/dev/full 2>err || code=$?
  [ $code = 1 ] || fail "a full disk: exit $code"
  has "$(cat err)" "No space left"
fi
code=0; { "$exp" doctor --look --no-store || code=$?; } | head -1 >out
has "$(cat out)" "versions"
if unshare -m true 2>/dev/null; then
  for missing in /proc /sys; do
    unshare -m sh -c "mount -t tmpfs none $missing && exec \"$exp\" doctor --device cpu --no-store" >out 2>&1 || true
    has "$(cat out)" "0 errors"
  done
fi

# cuDNN without one of its parts, which ends the programs that ask it.
graph=$(ldconfig -p 2>/dev/null | awk '/libcudnn_graph\.so\.9/ && !n++ {print $NF}')
"$exp" doctor --look --no-store >out 2>&1 || true
if [ -n "$graph" ] && grep -q '^ok    cudnn ' out && unshare -m true 2>/dev/null; then
  : >empty
  for what in "doctor --look" "doctor --device cpu"; do
    unshare -m sh -c "mount --bind empty \"$(readlink -f "$graph")\" && exec \"$exp\" $what --no-store" >out 2>&1 || true
    has "$(cat out)" "checks in"
    has "$(tr -s ' \n' ' ' <out)" "lacks libcudnn_graph.so.9"
  done
fi

# A bare chroot: the program and its libraries, no /proc, /sys, /dev, /tmp or /etc.
if [ "$(id -u)" = 0 ] && chroot / true 2>/dev/null; then
  for file in "$exp" "$exp-commands" $(ldd "$exp" "$exp-commands" | grep -o '/[^ ]*\.so[^ ]*' | sort -u); do
    mkdir -p "bare$(dirname "$file")" && cp -L "$file" "bare$file"
  done
  # A warning may come of what the kernel's log has of this machine.
  under "-c 0" "0 4" "two trainings at once give the same weights" chroot bare "$exp" doctor --device cpu --no-store
  under "-c 0" "0 4" '"format": 1' chroot bare "$exp" doctor --look --no-store --json
fi

# ---- a control group with little memory (where this test may make one)
group=/sys/fs/cgroup/memory/exp-test-$$
if mkdir "$group" 2>/dev/null; then
  trap 'rmdir "$group" || true; rm -rf "$dir"' EXIT
  for size in 40M 120M 300M; do
    echo $size >"$group/memory.limit_in_bytes"
    expect 1 "may be used (cgroup)" sh -c "echo \$\$ >$group/cgroup.procs && exec \"$exp\" doctor --device cpu --no-store"
    has "$(cat out)" "checks in"
    expect 0 "mem lim" sh -c "echo \$\$ >$group/cgroup.procs && exec \"$exp\" bench --model resnet50 --batch 64 --device cpu --no-store"
  done
fi
# CPUs that the process may run on.
if taskset -c 0 true 2>/dev/null && [ "$(nproc)" -gt 1 ]; then
  taskset -c 0 "$exp" doctor --device cpu --no-store >out 2>&1 || [ $? -lt 5 ] || fail "taskset: $(cat out)"
  has "$(cat out)" "1 of 1 threads can be started"
  has "$(cat out)" " on 1 threads"
fi
echo ok
