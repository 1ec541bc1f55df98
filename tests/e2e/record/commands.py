"""usage: commands.py EXP FOLDER [TEST...]   See ../record_commands.sh."""
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time

from shared_store import EXP, NUMBERS, ROOT, STORE, TRAINER, check, exp, names, run
from transfer import exports, imports


def listing():
    for name, lr in (("a", 0.01), ("b", 0.1), ("c", 1.0)):
        run(name, "--set", f"optimizer.lr={lr}", "--tag", "t" + name)
    check(names() == ["c", "b", "a"], "newest first")
    check(names("--where", "optimizer.lr > 0.05 and metric.bbox_mAP > 0.3") == ["c"], "where")
    check(names("--where", "tag = ta or (name ~ b and not state = running)") == ["b", "a"], "where")
    check(names("--sort", "metric.bbox_mAP") == ["a", "b", "c"], "sort")
    check(names("--sort", "optimizer.lr", "-r", "-n", "2") == ["c", "b"], "reverse, limit")
    text = exp("ls", "--columns", "name,optimizer.lr,step.loss,epoch,seconds")
    check("optimizer.lr" in text and "0.01" in text and "step.loss" in text, text)
    check("column 15" in exp("ls", "--where", "optimizer.lr >", code=2), "a broken condition")
    check("no runs match" in exp("ls", "--where", "optimizer.lr > 99"), "none")
    for option in ("--sort", "--columns"):  # a name that no run has
        for extra in ([], ["--json"], ["--where", "name = nobody"]):
            text = exp("ls", option, "metric.bbox_map", *extra, code=2)
            check("`metric.bbox_map`" in text and f"error: {option}: " in text and "did you mean `metric.bbox_mAP`" in text, text)
            check(" work_dir, metric.bbox_mAP, " in text and "or a config key: " in text, "all names are listed: " + text)
    check("`optimizer.lt`" in exp("ls", "--columns", "name,optimizer.lt,epoch", code=2), "any of a list")
    check(names("--columns", "epoch,metric.bbox_mAP_50,optimizer.lr") == ["c", "b", "a"], "a usual column, if no run has it")
    check("did you mean `metric.bbox_mAP`" in exp("ls", "--where", "not metric.bbox_map > 1"), "said though all match")
    check("any of 2 runs" in (run("a", "--set", "optimizer.lr=0.01"), exp("show", "a", code=2))[1], "report 12: an ambiguous name")
    exp("rm", "@")


def showing():
    text = exp("show", "b")
    check("loss by step" in text and "bbox_mAP by epoch" in text and "█" in text, "no plots: " + text)
    check("optimizer.lr = 0.1  # --set #1" in exp("show", "b", "--config", "--origins"), "origins")
    environment = json.loads(exp("show", "b", "--environment"))
    for group, keys in {"program": ["version", "compiler", "flags", "build_id"], "os": ["kernel", "glibc", "locale", "time_zone", "container", "machine"],
                        "cpu": ["model", "flags", "logical", "threads_used"], "memory": ["total_bytes"], "libraries": ["libc", "libsqlite3"]}.items():
        for key in keys:
            check(key in environment[group], f"environment lacks {group}.{key}: {sorted(environment[group])}")
    check(environment["libraries"]["libc"]["build_id"] and environment["program"]["build_id"], "build ids")
    j = json.loads(exp("show", "b", "--json"))
    for key in ("id name kind state reason created_ns ended_ns pid host command cwd work_dir seed threads device tags parent relation config environment code "
                "datasets attempts epochs checkpoints warnings summary redactions verdict").split():
        check(key in j, "JSON lacks " + key)


def following():
    process = subprocess.Popen([EXP, "run", "c.yaml", "--store", STORE, "--name", "slow", "--", "./train.py"], stdout=subprocess.DEVNULL,
                               env={**os.environ, "SLOW": "0.05"})
    for _ in range(200):
        if "slow" in names():
            break
        time.sleep(0.05)
    log = subprocess.Popen([EXP, "log", "slow", "--store", STORE, "--follow", "--json"], stdout=subprocess.PIPE, text=True)
    steps, live = [], 0
    for line in log.stdout:
        steps.append(json.loads(line)["step"])
        live += process.poll() is None
    check(process.wait() == 0 and log.wait() == 0, "follow ends with the run")
    check(steps == list(range(60)), f"each step once: {steps}")
    check(live >= 20, f"only {live} lines came while it ran")
    check(exp("log", "slow", "-n", "2").count("step ") == 2 + 3, "tail, and the ends of epochs")
    check("finished" in exp("log", "slow", "--follow", "--name", "loss"), "an ended run")


def diffs():
    text = exp("diff", "a", "b", "c")
    check("optimizer.lr" in text and "0.01" in text and "--set #1" in text and "bbox_mAP" in text, text)
    check("evaluation" not in text, "only what differs")
    j = json.loads(exp("diff", "a", "b", "c", "--json"))
    lr = [d for d in j["differences"] if d["name"] == "optimizer.lr"][0]
    check(lr["values"] == ["0.01", "0.1", "1.0"] or [float(v) for v in lr["values"]] == [0.01, 0.1, 1.0], lr)
    # Code and data, between runs and since a run (report 15).
    check("no differences" in exp("diff", "c"), "nothing has changed since: " + exp("diff", "c"))
    with open("train.py", "a") as f:
        f.write("# one more line\n")
    with open("new.py", "w") as f:
        f.write("x = 1\n")
    with open("images/1.jpg", "w") as f:
        f.write("changed")
    os.remove("images/2.jpg")
    text = exp("diff", "c")
    for part in ("file new.py", "file train.py", "+1 -0 lines", "train 1.jpg", "train 2.jpg"):
        check(part in text, f"since the run: no {part} in {text}")
    run("d", "--set", "optimizer.lr=1.0")
    text = exp("diff", "c", "d")
    for part in ("file new.py", "file train.py", "train 1.jpg", "other content", "train 2.jpg"):
        check(part in text, f"between runs: no {part} in {text}")
    patch = exp("diff", "c", "d", "--patch")
    check("+# one more line" in patch and "+x = 1" in patch, patch)
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", "commit", "-qm", "two"], check=True)
    run("e", "--set", "optimizer.lr=1.0")
    check("+# one more line" in exp("diff", "c", "e", "--patch"), "between commits")
    same = subprocess.run([EXP, "diff", "d", "e", "--patch", "--store", STORE], capture_output=True, text=True)
    check((same.stdout, same.returncode) == ("", 0), "committed or not, the code is the same")
    check(same.stderr == "note: no differences: the code is the same\n", same.stderr)
    check("two runs, not 3" in exp("diff", "c", "d", "e", "--patch", code=2), "of three")
    check("--patch and --json don't go together" in exp("diff", "c", "d", "--patch", "--json", code=2), "patch or JSON")
    # Reproduce says the same in its table, and which images changed.
    text = exp("reproduce", "c", code=0)
    check("2 images changed: 1.jpg, 2.jpg" in text and "bit for bit" in text, text)
    text = exp("reproduce", "c", code=3, env={"NOISE": "0.5"})
    check("diverged in epoch 1" in text and "may explain it: data: train: 2 images changed" in text, text)


def maintenance():
    ids = [r["id"] for r in json.loads(exp("ls", "--json"))]
    check("no run is called" in exp("rm", "c", "nobody", code=2), "one of two is wrong")
    check([r["id"] for r in json.loads(exp("ls", "--json"))] == ids, "then none is removed")
    before = os.path.getsize(os.path.join(STORE, "exp.db"))
    exp("rm", "numbers", "slow")
    exp("rm", "numbers", code=2)
    would = json.loads(exp("gc", "--dry-run", "--json"))
    did = json.loads(exp("gc", "--json"))
    check(would["objects"] + would["documents"] > 0 and {**would, "dry_run": False} == did, f"{would} {did}")
    check(json.loads(exp("gc", "--json"))["objects"] == 0, "gc again does nothing")
    check(os.path.getsize(os.path.join(STORE, "exp.db")) < before, "the space is given back")
    check(json.loads(exp("verify", "--checkpoints", "--json"))["problems"] == [], "verify")
    os.rename("wd-b/last.pth" if os.path.exists("wd-b/last.pth") else os.path.join(ROOT, "wd-b/last.pth"), os.path.join(ROOT, "moved.pth"))
    check("not there any more" in exp("verify", "--checkpoints"), "a moved checkpoint is a note")
    check("made by run" in exp("audit", os.path.join(ROOT, "moved.pth")), "audit of a moved file")
    damaged = os.path.join(ROOT, "damaged")
    shutil.copytree(STORE, damaged)
    db = sqlite3.connect(damaged + "/exp.db")
    db.execute("UPDATE object SET data = CAST(data || 'x' AS BLOB) WHERE hash = (SELECT hash FROM object LIMIT 1)")
    db.commit()
    db.close()
    check("other content than its hash" in exp("verify", code=1, store=damaged), "a changed object")


def schema():
    """schema/README.md names every table and column there is, and no other; its examples run."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../schema/README.md")) as f:
        text = f.read()
    said = {}
    for line in text.split("## Columns")[1].split("##")[0].splitlines():
        cells = line.split("|")
        if len(cells) == 4 and cells[1].strip().startswith("`"):
            outside = re.sub(r"\([^)]*\)", "", cells[2])
            said[cells[1].strip(" `")] = re.findall(r"`(\w+)`", outside)
    said["live_epoch"] = said["epoch"] + said["live_epoch"][1:]
    db = sqlite3.connect(f"file:{STORE}/exp.db?mode=ro", uri=True)
    real = {}
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table','view') AND name NOT LIKE 'sqlite%'").fetchall():
        real[table] = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    db.close()
    check(said.keys() == real.keys(), f"tables: {said.keys() ^ real.keys()}")
    for table, columns in real.items():
        check(sorted(said[table]) == sorted(columns), f"{table}: {set(said[table]) ^ set(columns)}")
    examples = [e for e in re.sub(r"--[^\n]*", "", text.split("```sql")[1].split("```")[0]).split(";") if e.strip()]
    check(len(examples) >= 4, examples)
    for example in examples:
        exp("query", example)


def stores():
    for change, text in (("PRAGMA user_version=99", "version 99"), ("PRAGMA application_id=7", "not a store of exp")):
        other = os.path.join(ROOT, "changed")
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(STORE, other)
        db = sqlite3.connect(other + "/exp.db")
        db.execute(change)
        db.commit()
        db.close()
        for command in (["ls"], ["show", "@"], ["log", "@"], ["diff", "@", "@~1"], ["export", "@"], ["verify"], ["gc"], ["query", "SELECT 1"], ["rm", "@"],
                        ["run", "c.yaml", "--", "true"], ["reproduce", "@"]):
            check(text in exp(*command, code=2, store=other), f"{command} with {change}")
    # A store that can't be written can be read, what a killed writer left in the log included.
    locked = os.path.join(ROOT, "locked")
    shutil.copytree(STORE, locked)
    db = sqlite3.connect(locked + "/exp.db")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("UPDATE run SET name='in-the-log' WHERE name='c'")
    db.commit()
    for name in ("exp.db", "exp.db-wal"):
        shutil.copy(os.path.join(locked, name), os.path.join(ROOT, name))
    db.close()
    for name in ("exp.db", "exp.db-wal"):
        shutil.copy(os.path.join(ROOT, name), os.path.join(locked, name))
    if os.path.exists(locked + "/exp.db-shm"):
        os.remove(locked + "/exp.db-shm")
    for where, _, files in os.walk(locked):
        for f in files:
            os.chmod(os.path.join(where, f), 0o444)
        os.chmod(where, 0o555)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    os.chmod(ROOT, 0o755)
    work = "/tmp" if user else ROOT
    copy_of_exp = [EXP]
    if user and subprocess.run([*user, EXP, "--version"], capture_output=True).returncode != 0:
        return print("  a store that can't be written: not tried, another user can't run " + EXP)

    def other_user(*args, code=0):
        r = subprocess.run([*user, *copy_of_exp, *args, "--store", locked], capture_output=True, text=True, cwd=work)
        check(r.returncode == code, f"{args}: {r.returncode} {r.stdout}{r.stderr}")
        return r.stdout + r.stderr
    check("in-the-log" in other_user("ls"), "what is in the log is read")
    check(f"error: {locked}/exp.db: no run is called" in other_user("show", "nobody", code=2).replace("`nobody`: ", ""), "its own place is named")
    for command in (["show", "@"], ["log", "@"], ["diff", "a", "b"], ["export", "@"], ["query", "SELECT name FROM run"], ["verify"]):
        other_user(*command)
    check("can't be written" in other_user("rm", "@", code=2), "rm of a read-only store")
    check("can't be written" in other_user("gc", code=2), "gc of a read-only store")


def damage():
    """A store with pages that were overwritten: each command ends with a message."""
    import random
    rng = random.Random(3)
    size = os.path.getsize(os.path.join(STORE, "exp.db"))
    other = os.path.join(ROOT, "broken")
    for k in range(60 if "EXP_LONG_TESTS" in os.environ else 12):
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(STORE, other)
        with open(other + "/exp.db", "r+b") as f:
            for _ in range(rng.choice([1, 20])):
                f.seek(rng.randrange(size))
                f.write(rng.randbytes(rng.choice([1, 200, 5000])))
        for command in (["ls"], ["show", "@"], ["log", "@"], ["diff", "a", "b"], ["verify"], ["export", "@"]):
            r = subprocess.run([EXP, *command, "--store", other], capture_output=True, timeout=60)
            check(r.returncode in (0, 1, 2), f"{command}: {r.returncode} {r.stderr[-300:]}")
            check(b"fault of exp itself" not in r.stderr, f"{command}: {r.stderr}")


def telemetry():
    """A GPU behind a stand-in of NVIDIA's library: described, sampled, warned of."""
    env = {"EXP_NVML": os.path.join(ROOT, "nvml.so"), "SLOW": "0.01"}
    run("gpu", "--set", "+snapshot.gpu_interval=0.1", env=env)
    gpu = json.loads(exp("show", "gpu", "--environment"))["gpu"]
    check(gpu["driver"] == "550.54.15" and gpu["devices"][0]["pcie_generation"] == 5 and gpu["devices"][0]["uuid"] == "GPU-fake", gpu)
    j = json.loads(exp("show", "gpu", "--json"))
    codes = {w["code"] for w in j["warnings"]}
    check({"gpu.hot", "gpu.power_cap", "gpu.power_limit", "gpu.thermal_throttle"} <= codes, codes)
    check(any("gpu/0/celsius 88" in line for line in exp("log", "gpu").splitlines()), "the series")
    check(j["epochs"][-1]["gpu"].get("0.celsius.max") == 88, f"per epoch: {j['epochs'][-1]['gpu']}")


def main():
    os.chdir(ROOT)
    for name, text in (("train.py", TRAINER), ("numbers.sh", NUMBERS)):
        with open(name, "w") as f:
            f.write(text)
        os.chmod(name, 0o755)
    with open("c.yaml", "w") as f:
        f.write("optimizer:\n  lr: 0.5\ndata:\n  train: {ann_file: ann.json, img_prefix: images}\nsnapshot:\n  exclude: [images]\n")
    os.mkdir("images")
    for i in range(4):
        with open(f"images/{i}.jpg", "w") as f:
            f.write(str(i))
    with open("ann.json", "w") as f:
        json.dump({"images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(4)], "annotations": [], "categories": []}, f)
    with open(".gitignore", "w") as f:
        f.write("*\n!train.py\n!new.py\n!*.yaml\n")
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        os.environ[name + "_NAME"] = os.environ[name + "_EMAIL"] = "a"
    os.environ["GIT_CONFIG_GLOBAL"] = "/dev/null"
    subprocess.run("git init -q -b main . && git add -A && git commit -qm one", shell=True, check=True)
    for test in (listing, showing, following, diffs, exports, imports, maintenance, schema, stores, damage, telemetry):
        if len(sys.argv) < 4 or test.__name__ in sys.argv[3:]:
            begin = time.time()
            test()
            print(f"{test.__name__}: {time.time() - begin:.1f} s", flush=True)


main()
