#!/usr/bin/env bash
# exp doctor that is interrupted: what was found so far is shown and stored, and is no whole report to anybody.
source "$(dirname "$0")/helpers.sh" "$@"
# ended CODE SECONDS: so must end what `begin` started.
ended() {
  local got=0
  SECONDS=0
  wait $pid || got=$?
  [ $got = "$1" ] || fail "exit $got, not $1: $(cat out)"
  [ $SECONDS -le "$2" ] || fail "it took $SECONDS s: $(cat out)"
}
forget() { python3 -c "
import sqlite3
db = sqlite3.connect('.exp/exp.db')
assert db.execute('DELETE FROM doctor WHERE id=$1').rowcount == 1
db.commit()"; }

"$exp" doctor --look >whole.txt || [ $? -lt 5 ]
echo 'a: 1' >a.yaml

# Each signal, in a test of seconds (memory) and between quick ones.
after="cpu.threads"
for signal in INT TERM HUP; do
  begin out "$exp" doctor --device cpu --deep
  await " $after " out
  kill -$signal $pid
  ended 130 5
  has "$(cat out)" "stopping: what was found so far is shown and stored"
  text=$(tr -s ' \n' ' ' <out)
  has "$text" "then interrupted: "; has "$text" " wasn't looked at"
  hasnt "$text" " loader "
  hasnt "$text" "ERROR smoke."
  after="smoke.conv"
done
has "$("$exp" query 'SELECT count(*) AS n FROM doctor')" "4"
begin out "$exp" doctor --device cpu --no-store
await " smoke.train " out  # now two processes train
kill -INT $pid
ended 130 5
has "$(cat out)" "stopping: what was found so far is shown;"
has "$("$exp" query 'SELECT count(*) AS n FROM doctor')" "4"

# Ctrl-C reaches all processes of the terminal: the two that train, too, whose end is no finding.
cat >terminal.py <<'END'
import os, signal, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, start_new_session=True, text=True)
out = ""
for line in child.stdout:
    out += line
    if " smoke.train " in line: os.killpg(child.pid, signal.SIGINT)
assert child.wait() == 130, child.returncode
assert "smoke.two_processes" not in out and "smoke.train wasn't looked at" in " ".join(out.split()), out
END
python3 terminal.py "$exp" doctor --device cpu --no-store 2>/dev/null || fail "Ctrl-C in a terminal"

# JSON is whole, and says that the report isn't. Interrupted while a child trains.
cat >child.py <<'END'
import os, signal, subprocess, sys, time
doctor = subprocess.Popen([sys.argv[1], "doctor", "--device", "cpu", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
def trains():
    try:
        children = open(f"/proc/{doctor.pid}/task/{doctor.pid}/children").read().split()
        return any(b"--child" in open(f"/proc/{c}/cmdline", "rb").read() for c in children)
    except FileNotFoundError:
        return False
for _ in range(6000):
    if trains(): break
    time.sleep(0.02)
doctor.send_signal(signal.SIGINT)
open("cut.json", "wb").write(doctor.stdout.read())
assert doctor.wait() == 130, doctor.returncode
END
python3 child.py "$exp" || fail "JSON of an interrupted report: $(cat cut.json)"
fits doctor cut.json
has "$(cat cut.json)" '"interrupted": true'
"$exp" doctor --look --json >look.json || [ $? -lt 5 ]
hasnt "$(cat look.json)" '"interrupted"'

# Earlier reports say so, too.
has "$("$exp" doctor --history)" "deep, interrupted"
"$exp" doctor --history --json | python3 -c '
import json, sys
assert [r["interrupted"] for r in json.load(sys.stdin)] == [False] + [True] * 4 + [False]'
has "$("$exp" doctor --show 2 | tr -s ' \n' ' ')" "then interrupted"
has "$("$exp" doctor --compare 1 2)" "interrupted"
hasnt "$("$exp" doctor --compare 1 2)" "smoke."
"$exp" doctor --compare 2 look.json --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["interrupted"] == ["a"] and not any(f["id"].startswith(("smoke", "disk.", "shm")) for f in d["findings"]), d'
# A run belongs to the whole report before it, and to none where all were interrupted.
"$exp" run a.yaml --name after -- true >/dev/null
has "$("$exp" show after)" "report 6 of this machine"
forget 6
has "$("$exp" show after)" "report 1 of this machine"
forget 1
hasnt "$("$exp" show after)" "of this machine"

# A check that hangs (here the first question about a disk), as on a network disk whose server is gone: it isn't waited for.
if command -v cc >/dev/null; then
  cat >hang.c <<'END'
#include <stdio.h>
#include <unistd.h>
static int hang(void) { static int first = 1; if (first--) { fclose(fopen("hangs", "w")); for (;;) pause(); } return -1; }
int statvfs(const char* path, void* info) { (void)path, (void)info; return hang(); }
int statvfs64(const char* path, void* info) { (void)path, (void)info; return hang(); }
END
  cc -shared -fPIC -o hang.so hang.c
  for form in "" --json; do
    rm -f hangs
    begin out env LD_PRELOAD="$PWD/hang.so" "$exp" doctor --look $form
    for _ in $(seq 3000); do [ ! -f hangs ] || break; sleep 0.02; done
    kill -INT $pid
    ended 130 6
    has "$(cat out)" "glibc"; hasnt "$(cat out)" "disk.store"
  done
  has "$(cat out)" '"interrupted": true'
fi
echo ok
