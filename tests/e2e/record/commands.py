"""usage: commands.py EXP FOLDER [TEST...]   See ../record_commands.sh."""
import copy
import csv
import glob
import json
import math
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import event_files  # noqa: E402

EXP, ROOT = sys.argv[1], sys.argv[2]
STORE = os.path.join(ROOT, "store")

TRAINER = r"""#!/usr/bin/env python3
import json, math, os, sys, time
m = open(os.environ["EXP_METRICS"], "a")
def say(**o): m.write(json.dumps(o) + "\n"); m.flush()
lr = float([l for l in open(os.environ["EXP_CONFIG"]) if "lr:" in l][0].split(":")[1])
slow = float(os.environ.get("SLOW", 0))
for e in range(3):
    for i in range(20):
        s = e * 20 + i
        say(step=s, loss=math.exp(-lr * s), lr=lr)
        if slow: time.sleep(slow)
    say(epoch=e, step=e * 20 + 20, metrics={"bbox_mAP": lr * (e + 1) / 4 + float(os.environ.get("NOISE", 0))})
open(os.environ["EXP_WORK_DIR"] + "/last.pth", "w").write(str(lr))
"""
NUMBERS = r"""#!/bin/sh
cat "$NUMBERS" >>"$EXP_METRICS"
"""


def fail(text):
    print("FAILED:", text)
    sys.exit(1)


def check(fact, text):
    if not fact:
        fail(text)


def exp(*args, code=0, env=None, store=STORE):
    where = ["--store", store] if store else []
    r = subprocess.run([EXP, *args[:1], *where, *args[1:]], capture_output=True, text=True, env={**os.environ, **(env or {})})
    if code is not None and r.returncode != code:
        fail(f"exit {r.returncode}, not {code}: {args}: {r.stdout}{r.stderr}")
    check("fault of exp itself" not in r.stderr, f"{args}: {r.stderr}")
    return r.stdout + r.stderr


def run(name, *more, env=None, code=0, store=STORE):
    return exp("run", "c.yaml", "--name", name, "--work-dir", os.path.join(ROOT, "wd-" + name), *more, "--", "./train.py", code=code, env=env,
               store=store)


def names(*args):
    return [r["name"] for r in json.loads(exp("ls", "--json", *args))]


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
    check(exp("diff", "d", "e", "--patch") == "", "committed or not, the code is the same")
    # Reproduce says the same in its table, and which images changed.
    text = exp("reproduce", "c", code=0)
    check("2 images changed: 1.jpg, 2.jpg" in text and "bit for bit" in text, text)
    text = exp("reproduce", "c", code=3, env={"NOISE": "0.5"})
    check("diverged in epoch 1" in text and "may explain it: data: train: 2 images changed" in text, text)


def exports():
    out = os.path.join(ROOT, "out")
    numbers = ['{"step": 0, "nan": NaN, "inf": -Infinity, "zero": -0.0, "tiny": 5e-324, "big": 9223372036854775807, "huge": 18446744073709551615}',
               json.dumps({"step": 1, "loss/rpn@50:95": 1, "т" * 300: 2, "a b\tc": 3, "": 4, "x" * 70000: 5}),
               json.dumps({"step": 2, "text": "y" * (1 << 20), "list": list(range(100000)), "quote": 'a "b"\n,c'}),
               '{"step": 3, "nan": 1.5, "inf": 1e308, "low": -9223372036854775808}',
               '{"epoch": 0, "step": 4, "metrics": {"bbox_mAP": NaN, "bbox_mAP_50": 0.1}}',
               '{"step": 5, "c": nan, "d": -inf, "e": [inf, 1e999, -1E+400], "f": 1e308, "half \\ud800": 1, "pair \\ud83c\\udf89": 2, "info": "nan inf"}',
               '{"epoch": 1, "step": 6, "metrics": {"odd\\nname\\u001b[31m": 1, "zero\\u0000byte": 2}}', '{"step": 6, "odd\\nname\\u001b[31m": 1}',
               "{" * 5000, "not json", '{"warning": "w"}']
    with open("numbers", "w") as f:
        f.write("\n".join(numbers))
    exp("run", "c.yaml", "--name", "numbers", "--tag", "a tag/with: all", "--", "./numbers.sh", env={"NUMBERS": os.path.abspath("numbers")})
    text = exp("show", "numbers")
    check("NaN" in text and "metrics.bad_line" in text, text)
    rows = {r["step"]: r["values"] for r in map(json.loads, exp("log", "numbers", "--json").splitlines())}
    check(rows[0]["nan"] == "NaN" and rows[0]["inf"] == "-Infinity" and math.copysign(1, rows[0]["zero"]) == -1, rows[0])
    check(rows[0]["tiny"] == 5e-324 and rows[0]["big"] == 2**63 - 1 and rows[0]["huge"] == 2**64 - 1 and rows[3]["low"] == -2**63, rows[0])
    check(rows[1]["т" * 300] == 2 and rows[1][""] == 4 and rows[1]["x" * 70000] == 5, "names")
    check(rows[2]["text"] == "y" * (1 << 20) and rows[2]["list"] == list(range(100000)), "long values are whole")
    # As C and awk write them, beyond a double, and half of a character.
    odd = {"c": "NaN", "d": "-Infinity", "e": ["Infinity", "Infinity", "-Infinity"], "f": 1e308, "half \ufffd": 1, "pair \U0001f389": 2,
           "info": "nan inf"}
    check(rows[5] == odd, rows[5])
    text = exp("log", "numbers") + exp("show", "numbers")
    check("odd?name?[31m" in text and not any(c in text for c in "\0\x1b\r"), "control characters in names reach a terminal")
    check(len(exp("log", "numbers")) < 400000, "long values are shown shortened")

    # TensorBoard: checksums and values, read without our code; by TensorBoard itself where it is installed.
    exp("export", "numbers", "--format", "tensorboard", "--out", out + "/tb")
    files = glob.glob(out + "/tb/*/events.out.tfevents.*")
    check(len(files) == 1, files)
    scalars = event_files.scalars(files[0])
    got = {(tag, step): v for tag, step, v in scalars}
    check(math.isnan(got["nan", 0]) and got["inf", 0] == -math.inf and got["loss/rpn@50:95", 1] == 1 and got["nan", 3] == 1.5, got.keys())
    check(got["big", 0] == struct.unpack("<f", struct.pack("<f", 2.0**63))[0], "float32")
    # MLflow's layout.
    exp("export", "numbers", "b", "--format", "mlflow", "--out", out + "/ml")
    ids = {n: json.loads(exp("show", n, "--json"))["id"] for n in ("numbers", "b")}
    with open(f"{out}/ml/0/{ids['b']}/metrics/loss") as f:
        lines = [line.split() for line in f]
    check(len(lines) == 60 and float(lines[59][1]) == math.exp(-0.1 * 59) and lines[59][2] == "59", lines[-1])
    # CSV, with quotes, commas and line ends in it.
    exp("export", "numbers", "--format", "csv", "--out", out + "/csv")
    csv.field_size_limit(1 << 24)
    with open(glob.glob(out + "/csv/*/curves.csv")[0], newline="") as f:
        table = list(csv.DictReader(f))
    check([r["value"] for r in table if r["name"] == "nan"] == ["NaN", "1.5"], "csv")
    check(json.loads([r["value"] for r in table if r["name"] == "quote"][0]) == 'a "b"\n,c', "csv quotes")
    check("where to?" in exp("export", "b", "--format", "csv", code=2), "no --out")
    by_peers(out, ids)


def by_peers(out, ids):
    """The clients themselves, where they are installed (EXP_PEERS names their python)."""
    python = os.environ.get("EXP_PEERS")
    if not python:
        return print("  not read by tensorboard and mlflow: EXP_PEERS names no python that has them")
    code = f"""
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
import glob, math
a = EventAccumulator(glob.glob({out!r} + "/tb/*")[0], size_guidance={{"scalars": 0}}); a.Reload()
v = a.Scalars("nan"); assert [x.step for x in v] == [0, 3] and math.isnan(v[0].value) and v[1].value == 1.5, v
assert "metric/bbox_mAP_50" in a.Tags()["scalars"], a.Tags()
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow.tracking import MlflowClient
c = MlflowClient(tracking_uri="file://" + {out!r} + "/ml")
r = c.get_run({ids['b']!r})
assert r.info.run_name == "b" and r.info.status == "FINISHED", r.info
assert r.data.params["optimizer.lr"] == "0.1", r.data.params
h = c.get_metric_history({ids['b']!r}, "loss"); assert len(h) == 60 and h[59].step == 59 and h[59].value == math.exp(-0.1 * 59), h[-1]
assert r.data.metrics["bbox_mAP"] == 0.1 * 3 / 4, r.data.metrics
n = c.get_run({ids['numbers']!r}); assert math.isnan(n.data.metrics["bbox_mAP"])
assert len(c.search_runs(["0"])) == 2
print("  read by TensorBoard's and MLflow's own clients")
"""
    r = subprocess.run([python, "-c", code], capture_output=True, text=True)
    check(r.returncode == 0, r.stderr[-2000:])
    print(r.stdout.strip("\n"))


def paths(node, at=()):
    yield at
    if isinstance(node, dict):
        for key in node:
            yield from paths(node[key], at + (key,))
    elif isinstance(node, list):
        for i in range(min(len(node), 2)):
            yield from paths(node[i], at + (i,))


def mangled(whole, at, value):
    if not at:
        return value
    out = copy.deepcopy(whole)
    node = out
    for key in at[:-1]:
        node = node[key]
    if value is DELETE:
        del node[at[-1]]
    else:
        node[at[-1]] = value
    return out


DELETE = object()


def rows(store, run):
    """All that a store holds of a run, table by table, without the store's own numbers."""
    db = sqlite3.connect(f"file:{store}/exp.db?mode=ro", uri=True)
    db.text_factory = bytes
    db.row_factory = sqlite3.Row
    seq = db.execute("SELECT seq FROM run WHERE id=?", (run,)).fetchone()[0]
    number = {r["id"]: r["number"] for r in db.execute("SELECT id,number FROM attempt WHERE run=?", (seq,))}
    epoch = {r["id"]: (number[r["attempt"]], r["epoch"]) for r in db.execute("SELECT id,attempt,epoch FROM epoch") if r["attempt"] in number}
    series = {r["id"]: (number[r["attempt"]], r["name"]) for r in db.execute("SELECT id,attempt,name FROM series ORDER BY id") if r["attempt"] in number}
    out = {"order of curves": list(series.values())}
    names = {"run": {"seq": {seq: 0}}, "attempt": {"attempt": number, "id": number}, "epoch": {"id": epoch, "attempt": number},
             "series": {"id": series, "attempt": number}, "epoch_value": {"epoch": epoch}, "point": {"series": series}}
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite%'").fetchall():
        table = table.decode()
        if table in ("document", "object", "doctor", "bench", "bench_row"):
            continue
        found = []
        for r in db.execute(f"SELECT * FROM {table}"):
            row = dict(r)
            if row.get("run", seq) != seq or row.get("seq", seq) != seq or row.get("attempt", next(iter(number))) not in number:
                continue
            replaced = {"seq": {seq: 0}, "run": {seq: 0}, "attempt": number, **names.get(table, {})}
            for column, known in replaced.items():
                if column in row and column != "parent":
                    row[column] = known.get(row[column], "another run's")
            if "another run's" in row.values():
                continue
            if table in ("checkpoint", "warning"):
                row.pop("id")
            row.pop("parent", None)
            found.append(sorted((k, repr(v)) for k, v in row.items()))
        out[table] = sorted(found)
    for table, key in (("document", "hash"), ("object", "hash")):
        used = {v.strip("b'") for row in sum((out[t] for t in ("run", "attempt", "run_object", "config_source", "dataset")), []) for _, v in row}
        out[table] = sorted(tuple(r) for r in db.execute(f"SELECT * FROM {table} ORDER BY 1") if r[key].decode() in used)
    db.close()
    return out


def imports():
    everything = os.path.join(ROOT, "everything")
    for r in json.loads(exp("ls", "--json")):
        one = os.path.join(ROOT, "one.json")
        exp("export", r["id"], "--out", one)
        exp("import", one, store=everything)
        before, after = rows(STORE, r["id"]), rows(everything, r["id"])
        check(before.keys() == after.keys() and len(before["point"]) > 3 and before["object"] and before["document"], before.keys())
        for table in before:
            check(before[table] == after[table],
                  f"{r['name']}: {table}: {[x for x in before[table] if x not in after[table]][:2]} {[x for x in after[table] if x not in before[table]][:2]}")
    file, other = os.path.join(ROOT, "b.json"), os.path.join(ROOT, "other")
    exp("export", "b", "--out", file)
    check("imported" in exp("import", file, store=other), "import")
    check("already" in exp("import", file, code=2, store=other), "twice")
    again = os.path.join(ROOT, "again.json")
    exp("export", "b", "--out", again, store=other)
    first, second = (json.load(open(f)) for f in (file, again))
    check(first["curves"] == second["curves"] and first["objects"] == second["objects"] and first["documents"] == second["documents"], "exact")
    check(exp("show", "b", store=other).count("\n") == exp("show", "b").count("\n"), "shown the same")
    exp("import", "numbers", code=2, store=other)
    exp("import", "/nonexistent", code=2, store=other)
    exp("import", ROOT, code=2, store=other)
    # Each field, with wrong values: an error that says so, exit code 2, and the store as it was.
    exp("export", "numbers", "--out", os.path.join(ROOT, "n.json"))
    tried, accepted = 0, []
    bad, empty = os.path.join(ROOT, "bad.json"), os.path.join(ROOT, "empty")
    fields = list(paths(first))
    step = max(1, len(fields) // (len(fields) if "EXP_LONG_TESTS" in os.environ else 60))
    for k, at in enumerate(fields):
        if k % step and len(at) > 2:
            continue
        for value in [5, "x", None, [], {}, DELETE] if "EXP_LONG_TESTS" in os.environ else [[5, "x", None, [], {}, DELETE][k % 6]]:
            if value is DELETE and not at:
                continue
            broken = mangled(first, at, value)
            if broken == first:
                continue
            with open(bad, "w") as f:
                json.dump(broken, f)
            text = exp("import", bad, code=2, store=empty)
            check("damaged" in text or "no exported run" in text, text)
            tried += 1
    for text in ("", "[", "[" * 100000 + "]" * 100000, '{"a":' * 100000 + "1" + "}" * 100000, "\xff\xfe", open(file).read()[:-500]):
        with open(bad, "w", encoding="latin-1") as f:
            f.write(text)
        exp("import", bad, code=2, store=empty)
        tried += 1
    check("no runs" in exp("ls", store=empty), "nothing of it stays")
    print(f"  {tried} damaged exports, each refused")


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
