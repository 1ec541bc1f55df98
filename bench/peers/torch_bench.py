#!/usr/bin/env python3
"""The cases of `exp bench` in PyTorch, one JSON line each, measured by the same rule.

Reads a JSON list of cases from the first argument: {"model", "batch", "precision", "device", "mode",
"deterministic", "seconds", "repeats", "warmup", "settle", "bound", "height", "width", "max_boxes", "threads"}; mode is
eager or compile. Whole training steps (forward, loss, backward, SGD with momentum and weight decay) on random
tensors that lie on the device.
"""
import json, sys, time, warnings

warnings.filterwarnings("ignore")
try:
    import torch, torchvision
except Exception as e:  # noqa: BLE001
    print(json.dumps({"missing": f"{type(e).__name__}: {e}"}), flush=True)
    sys.exit(0)


class TimeLimit(Exception):
    """A case that can't be measured within its bound (`seconds_a_case`); `step`: seconds that were measured."""

    def __init__(self, step, found, bound):
        super().__init__(f"{found}; the bound is {bound:.3g} s a case")
        self.step = step


def make(c):
    name = c["model"]
    if name.startswith(("fasterrcnn", "ssd300")):
        if name.startswith("ssd300"):
            model = torchvision.models.detection.ssd300_vgg16(weights=None, weights_backbone=None, num_classes=91)
        else:
            model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
                weights=None, weights_backbone=None, num_classes=91, trainable_backbone_layers=5)
        # They scale images to sizes of their own (800 to 1333, 300): to the case's instead.
        model.transform.fixed_size = (c["width"], c["height"])
        return model
    if name == "resnext101_32x4d" or name.startswith("se_"):
        if not name.startswith("se_"):
            return torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=4)
        import timm
        return timm.create_model("seresnext101_32x4d", pretrained=False)
    return getattr(torchvision.models, name)(weights=None)


def detection_batch(c, device):
    g = torch.Generator().manual_seed(0)
    n, h, w, boxes = c["batch"], c["height"], c["width"], c["max_boxes"]
    images = [torch.rand(3, h, w, generator=g).to(device) for _ in range(n)]
    targets = []
    for _ in range(n):
        xy = torch.rand(boxes, 2, generator=g) * torch.tensor([w * 0.6, h * 0.6])
        wh = torch.rand(boxes, 2, generator=g) * torch.tensor([w * 0.3, h * 0.3]) + 16
        targets.append({"boxes": torch.cat([xy, xy + wh], 1).to(device),
                        "labels": torch.randint(1, 91, (boxes,), generator=g).to(device)})
    return images, targets


def measure(c):
    cuda = c["device"] != "cpu" and torch.cuda.is_available()
    device = torch.device(c["device"] if cuda and ":" in c["device"] else "cuda" if cuda else "cpu")
    if c["device"].startswith("cuda") and not cuda:
        raise RuntimeError("this PyTorch sees no GPU")
    if not cuda and c["threads"] > 0:
        torch.set_num_threads(c["threads"])
    wait = torch.cuda.synchronize if cuda else lambda: None
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(c["deterministic"])
    torch.utils.deterministic.fill_uninitialized_memory = False  # for finding faults; it only costs time
    torch.backends.cudnn.benchmark = not c["deterministic"]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = c["precision"] != "fp32"
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(c["precision"])
    start = time.perf_counter()
    detector = c["model"].startswith(("fasterrcnn", "ssd"))
    model = make(c).to(device).train()
    if not detector:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4, fused=cuda)
    scaler = torch.amp.GradScaler("cuda", enabled=cuda and c["precision"] == "fp16")
    net = model
    if c["mode"] == "compile" and not detector:
        torch._dynamo.reset()  # a second batch size would be compiled for any: 5,600 instead of 7,180 img/s
        net = torch.compile(model, dynamic=False)
    if detector:
        images, targets = detection_batch(c, device)
        loss_of = lambda: sum(net(images, targets).values())
    else:
        x = torch.randn(c["batch"], 3, c["height"], c["width"], device=device).to(memory_format=torch.channels_last)
        y = torch.randint(0, 1000, (c["batch"],), device=device)
        loss_of = lambda: torch.nn.functional.cross_entropy(net(x), y)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    def window(steps):
        t = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        return (time.perf_counter() - t) / steps

    if cuda:
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    left = lambda: c["bound"] - (time.perf_counter() - begin) if c["bound"] > 0 else float("inf")
    repeats = lambda s: c["repeats"] * max(1, int(c["seconds"] / s)) * s
    loss = step()
    wait()
    first, setup = time.perf_counter() - begin, time.perf_counter() - start
    if c["mode"] == "eager" and left() < 0:
        raise TimeLimit(first, f"the first step took {first:.3g} s", c["bound"])
    before = window(1)
    if c["mode"] == "compile":  # the first step's minutes are the compiler's
        begin = time.perf_counter() - before
    more = max(0, c["warmup"] - 2)
    rest = more * before + repeats(before)
    if left() < rest:
        raise TimeLimit(before, f"a step takes {before:.3g} s, {more} more to warm up and {c['repeats']} repeats at least {rest:.3g} s", c["bound"])
    if more > 0:
        before = window(more)
    longest = min(c["settle"], left() - repeats(before))
    settling = time.perf_counter()
    while time.perf_counter() - settling < longest:
        now = window(max(1, int(0.25 * c["seconds"] / before)))
        steady = abs(now - before) < 0.02 * before
        before = now
        if steady:
            break
    steps = max(1, int(c["seconds"] / before))
    times = sorted(window(steps) for _ in range(max(1, c["repeats"])))
    middle = times[len(times) // 2]
    limit = max(1.1 * middle, middle + 5 * sorted(abs(t - middle) for t in times)[len(times) // 2])
    outliers = 0
    while outliers < c["repeats"] // 3 and times[-1] > limit:
        times.pop()
        outliers += 1
    median = times[len(times) // 2]
    name = f"{torch.cuda.get_device_name(device)}, cuDNN {torch.backends.cudnn.version()}" if cuda else f"cpu, {torch.get_num_threads()} threads"
    return {"status": "ok", "device": f"{name}, PyTorch {torch.__version__}",
            "images_per_second": c["batch"] / median, "milliseconds": median * 1e3, "fastest_milliseconds": times[0] * 1e3,
            "slowest_milliseconds": times[-1] * 1e3, "spread": (times[-1] - times[0]) / median, "repeats": len(times),
            "outliers": outliers, "steps_a_repeat": steps, "setup_seconds": setup, "loss": float(loss.detach()),
            "bytes": torch.cuda.max_memory_allocated() if cuda else 0}


def main():
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print isn't a result
    too_long = {}  # the smallest batch, by the rest of the case
    for c in json.loads(sys.argv[1]):
        kind = json.dumps({**c, "batch": 0}, sort_keys=True)
        try:
            if c["batch"] >= too_long.get(kind, float("inf")):
                print(json.dumps({"status": "time lim", "reason": f"batch {too_long[kind]} takes too long already"}), file=out, flush=True)
                continue
            row = measure(c)
        except KeyboardInterrupt:
            sys.exit(130)
        except TimeLimit as e:
            too_long[kind] = c["batch"]
            row = {"status": "time lim", "milliseconds": e.step * 1e3, "reason": str(e)}
        except Exception as e:  # noqa: BLE001
            memory = isinstance(e, getattr(torch.cuda, "OutOfMemoryError", MemoryError)) or "out of memory" in str(e).lower()
            text = (str(e).splitlines() or [""])[0][:200]
            row = {"status": "mem lim" if memory else "fail", "reason": f"{type(e).__name__}: {text}"}
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        print(json.dumps(row), file=out, flush=True)


if __name__ == "__main__":
    main()
