"""usage: endings.py EXP FOLDER   See ../record_endings.sh."""
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time

EXP, ROOT = sys.argv[1], sys.argv[2]
LONG = "EXP_LONG_TESTS" in os.environ
STEPS_PER_EPOCH = 50
STORE = os.path.join(ROOT, "store")

# Writes so many steps as fast as it can, an epoch each 50; waits at the end where HANG is set.
TRAINER = r"""#!/bin/sh
awk -v f="$EXP_METRICS" -v n="${STEPS:-150}" 'BEGIN {
  for (i = 0; i < n; ++i) {
    printf "{\"step\": %d, \"loss\": %d}\n", i, i >>f
    if (i % 50 == 49) { printf "{\"epoch\": %d, \"step\": %d, \"metrics\": {\"acc\": %d}}\n", int(i / 50), i + 1, i >>f; fflush(f) }
  }
}'
[ -z "$MARK" ] || touch "$MARK"
[ -z "$HANG" ] || sleep "$HANG"
[ -z "$CHECKPOINT" ] || { echo w >"$EXP_WORK_DIR/last.pth"; echo '{"checkpoint": "last.pth"}' >>"$EXP_METRICS"; }
exit "${CODE:-0}"
"""


def fail(text):
    print("FAILED:", text)
    sys.exit(1)


def check(fact, text):
    if not fact:
        fail(text)


def exp(*args, env=None, check_code=None, **more):
    r = subprocess.run([EXP, *args], capture_output=True, text=True, env={**os.environ, **(env or {})}, **more)
    if check_code is not None and r.returncode != check_code:
        fail(f"exit {r.returncode}, not {check_code}: {args}: {r.stdout}{r.stderr}")
    return r


def command(store, *more):
    return [EXP, "run", os.path.join(ROOT, "c.yaml"), "--store", store, "--work-dir", os.path.join(ROOT, "wd"), *more,
            "--", os.path.join(ROOT, "train.sh")]


def start(store, *more, env=None):
    return subprocess.Popen(command(store, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                            env={**os.environ, **(env or {})})


def end_group(process):
    """What the killed recorder had started."""
    process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_of(store, selector="@"):
    return json.loads(exp("show", selector, "--json", "--store", store, check_code=0).stdout)


def whole(store, label, seq=None):
    """Nothing is damaged, and what is there is a prefix of what was written. Gives (runs, points, epochs) of the newest run."""
    if not os.path.exists(os.path.join(store, "exp.db")):
        return 0, 0, 0
    r = exp("verify", "--store", store)
    if r.returncode != 0:
        fail(f"{label}: verify: {r.stdout}{r.stderr}")
    db = sqlite3.connect(os.path.join(store, "exp.db"))
    check(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], f"{label}: integrity")
    runs = db.execute("SELECT count(*), max(seq) FROM run").fetchone()
    of = "FROM point p JOIN series s ON s.id=p.series JOIN attempt a ON a.id=s.attempt WHERE a.run=? AND s.name='loss'"
    n, after, same = db.execute(f"SELECT count(*), coalesce(max(step)+1,0), coalesce(sum(step=value),0) {of}", (runs[1],)).fetchone()
    check(n == after == same, f"{label}: {n} points up to step {after}, {same} as written")
    e, last = db.execute("SELECT count(*), coalesce(max(epoch)+1,0) FROM epoch e JOIN attempt a ON a.id=e.attempt WHERE a.run=?",
                         (runs[1],)).fetchone()
    check(e == last and n >= e * STEPS_PER_EPOCH, f"{label}: {e} epochs up to {last} with {n} points")
    db.close()
    return runs[0], n, e


def random_kills():
    kills = 200 if LONG else 30
    rng = random.Random(7)
    store, seen, begun = os.path.join(ROOT, "kills"), 1, 0
    # How long it takes here until a run has begun: kills fall before, while and after.
    since = time.time()
    process = start(store, env={"STEPS": "100000"})
    while not os.path.exists(store + "/exp.db") or '"id"' not in exp("ls", "--json", "--store", store).stdout:
        time.sleep(0.01)
    longest = 1.5 * (time.time() - since) + 0.1
    process.send_signal(signal.SIGKILL)
    end_group(process)
    for k in range(kills):
        process = start(store, env={"STEPS": "100000"})
        time.sleep(rng.random() * longest)
        process.send_signal(signal.SIGKILL)
        end_group(process)
        runs, points, epochs = whole(store, f"kill {k}")
        check(runs in (seen, seen + 1), f"kill {k}: {runs} runs after {seen}")
        if runs > seen:
            begun += 1
            r = run_of(store)
            check(r["state"] == "killed" and str(r["pid"]) in r["reason"], f"kill {k}: {r['state']} {r['reason']}")
        seen = runs
    check(begun > kills // 4, f"only {begun} of {kills} runs had begun")
    print(f"{kills} kills at random moments: {begun} runs had begun, each is whole")


def each_write():
    shim = {"LD_PRELOAD": os.path.join(ROOT, "fault_io.so")}
    count_file, tried = os.path.join(ROOT, "count"), 0
    store = os.path.join(ROOT, "faults")
    env = {**shim, "FAULT_PATH": store, "FAULT_COUNT": count_file, "STEPS": "150"}
    subprocess.run(command(store), env={**os.environ, **env}, check=True, capture_output=True)
    with open(count_file) as f:
        writes = int(f.read())
    check(writes > 40, f"only {writes} writes were seen")
    for mode, error in (("kill", 0), ("torn", 0), ("once", 5), ("full", 28), ("full", 30)):
        rng = random.Random(mode)
        points = range(1, writes + 1, 5 if mode == "full" else 1) if LONG else sorted(rng.sample(range(1, writes + 1), 8))
        for n in points:
            label = f"{mode} (error {error}) at write {n} of {writes}"
            subprocess.run(["rm", "-rf", store], check=True)
            process = subprocess.Popen(command(store), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                       env={**os.environ, **env, "FAULT_AT": str(n), "FAULT_MODE": mode, "FAULT_ERRNO": str(error)})
            said = process.communicate()[0]
            end_group(process)
            tried += 1
            code = process.returncode
            runs, n_points, epochs = whole(store, label)
            dead = code == -signal.SIGKILL
            check(dead == (mode in ("kill", "torn") and dead), f"{label}: {code}")
            check(dead or code in (0, 1, 2), f"{label}: exit {code}: {said}")
            check("fault of exp itself" not in said, f"{label}: {said}")
            if dead and runs:
                check(run_of(store)["state"] in ("killed", "finished"), f"{label}: {run_of(store)['state']}")
            if mode == "once" and code == 0:
                check((n_points, epochs) == (150, 3) and run_of(store)["state"] == "finished", f"{label}: lost {said}")
            if mode == "full" and code == 0 and runs:
                r = run_of(store)
                lost = r["attempts"][0]["lost_points"]
                stated = "points were lost" in said or "could not be written" in said or "could not be written" in r["reason"]
                check(n_points == 150 or lost + n_points == 150 or stated, f"{label}: {n_points} of 150, {lost} lost, unsaid: {said}")
            if not dead and code != 0:
                check("error:" in said, f"{label}: exit {code} without a word: {said}")
    print(f"{tried} faults at {writes} writes: killed, torn, failed once, full and read-only disks; the store is whole after each")


def signals():
    mark = os.path.join(ROOT, "mark")

    def begun(env=None, **more):
        if os.path.exists(mark):
            os.remove(mark)
        process = start(STORE, env={"MARK": mark, "HANG": "60", **(env or {})}, **more)
        for _ in range(400):
            if os.path.exists(mark) and run_of(STORE)["state"] == "running" and len(run_of(STORE)["epochs"]) == 3:
                return process
            time.sleep(0.05)
        fail("it didn't begin")

    process = begun()
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    r = run_of(STORE)
    check(r["state"] == "running" and "paused" in r["reason"], f"stopped: {r['state']} {r['reason']}")
    process.send_signal(signal.SIGCONT)
    time.sleep(0.1)
    check(run_of(STORE)["reason"] == "", "continued")
    for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT")):
        process.send_signal(number)
        check(process.wait(timeout=30) == 130, f"{name}: {process.returncode}")
        r = run_of(STORE)
        check(r["state"] == "interrupted" and name in r["reason"] and len(r["epochs"]) == 3, f"{name}: {r['state']} {r['reason']}")
        process = begun()
    # Any other process sees a kill at once; what the killed one had started is told to end, too.
    process.send_signal(signal.SIGKILL)
    process.wait()
    r = run_of(STORE)
    check(r["state"] == "killed" and len(r["epochs"]) == 3, f"killed: {r}")
    end_group(process)
    # A pid that another process has now, and a machine that was restarted.
    process = begun()
    process.send_signal(signal.SIGKILL)
    end_group(process)
    db = sqlite3.connect(os.path.join(STORE, "exp.db"))
    db.execute("UPDATE attempt SET pid=? WHERE state IS NULL", (os.getpid(),))
    db.commit()
    check(run_of(STORE)["state"] == "killed", "a pid that is used again")
    db.execute("UPDATE attempt SET boot_id='another' WHERE state IS NULL")
    db.commit()
    check("restarted" in run_of(STORE)["reason"], "reboot: " + run_of(STORE)["reason"])
    db.close()
    r = exp("gc", "--store", STORE, check_code=0)
    check("marked" in r.stdout, "gc closes killed attempts: " + r.stdout)
    check(exp("run", os.path.join(ROOT, "c.yaml"), "--store", STORE, "--", "/nonexistent/program").returncode == 2, "no program")
    r = exp(*command(STORE)[1:], env={"CODE": "7"}, check_code=1)
    check(run_of(STORE)["state"] == "failed" and "code 7" in run_of(STORE)["reason"], "failed")
    print("states are right after SIGSTOP, SIGCONT, SIGTERM, SIGINT, SIGKILL, a reused pid, a reboot and a failure")


def resume():
    store, mark = os.path.join(ROOT, "resume"), os.path.join(ROOT, "mark2")
    first = exp(*command(store, "--resume", "auto")[1:], env={"CHECKPOINT": "1", "CODE": "9"})
    check(first.returncode == 1 and "nothing to resume" in first.stdout, f"auto on an absent store: {first}")
    pair = [subprocess.Popen(command(store, "--resume", "auto"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env={**os.environ, "HANG": "3", "CHECKPOINT": "1"}) for _ in range(2)]
    said = [p.communicate()[0] for p in pair]
    codes = sorted(p.returncode for p in pair)
    check(codes == [0, 2], f"two that resume: {codes} {said}")
    loser = said[0] if pair[0].returncode else said[1]
    winner = pair[1] if pair[0].returncode else pair[0]
    check(re.search(r"owned by process \d+ on \S+, which still runs", loser), loser)
    r = run_of(store)
    check(exp("ls", "--json", "--store", store).stdout.count('"id"') == 1, "a second run was begun")
    check(len(r["attempts"]) == 2 and r["state"] == "finished" and winner.returncode == 0, f"{r['attempts']}")
    # The second attempt began from the start again: no epoch and no step counts twice (report 11).
    check([(e["epoch"], e["attempt"]) for e in r["epochs"]] == [(0, 2), (1, 2), (2, 2)], f"epochs: {r['epochs']}")
    steps = [json.loads(line)["step"] for line in exp("log", "@", "--json", "--name", "loss", "--store", store).stdout.splitlines()]
    check(steps == list(range(150)) and r["summary"]["step"]["loss"]["count"] == 150, f"steps: {len(steps)}, {r['summary']}")
    third = exp(*command(store, "--resume", "auto")[1:], check_code=0)
    check("nothing to resume" in third.stdout, "a finished run isn't resumed")
    print("of two that resume one run, one wins and the other is told who owns it")


def clock():
    store, switch = os.path.join(ROOT, "clock"), os.path.join(ROOT, "switch")
    shim = {"LD_PRELOAD": os.path.join(ROOT, "fake_clock.so")}
    exp(*command(store, "--name", "before")[1:], check_code=0)
    exp(*command(store, "--name", "back")[1:], env={**shim, "FAKE_CLOCK_BACK": "31536000"}, check_code=0)
    exp(*command(store, "--name", "after")[1:], env={**shim, "FAKE_CLOCK_BACK": "86400"}, check_code=0)
    exp(*command(store, "--name", "during")[1:], env={**shim, "FAKE_CLOCK_BACK": "86400", "FAKE_CLOCK_FILE": switch, "MARK": switch, "HANG": "1"},
        check_code=0)
    runs = json.loads(exp("ls", "--json", "--store", store, check_code=0).stdout)
    check([r["name"] for r in runs] == ["during", "after", "back", "before"], f"order: {[r['name'] for r in runs]}")
    check(all(r["state"] == "finished" for r in runs), "states")
    check(run_of(store, "@~2")["name"] == "back", "@~2")
    during = run_of(store)
    check(during["ended_ns"] < during["created_ns"], "the clock wasn't set back")
    said = exp("show", "@", "--store", store, check_code=0).stdout
    check("after -" not in said, said)
    whole(store, "clock")
    print("a clock set back before, between and during runs changes neither order nor states")


def memory():
    store = os.path.join(ROOT, "memory")
    with open(os.path.join(ROOT, "big.sh"), "w") as f:
        f.write("""#!/bin/sh
echo '{"epoch": 0, "step": 1, "metrics": {"acc": 1}}' >>"$EXP_METRICS"; sleep 0.5
awk -v f="$EXP_METRICS" 'BEGIN { printf "{\\"step\\": 1, \\"l\\": [" >>f; for (i = 0; i < 12000000; ++i) printf "1.5," >>f; print "1]}" >>f }'
sleep 1
""")
    os.chmod(os.path.join(ROOT, "big.sh"), 0o755)
    args = command(store)[:-1] + [os.path.join(ROOT, "big.sh")]
    r = subprocess.run(["sh", "-c", 'ulimit -v 700000; exec "$@"', "sh", *args], capture_output=True, text=True)
    check(r.returncode in (0, 1) and "terminate" not in r.stderr, f"no memory: {r}")
    run = run_of(store)
    check(run["state"] in ("failed", "finished") and len(run["epochs"]) == 1, f"no memory: {run['state']} {run['reason']}")
    if run["state"] == "failed":
        check("memory" in run["reason"] or "bad_alloc" in run["reason"], run["reason"])
    exp("verify", "--store", store, check_code=0)
    print(f"out of memory: {run['state']}{': ' if run['reason'] else ''}{run['reason']}")


def main():
    with open(os.path.join(ROOT, "train.sh"), "w") as f:
        f.write(TRAINER)
    os.chmod(os.path.join(ROOT, "train.sh"), 0o755)
    with open(os.path.join(ROOT, "c.yaml"), "w") as f:
        f.write("a: 1\n")
    os.chdir(ROOT)
    for test in (signals, resume, clock, memory, each_write, random_kills):
        if len(sys.argv) < 4 or test.__name__ in sys.argv[3:]:
            begin = time.time()
            test()
            print(f"  {test.__name__}: {time.time() - begin:.1f} s", flush=True)


main()
