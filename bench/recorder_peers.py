"""The same measurements for a peer from PyPI: prints one JSON object. bench/recorder.sh runs it.

usage: recorder_peers.py PEER FOLDER
Each peer is called as its documentation's first example does, one value a call, with code and telemetry capture off.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import time


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs)


class Mlflow:
    points = 3000

    def __init__(self, folder):
        import mlflow
        self.mlflow = mlflow
        self.version = mlflow.__version__
        mlflow.set_tracking_uri("sqlite:///" + os.path.join(folder, "mlflow.db"))
        mlflow.set_experiment("bench")
        self.run = mlflow.start_run()

    def log(self, step, value):
        self.mlflow.log_metric("loss", value, step=step)

    def close(self):
        self.mlflow.end_run()

    def count(self):
        client = self.mlflow.MlflowClient()
        return len(client.get_metric_history(self.run.info.run_id, "loss"))


class Aim:
    points = 20000

    def __init__(self, folder):
        import aim
        self.version = aim.__version__.__version__ if hasattr(aim.__version__, "__version__") else str(aim.__version__)
        self.repo = folder
        self.run = aim.Run(repo=folder, system_tracking_interval=None, log_system_params=False, capture_terminal_logs=False)

    def log(self, step, value):
        self.run.track(value, name="loss", step=step)

    def close(self):
        self.run.close()

    def count(self):
        return None


class Sacred:
    points = 20000

    def __init__(self, folder):
        import sacred
        from sacred.observers import FileStorageObserver
        self.version = sacred.__version__
        self.folder = folder
        self.ready = None
        experiment = sacred.Experiment("bench", save_git_info=False)
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

    def close(self):
        pass

    def count(self):
        try:
            with open(os.path.join(self.folder, "1", "metrics.json")) as f:
                return len(json.load(f)["loss"]["values"])
        except Exception:
            return 0


class Trackio:
    points = 3000

    def __init__(self, folder):
        os.environ["TRACKIO_DIR"] = folder
        os.environ["HF_HOME"] = folder
        import trackio
        self.trackio = trackio
        self.version = trackio.__version__
        trackio.init(project="bench")

    def log(self, step, value):
        self.trackio.log({"loss": value}, step=step)

    def close(self):
        self.trackio.finish()

    def count(self):
        return None


class Wandb:
    points = 20000

    def __init__(self, folder):
        os.environ.update(WANDB_MODE="offline", WANDB_DIR=folder, WANDB_SILENT="true", WANDB_DISABLE_GIT="true")
        import wandb
        self.wandb = wandb
        self.version = wandb.__version__
        self.run = wandb.init(project="bench", settings=wandb.Settings(x_disable_stats=True, disable_code=True))

    def log(self, step, value):
        self.run.log({"loss": value}, step=step)

    def close(self):
        self.run.finish()

    def count(self):
        return None


PEERS = {"mlflow": Mlflow, "aim": Aim, "sacred": Sacred, "trackio": Trackio, "wandb": Wandb}


def measure(peer, out):
    ns = []

    def body():
        for i in range(peer.points):
            before = time.perf_counter_ns()
            peer.log(i, 0.001 * i)
            ns.append(time.perf_counter_ns() - before)
    start = time.perf_counter()
    if hasattr(peer, "drive"):
        peer.drive(body)
    else:
        body()
        peer.close()
    seconds = time.perf_counter() - start
    out.update(caller_ns_median=int(statistics.median(ns)), caller_ns_p99=sorted(ns)[len(ns) * 99 // 100],
               durable_points_per_s=round(peer.points / seconds), points=peer.points)


def victim(name, folder):
    peer = PEERS[name](folder)

    def body():
        for i in range(1500):
            peer.log(i, 1.0)
            time.sleep(0.001)
        print("done", flush=True)
        time.sleep(60)
    peer.drive(body) if hasattr(peer, "drive") else body()


def killed(name, folder, out):
    child = subprocess.Popen([sys.executable, __file__, "victim", name, folder], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.DEVNULL)
    for line in child.stdout:
        if line.strip().endswith("done"):
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    if name == "sacred":
        peer = Sacred.__new__(Sacred)
        peer.folder = folder
        out["left_of_1500_after_kill"] = peer.count()
    elif name == "mlflow":
        import sqlite3
        db = sqlite3.connect(os.path.join(folder, "mlflow.db"))
        out["left_of_1500_after_kill"] = db.execute("select count(*) from metrics").fetchone()[0]


def main():
    if sys.argv[1] == "victim":
        return victim(sys.argv[2], sys.argv[3])
    name, folder = sys.argv[1], sys.argv[2]
    os.makedirs(folder + "/speed")
    os.makedirs(folder + "/killed")
    out = {"name": name}
    peer = PEERS[name](folder + "/speed")
    out["version"] = peer.version
    measure(peer, out)
    out["bytes_per_point"] = round(folder_bytes(folder + "/speed") / peer.points, 1)
    if name in ("mlflow", "sacred"):
        killed(name, folder + "/killed", out)
    print(json.dumps(out), flush=True)
    os._exit(0)  # some peers leave threads


main()
