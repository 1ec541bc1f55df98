"""The same measurements for a peer from PyPI: prints one JSON object. bench/recorder.sh runs it.

usage: recorder_peers.py PEER FOLDER
Each peer is called as its documentation's first example does, one value a call, with code and telemetry capture off, then once
more with its defaults; what another process can read, what is left after a kill, lists and series are read by a fresh process,
through the peer's own reader where it has one. PEER `exp` is a trainer in Python under `exp run` (EXP names the program).
"""
import glob
import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import time

KILL_AFTER = 1500  # points, at 1 kHz
LISTED = 1000
FILL_SECONDS = 150  # making the runs to list may take longer than listing them


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs if os.path.isfile(os.path.join(d, f)))


class Mlflow:
    points = 3000

    def __init__(self, folder, name="bench", defaults=False):
        import mlflow
        self.mlflow = mlflow
        self.version = mlflow.__version__
        mlflow.set_tracking_uri("sqlite:///" + os.path.join(folder, "mlflow.db"))
        mlflow.set_experiment("bench")
        self.run = mlflow.start_run(run_name=name)

    def log(self, step, value):
        self.mlflow.log_metric("loss", value, step=step)

    def close(self):
        self.mlflow.end_run()

    @staticmethod
    def client(folder):
        from mlflow.tracking import MlflowClient
        return MlflowClient("sqlite:///" + os.path.join(folder, "mlflow.db"))

    @classmethod
    def list(cls, folder):
        c = cls.client(folder)
        e = c.get_experiment_by_name("bench").experiment_id
        return len(c.search_runs([e], max_results=5000))

    @classmethod
    def read(cls, folder):
        c = cls.client(folder)
        e = c.get_experiment_by_name("bench")
        runs = c.search_runs([e.experiment_id]) if e else []
        return len(c.get_metric_history(runs[0].info.run_id, "loss")) if runs else 0


class Aim:
    points = 20000

    def __init__(self, folder, name="bench", defaults=False):
        import aim
        self.version = getattr(aim.__version__, "__version__", str(aim.__version__))
        off = {} if defaults else {"system_tracking_interval": None, "log_system_params": False, "capture_terminal_logs": False}
        self.run = aim.Run(repo=folder, **off)

    def log(self, step, value):
        self.run.track(value, name="loss", step=step)

    def close(self):
        self.run.close()

    # Only what its index manager (a part of `aim up`) has indexed can be read: done here, and not timed.
    indexed = set()

    @classmethod
    def repo(cls, folder):
        import aim
        from aim.sdk.index_manager import RepoIndexManager
        repo = aim.Repo(folder)
        manager = RepoIndexManager.get_index_manager(repo)
        for run in repo.list_all_runs():
            if run not in cls.indexed:
                manager.index(run)
                cls.indexed.add(run)
        return aim.Repo(folder)

    @classmethod
    def list(cls, folder):
        return sum(run.name is not None for run in cls.repo(folder).iter_runs())

    @classmethod
    def read(cls, folder):
        n = 0
        for run in cls.repo(folder).iter_runs():
            for metric in run.metrics():
                n += len(metric.values.sparse_list()[0]) if metric.name == "loss" else 0
        if n == 0:
            cls.indexed.clear()  # it may have been too early
        return n


class Sacred:
    points = 20000

    def __init__(self, folder, name="bench", defaults=False):
        import sacred
        from sacred.observers import FileStorageObserver
        self.version = sacred.__version__
        experiment = sacred.Experiment(name, save_git_info=False)  # with it, it needs a repository around the script
        experiment.observers.append(FileStorageObserver(folder))
        self.experiment, self.options = experiment, {"--loglevel": "ERROR"}
        if not defaults:
            self.options["--capture"] = "no"

    def drive(self, body):
        owner = self

        def main(_run):
            owner.run = _run
            body()
        self.experiment.main(main)
        self.experiment.run(options=self.options)

    def log(self, step, value):
        self.run.log_scalar("loss", value, step)

    @staticmethod
    def list(folder):
        n = 0
        for f in glob.glob(folder + "/*/run.json"):
            with open(f) as g:
                json.load(g)
            n += 1
        return n

    @staticmethod
    def read(folder):
        for f in glob.glob(folder + "/*/metrics.json"):
            with open(f) as g:
                return len(json.load(g)["loss"]["values"])
        return 0


class Trackio:
    points = 3000

    @staticmethod
    def prepare(folder):  # read when it is imported
        os.environ["TRACKIO_DIR"] = os.environ["HF_HOME"] = folder

    def __init__(self, folder, name="bench", defaults=False):
        import trackio
        self.trackio = trackio
        self.version = trackio.__version__
        off = {} if defaults else {"auto_log_gpu": False, "auto_log_cpu": False}
        trackio.init(project="bench", name=name, **off)

    def log(self, step, value):
        self.trackio.log({"loss": value}, step=step)

    def close(self):
        self.trackio.finish()

    @staticmethod
    def storage():
        from trackio.sqlite_storage import SQLiteStorage
        return SQLiteStorage

    @classmethod
    def list(cls, folder):
        return len(cls.storage().get_runs("bench"))

    @classmethod
    def read(cls, folder):
        return sum("loss" in row for row in cls.storage().get_logs("bench", "bench", max_points=None))


class Wandb:
    points = 20000
    no_list = "no reader for offline runs"

    def __init__(self, folder, name="bench", defaults=False):
        os.environ.update(WANDB_MODE="offline", WANDB_DIR=folder, WANDB_SILENT="true")
        import wandb
        self.version = wandb.__version__
        off = {} if defaults else {"settings": wandb.Settings(x_disable_stats=True, disable_code=True, disable_git=True)}
        self.run = wandb.init(project="bench", **off)

    def log(self, step, value):
        self.run.log({"loss": value}, step=step)

    def close(self):
        self.run.finish()

    @staticmethod
    def read(folder):
        from wandb.proto import wandb_internal_pb2
        n = 0
        for file in {os.path.realpath(f) for f in glob.glob(folder + "/**/*.wandb", recursive=True)}:
            with open(file, "rb") as f:
                for data in leveldb_records(f.read()):
                    record = wandb_internal_pb2.Record()
                    record.ParseFromString(data)
                    n += record.WhichOneof("record_type") == "history"
        return n


def leveldb_records(log):
    """Of a .wandb file: LevelDB's log format behind a header of 7 bytes, until its torn end."""
    at, parts = 7, []
    while at + 7 <= len(log):
        room = 32768 - at % 32768
        if room < 7:  # the rest of a block
            at += room
            continue
        length, kind = struct.unpack_from("<HB", log, at + 4)
        if kind not in (1, 2, 3, 4) or at + 7 + length > len(log):
            return
        parts.append(log[at + 7:at + 7 + length])
        at += 7 + length
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []


PEERS = {"mlflow": Mlflow, "aim": Aim, "sacred": Sacred, "trackio": Trackio, "wandb": Wandb}


def drive(peer, body):
    if hasattr(peer, "drive"):
        return peer.drive(body)
    body()
    peer.close()


def command(*args):
    return [sys.executable, __file__, *args]


def child(*args, timeout=280):
    r = subprocess.run(command(*args), capture_output=True, text=True, timeout=timeout)
    lines = [line for line in r.stdout.splitlines() if line.startswith("= ")]
    if not lines:
        raise RuntimeError(f"{args[0]}: " + (r.stderr.strip().splitlines() or ["no answer"])[-1])
    return lines[-1].split()[1:]


def answer(*values):
    print("=", *values, flush=True)


def begin(name, folder, out, key, **more):
    start = time.perf_counter()
    peer = PEERS[name](folder, **more)
    out[key] = round((time.perf_counter() - start) * 1e3, 1)
    return peer


def calls(peer, points):
    ns = []

    def body():
        for i in range(points):
            before = time.perf_counter_ns()
            peer.log(i, 0.001 * i)
            ns.append(time.perf_counter_ns() - before)
    start, used = time.perf_counter(), time.process_time()
    drive(peer, body)
    return sorted(ns), time.perf_counter() - start, time.process_time() - used


def speed(name, folder):
    __import__(name)
    out = {}
    peer = begin(name, folder, out, "begin_ms")
    out["version"] = peer.version
    before = folder_bytes(folder)
    ns, seconds, used = calls(peer, peer.points)
    out.update(points=peer.points, caller_ns_median=int(statistics.median(ns)), caller_ns_p99=ns[len(ns) * 99 // 100],
               durable_points_per_s=round(peer.points / seconds), processor_us_per_point=round(used / peer.points * 1e6, 1),
               bytes_per_point=round((folder_bytes(folder) - before) / peer.points, 1))
    answer(json.dumps(out))


def defaults(name, folder):
    __import__(name)
    out = {}
    peer = begin(name, folder, out, "begin_ms", defaults=True)
    ns = calls(peer, peer.points)[0]
    answer(out["begin_ms"], int(statistics.median(ns)))


def watch(name, folder):
    """Says when another process could read a first and a second point."""
    peer, seen = PEERS[name], 0
    answer("watching")
    end = time.time() + 60
    while seen < 2 and time.time() < end:
        try:
            n = peer.read(folder)
        except Exception:  # not there yet
            n = 0
        while seen < min(n, 2):
            seen += 1
            answer(time.time())
        time.sleep(0.001)


def visible(name, folder):
    peer, waits = PEERS[name](folder), []
    watcher = subprocess.Popen(command("watch", name, folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def body():
        watcher.stdout.readline()
        time.sleep(3)  # its imports; the first point only warms up
        for i in range(2):
            start = time.time()
            peer.log(i, 1.0)
            line = watcher.stdout.readline()
            if line:
                waits.append((float(line.split()[1]) - start) * 1e3)
        watcher.kill()
        answer(round(waits[1]) if len(waits) > 1 else "nan")
        os._exit(0)
    drive(peer, body)


def victim(name, folder):
    peer = PEERS[name](folder)

    def body():
        for i in range(KILL_AFTER):
            peer.log(i, 1.0)
            time.sleep(0.001)
        print("done", flush=True)
        time.sleep(60)
    drive(peer, body)


def killed(name, folder):
    """Points left of 1,500 when the process (with what it started) is killed behind the last."""
    process = subprocess.Popen(command("victim", name, folder), stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL, start_new_session=True)
    for line in process.stdout:
        if line.strip().endswith("done"):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return int(child("read", name, folder)[0])


def fill(name, folder):
    end, made = time.time() + FILL_SECONDS, 0
    while made < LISTED and time.time() < end:
        peer = PEERS[name](folder, f"r{made}")
        drive(peer, lambda peer=peer: peer.log(0, 1.0))
        made += 1
    answer(made)


def timed(what, name, folder):
    peer = PEERS[name]
    getattr(peer, what)(folder)  # imports and caches
    start = time.perf_counter()
    n = getattr(peer, what)(folder)
    answer(n, round((time.perf_counter() - start) * 1e3, 2))


def through_lines(folder):
    """A trainer in Python under `exp run`, with the defaults: it appends JSON lines."""
    os.makedirs(folder)
    with open(folder + "/c.yaml", "w") as f:
        f.write("a: 1\n")
    start = time.perf_counter()
    subprocess.run([os.environ["EXP"], "run", "c.yaml", "--store", "store", "--", *command("lines", "200000", folder + "/ns")], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    with open(folder + "/ns") as f:
        median, p99 = f.read().split()
    print(json.dumps({"name": "exp, JSON lines from Python", "points": 200000, "caller_ns_median": int(median), "caller_ns_p99": int(p99),
                      "durable_points_per_s": round(200000 / seconds), "bytes_per_point": round(folder_bytes(folder + "/store") / 200000, 1)}))


def lines(points, result):
    ns = []
    with open(os.environ["EXP_METRICS"], "a") as out:
        for i in range(points):
            before = time.perf_counter_ns()
            out.write(json.dumps({"step": i, "loss": 0.001 * i}) + "\n")
            out.flush()
            ns.append(time.perf_counter_ns() - before)
    ns.sort()
    with open(result, "w") as out:
        out.write(f"{ns[points // 2]} {ns[points * 99 // 100]}")


def measure(name, folder):
    for part in ("speed", "defaults", "visible", "killed", "list"):
        os.makedirs(os.path.join(folder, part))
    out = {"name": name}

    def attempt(body):
        try:
            body()
        except Exception as e:
            out.setdefault("errors", []).append(f"{type(e).__name__}: {e}"[:200])

    def with_defaults():
        begin_ms, median = child("defaults", name, folder + "/defaults")
        out.update(defaults_begin_ms=float(begin_ms), defaults_caller_ns_median=int(median))

    def read_back():
        n, ms = child("read", name, folder + "/speed")
        out.update(read_series_ms=float(ms), read_points=int(n))

    def listing():
        peer = PEERS[name]
        if not hasattr(peer, "list"):
            out["list"] = peer.no_list
            return
        child("fill", name, folder + "/list", timeout=FILL_SECONDS + 60)
        n, ms = child("list", name, folder + "/list")
        out.update(listed_runs=int(n), list_ms=float(ms))

    attempt(lambda: out.update(json.loads(" ".join(child("speed", name, folder + "/speed", timeout=600)))))
    attempt(read_back)
    attempt(lambda: out.update(visible_ms=float(child("visible", name, folder + "/visible")[0])))
    attempt(lambda: out.update(left_of_1500_after_kill=killed(name, folder + "/killed")))
    attempt(with_defaults)
    attempt(listing)
    print(json.dumps(out).replace("NaN", '"not while it runs"'), flush=True)


def main():
    what, args = sys.argv[1], sys.argv[2:]
    if len(args) > 1 and hasattr(PEERS.get(args[0]), "prepare"):
        PEERS[args[0]].prepare(args[1])
    if what in ("read", "list"):
        timed(what, *args)
    elif what == "lines":
        lines(int(args[0]), args[1])
    elif what in ("speed", "victim", "fill", "defaults", "watch", "visible"):
        globals()[what](*args)
    elif what == "exp":
        through_lines(args[0])
    else:
        measure(what, args[0])
    sys.stdout.flush()
    os._exit(0)  # some peers leave threads


main()
