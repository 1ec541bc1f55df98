"""A store that the tests of ../record_commands.sh share: EXP and its FOLDER are the first two arguments."""
import json
import os
import subprocess
import sys

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
