"""The same measurements for a peer from PyPI: prints one JSON object. bench/recorder.sh runs it.

usage: recorder_peers.py PEER FOLDER
Each peer is called as its documentation's first example does, one value a call, with code and telemetry capture off; what is
left after a kill, lists and series are read by a fresh process, through the peer's own reader where it has one.
"""
import glob
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import time

KILL_AFTER = 1500  # points, at 1 kHz


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs)


class Mlflow:
    points, runs = 3000, 1000

    def __init__(self, folder, name="bench"):
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
        r = c.search_runs([c.get_experiment_by_name("bench").experiment_id])[0]
        return len(c.get_metric_history(r.info.run_id, "loss"))


class Aim:
    points, runs = 20000, 300

    def __init__(self, folder, name="bench"):
        import aim
        self.version = getattr(aim.__version__, "__version__", str(aim.__version__))
        self.run = aim.Run(repo=folder, system_tracking_interval=None, log_system_params=False, capture_terminal_logs=False)

    def log(self, step, value):
        self.run.track(value, name="loss", step=step)

    def close(self):
        self.run.close()

    @staticmethod
    def list(folder):
        from aim import Repo
        return sum(1 for _ in Repo(folder).iter_runs())

    @staticmethod
    def read(folder):
        from aim import Repo
        n = 0
        for run in Repo(folder).iter_runs():
            for metric in run.metrics():
                n += len(metric.values.sparse_list()[0])
        return n


class Sacred:
    points, runs = 20000, 100

    def __init__(self, folder, name="bench"):
        import sacred
        from sacred.observers import FileStorageObserver
        self.version = sacred.__version__
        experiment = sacred.Experiment(name, save_git_info=False)
        experiment.observers.append(FileStorageObserver(folder))
        self.experiment = experiment

    def drive(self, body):
        owner = self

        def main(_run):
            owner.run = _run
            body()
        self.experiment.main(main)
        self.experiment.run(options={"--loglevel": "ERROR", "--capture": "no"})

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
    points, runs = 3000, 0

    def __init__(self, folder, name="bench"):
        os.environ["TRACKIO_DIR"] = os.environ["HF_HOME"] = folder
        import trackio
        self.trackio = trackio
        self.version = trackio.__version__
        trackio.init(project="bench", name=name)

    def log(self, step, value):
        self.trackio.log({"loss": value}, step=step)

    def close(self):
        self.trackio.finish()

    @staticmethod
    def read(folder):
        n = 0
        for f in glob.glob(folder + "/**/*.db", recursive=True):
            n += sqlite3.connect(f).execute("SELECT count(*) FROM metrics").fetchone()[0]
        return n


class Wandb:
    points, runs = 20000, 0

    def __init__(self, folder, name="bench"):
        os.environ.update(WANDB_MODE="offline", WANDB_DIR=folder, WANDB_SILENT="true", WANDB_DISABLE_GIT="true")
        import wandb
        self.version = wandb.__version__
        self.run = wandb.init(project="bench", settings=wandb.Settings(x_disable_stats=True, disable_code=True))

    def log(self, step, value):
        self.run.log({"loss": value}, step=step)

    def close(self):
        self.run.finish()

    @staticmethod
    def read(folder):
        from wandb.proto import wandb_internal_pb2
        from wandb.sdk.internal.datastore import DataStore
        n = 0
        for f in glob.glob(folder + "/**/*.wandb", recursive=True):
            store = DataStore()
            store.open_for_scan(f)
            while True:
                try:
                    data = store.scan_data()
                except Exception:  # the torn end
                    break
                if data is None:
                    break
                record = wandb_internal_pb2.Record()
                record.ParseFromString(data)
                n += record.WhichOneof("record_type") == "history"
        return n


PEERS = {"mlflow": Mlflow, "aim": Aim, "sacred": Sacred, "trackio": Trackio, "wandb": Wandb}


def drive(peer, body):
    if hasattr(peer, "drive"):
        return peer.drive(body)
    body()
    peer.close()


def child(*args, **more):
    return subprocess.run([sys.executable, __file__, *args], capture_output=True, text=True, timeout=280, **more).stdout


def measure(peer, out):
    ns = []

    def body():
        for i in range(peer.points):
            before = time.perf_counter_ns()
            peer.log(i, 0.001 * i)
            ns.append(time.perf_counter_ns() - before)
    start = time.perf_counter()
    drive(peer, body)
    seconds = time.perf_counter() - start
    out.update(caller_ns_median=int(statistics.median(ns)), caller_ns_p99=sorted(ns)[len(ns) * 99 // 100],
               durable_points_per_s=round(peer.points / seconds), points=peer.points)


def victim(name, folder):
    peer = PEERS[name](folder)

    def body():
        for i in range(KILL_AFTER):
            peer.log(i, 1.0)
            time.sleep(0.001)
        print("done", flush=True)
        time.sleep(60)
    drive(peer, body)


def killed(name, folder, out):
    """Points left of 1,500 when the process (with what it started) is killed behind the last, and how soon the first was there."""
    process = subprocess.Popen([sys.executable, __file__, "victim", name, folder], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    for line in process.stdout:
        if line.strip().endswith("done"):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    out["left_of_1500_after_kill"] = int(child("read", name, folder).split()[0])


def timed(what, name, folder, out, key):
    text = child(what, name, folder).split()
    if text:
        out[key], out[key.replace("_ms", "_found")] = float(text[1]), int(text[0])


def main():
    if sys.argv[1] == "victim":
        return victim(sys.argv[2], sys.argv[3])
    if sys.argv[1] in ("read", "list"):
        peer = PEERS[sys.argv[2]]
        getattr(peer, sys.argv[1])(sys.argv[3])  # imports and caches
        start = time.perf_counter()
        n = getattr(peer, sys.argv[1])(sys.argv[3])
        print(n, round((time.perf_counter() - start) * 1e3, 2))
        return sys.stdout.flush(), os._exit(0)
    name, folder = sys.argv[1], sys.argv[2]
    for part in ("speed", "killed", "list"):
        os.makedirs(os.path.join(folder, part))
    out = {"name": name}
    peer = PEERS[name](folder + "/speed")
    out["version"] = peer.version
    measure(peer, out)
    out["bytes_per_point"] = round(folder_bytes(folder + "/speed") / peer.points, 1)
    for part in (lambda: timed("read", name, folder + "/speed", out, "read_series_ms"), lambda: killed(name, folder + "/killed", out)):
        try:
            part()
        except Exception as e:
            out.setdefault("errors", []).append(f"{type(e).__name__}: {e}"[:120])
    if peer.runs:
        try:
            child("fill", name, folder + "/list")
            timed("list", name, folder + "/list", out, f"list_{peer.runs}_runs_ms")
        except Exception as e:
            out.setdefault("errors", []).append(f"{type(e).__name__}: {e}"[:120])
    print(json.dumps(out), flush=True)
    os._exit(0)  # some peers leave threads


def fill(name, folder):
    for i in range(PEERS[name].runs):
        peer = PEERS[name](folder, f"r{i}")
        drive(peer, lambda: peer.log(0, 1.0))
    sys.stdout.flush()
    os._exit(0)


fill(sys.argv[2], sys.argv[3]) if sys.argv[1] == "fill" else main()
