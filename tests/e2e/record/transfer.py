"""Tests of exports and imports, for commands.py."""
import copy
import csv
import glob
import json
import math
import os
import sqlite3
import struct
import subprocess

import event_files
from shared_store import ROOT, STORE, check, exp


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
    check("odd name?[31m" in text and not any(c in text for c in "\0\x1b\r"), "control characters in names reach a terminal")
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
    check("no folder to write to is named" in exp("export", "b", "--format", "csv", code=2), "no --out")
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
