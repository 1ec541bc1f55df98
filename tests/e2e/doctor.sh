#!/usr/bin/env bash
# exp doctor: text, JSON, exit codes, the store, another machine's files, libraries.
source "$(dirname "$0")/helpers.sh" "$@"
# code EXPECTED... COMMAND: one of the exit codes, output to `out`.
code() {
  local allowed=$1 got=0
  shift
  "$@" >out 2>err || got=$?
  [[ " $allowed " = *" $got "* ]] || fail "exit $got, not $allowed: $* -- $(cat out err)"
}

code "0 4 1" "$exp" doctor --device cpu
for id in driver glibc memory files disk.store smoke.conv smoke.nms smoke.train smoke.two_processes decode loader; do
  has "$(cat out)" " $id "
done
has "$(tail -1 out)" "checks in"
! grep -q $'\033' out || fail "colours in a file"
[ -f .exp/exp.db ] || fail "the report isn't stored"
code "0 4 1" "$exp" doctor --look --colour always
grep -q $'\033' out || fail "no colours when asked for"

# On a terminal of 40 columns nothing that can be broken is longer; colours are colours, in earlier reports, too.
cat >terminal.py <<'END'
import fcntl, os, pty, re, struct, subprocess, sys, termios
def shown(*command):
    master, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    child, out = subprocess.Popen(command, stdout=end, stderr=end), b""
    os.close(end)
    while True:
        try: more = os.read(master, 65536)
        except OSError: break
        if not more: break
        out += more
    child.wait()
    return out.decode()
for more in (["--look", "--no-store"], ["--show", "@"]):
    text = shown(sys.argv[1], "doctor", *more)
    assert "\033[32mok" in text and "x1b" not in text, text
    lines = re.sub("\033\\[[0-9;]*m", "", text).replace("\r", "").splitlines()
    long = [l for l in lines if len(l) > 40 and " " in l.strip()]
    assert not long and any("checks in" in l for l in lines), long
END
env -u NO_COLOR python3 terminal.py "$exp" || fail "a terminal of 40 columns"

# JSON: documented keys, and the level is the worst finding's, as the exit code says.
got=0; "$exp" doctor --look --json >report.json || got=$?
python3 - $got <<'END'
import json, sys
r = json.load(open("report.json"))
levels = ["ok", "absent", "warning", "error"]
assert r["format"] == 1 and r["findings"], r
assert all(set(f) == {"id", "group", "level", "found", "needed", "why", "fix", "numbers"} for f in r["findings"])
assert r["level"] == max((f["level"] for f in r["findings"]), key=levels.index)
assert int(sys.argv[1]) == {"ok": 0, "absent": 0, "warning": 4, "error": 1}[r["level"]]
assert all(f["fix"] and f["why"] for f in r["findings"] if f["level"] in ("warning", "error")), r
assert r["environment"]["os"]["glibc"]
END
fits doctor report.json
has "$("$exp" query 'SELECT count(*) AS n FROM doctor')" "3"
"$exp" doctor --device cpu --json --no-store >whole.json || true
fits doctor whole.json
# The schema knows what is no report.
sed 's/"level": "ok"/"level": "fine"/' report.json >wrong.json
! (fits doctor wrong.json) 2>/dev/null || fail "a level that there isn't fits the schema"

# Reports that were made before; what differs between two, of this store or from files.
has "$("$exp" doctor --history)" "REPORT"
has "$("$exp" doctor --history --json)" '"id": 3'
has "$("$exp" doctor --show 3)" "checks in"
(ulimit -n 200; "$exp" doctor --look >/dev/null 2>&1 || true)
out=$("$exp" doctor --compare @~1 @); has "$out" "files "; has "$out" "200 open files"; hasnt "$out" "glibc "
has "$("$exp" doctor --compare report.json @)" "200 open files"
has "$("$exp" doctor --compare whole.json whole.json)" "the findings are the same"
"$exp" doctor --compare report.json @ --json >difference.json
python3 -c '
import json
d = json.load(open("difference.json"))
assert [f["b"] for f in d["findings"] if f["id"] == "files"] == ["error: 200 open files"], d
assert any(n["id"] == "files" and n["b"] == 200 for n in d["numbers"]), d'
code 2 "$exp" doctor --compare 1 77
has "$(cat err)" "names no report"
code 2 "$exp" doctor --compare report.json difference.json
has "$(cat err)" "it is no report"
code 2 "$exp" doctor --compare report.json gone.json
has "$(cat err)" "gone.json: there is no such file"
# Only --deep asks Python, and tests more memory: no difference of the machine.
python3 -c '
import json
r = json.load(open("whole.json"))
r["environment"]["python"] = {"version": "3.9"}
[f["numbers"].update(bytes=1e9) for f in r["findings"] if f["id"] == "memory.test"]
json.dump(r, open("deep.json", "w"))'
out=$("$exp" doctor --compare whole.json deep.json)
[ "$out" = "the findings are the same" ] || fail "a deep report and one that isn't: $out"

# Limits of this very process show.
(ulimit -n 200; code 1 "$exp" doctor --look --no-store; has "$(cat out)" "200 open files"; has "$(cat out)" "ulimit -n 65536")
(ulimit -v 8000000; code 1 "$exp" doctor --look --no-store; has "$(cat out)" "ulimit -v unlimited")

# The files of another machine.
mkdir -p other/proc/self other/sys/devices/system/cpu/cpu0/cpufreq other/var/log
printf 'MemTotal: 8000000 kB\nMemAvailable: 100000 kB\nSwapTotal: 4000000 kB\nSwapFree: 0 kB\n' >other/proc/meminfo
echo powersave >other/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
echo 'kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.' >other/var/log/kern.log
code 1 "$exp" doctor --root other
for text in "powersave" "Xid 79" "swapped out" "WARN" "ERROR"; do has "$(cat out)" "$text"; done
# Its driver, its disks and its programs can't be asked from here: that is no fault of it.
mkdir -p fine/sys/module/nvidia fine/sys/bus/pci/devices/0000:01:00.0 fine/usr/lib/x86_64-linux-gnu fine/tmp fine/dev/shm
echo 580.159.03 >fine/sys/module/nvidia/version
echo 0x10de >fine/sys/bus/pci/devices/0000:01:00.0/vendor; echo 0x030200 >fine/sys/bus/pci/devices/0000:01:00.0/class
: >fine/usr/lib/x86_64-linux-gnu/libnccl.so.2
code 0 "$exp" doctor --root fine
has "$(cat out)" "kernel module 580.159.03; files of another machine"; has "$(cat out)" "/libnccl.so.2; files of another"
hasnt "$(cat out)" " free of "; has "$(cat out)" "-     disk.work"
code 2 "$exp" doctor --root /nonexistent
# Refused before anything is looked at.
for wrong in "--device gpu" "--device cuda:99999999999" "--data /nonexistent" "--data report.json" "--root=" "--look --deep" \
  "--memo --json" "--history --show 1" "--library x.so --memo" "--root other --memo" "--root other --history" "--root other --deep" \
  "--show 1 --deep" "--library x.so --data ." "--memo --look"; do
  code 2 "$exp" doctor $wrong --no-store
  [ ! -s out ] && [ -s err ] || fail "$wrong: $(cat out err)"
done

# Libraries.
code 0 "$exp" doctor --library "$exp"
has "$(cat out)" "GLIBC 2."
code 1 "$exp" doctor --library report.json
has "$(cat out)" "no ELF file"
code 1 "$exp" doctor --library /nonexistent.so
has "$(cat out)" "there is no such file"
code 1 "$exp" doctor --library /usr/bin/ldd
has "$(cat out)" "a script"
code 1 "$exp" doctor --library "$dir"
has "$(cat out)" "a folder"
mkdir empty; code 1 "$exp" doctor --library empty
has "$(cat out)" "a folder"
ln -s nowhere lost.so; code 1 "$exp" doctor --library lost.so
has "$(cat out)" "a link that leads nowhere"
mkfifo pipe.so
code 1 "$exp" doctor --library pipe.so
# What a library needs that the program needs; both are asked of the linker, too.
if command -v cc >/dev/null; then
  mkdir deep && echo 'int f(void) { return 1; }' >f.c && echo 'int f(void); int main(void) { return f() - 1; }' >m.c
  cc -shared -fPIC -o deep/libinner.so f.c
  cc -shared -fPIC -o libouter.so f.c -Ldeep -Wl,--no-as-needed -linner
  cc -o uses m.c -L. -Wl,--no-as-needed -louter -Wl,-rpath,'$ORIGIN' -Wl,--allow-shlib-undefined
  has "$(ldd uses)" "libinner.so => not found"
  code 1 "$exp" doctor --library uses
  has "$(tr -s ' \n' ' ' <out)" "libinner.so (which libouter.so needs) not found"
  code 0 env LD_LIBRARY_PATH=deep "$exp" doctor --library uses
  # Files of another machine, below a folder that is named from here: $ORIGIN is inside of it.
  mkdir -p other/app && cp uses libouter.so other/app
  code 1 "$exp" doctor --root other --library /app/uses
  has "$(tr -s ' \n' ' ' <out)" "libc.so.6 and libinner.so (which libouter.so needs) not found"
  # A copy that ended early, which `file` and `readelf -d` don't mind.
  mkdir cut && python3 -c '
import struct
b = open("libouter.so", "rb").read()
loads = [struct.unpack_from("<IIQQQQQQ", b, struct.unpack_from("<Q", b, 32)[0] + 56 * i) for i in range(struct.unpack_from("<H", b, 56)[0])]
open("cut/libouter.so", "wb").write(b[:max(p[2] + p[5] for p in loads if p[0] == 1) - 1])'
  code 1 env LD_LIBRARY_PATH=cut:deep "$exp" doctor --library uses
  has "$(tr -s ' \n' ' ' <out)" "cut/libouter.so is an ELF file that is damaged or was cut off"
  printf '\267' | dd of=uses bs=1 seek=18 conv=notrunc status=none
  code 1 "$exp" doctor --library uses
  has "$(cat out)" "is for AArch64"
fi

code 2 "$exp" doctor --library ''
has "$(cat err)" "an empty text is no value"
libc=$(ldd "$(command -v bash)" | awk '/libc\.so\.6 =>/{print $3}')
code 0 "$exp" doctor --library "$libc"
hasnt "$(cat out)" "neither glibc"

out=$("$exp" doctor --memo)
has "$out" "| part | version |"; has "$out" "| glibc | 2."

# A run links to the report of its machine.
"$exp" data shapes --out data/shapes --images 4 --val 2 --size 64x64 >/dev/null
echo 'a: 1' >a.yaml
"$exp" run a.yaml --name linked -- true >/dev/null
has "$("$exp" show linked)" "of this machine"
has "$("$exp" show linked --json)" '"doctor": {'
# What changed on the machine between two runs.
(ulimit -n 300; "$exp" doctor --look >/dev/null 2>&1 || true)
"$exp" run a.yaml --name later -- true >/dev/null
out=$("$exp" diff linked later --section machine)
has "$out" "files "; has "$out" "warning: 300 open files"

# A working directory that is gone.
out=$(mkdir gone && cd gone && rmdir ../gone && { "$exp" ls || echo "exit $?"; } 2>&1)
has "$out" "the working directory is gone"; has "$out" "exit 2"

# A report that was damaged in the store is neither text nor JSON.
python3 -c '
import sqlite3
db = sqlite3.connect(".exp/exp.db")
db.execute("UPDATE doctor SET report=substr(report, 1, 300) WHERE id=1")
db.commit()'
for form in "" --json; do
  code 1 "$exp" doctor --show 1 $form
  has "$(cat err)" "the stored report is damaged"
  [ ! -s out ] || fail "of a damaged report: $(cat out)"
done

# Nothing can be stored: the report is shown all the same.
mkdir readonly && echo x >readonly/exp.db
code "0 4 1" "$exp" doctor --look --store readonly
has "$(cat err)" "isn't stored"
echo ok
