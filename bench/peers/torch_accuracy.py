#!/usr/bin/env python3
"""What torchvision's own models reach on BCCD from random weights, under the schedules of exp's configs.

    torch_accuracy.py frcnn|ssd DATA_DIR SEED [EPOCHS [WEIGHTS.pth]]     DATA_DIR: instances_{train,val}.json, images/
    torch_accuracy.py cells CROPS_DIR SEED [EPOCHS [WEIGHTS.pth]]        CROPS_DIR: train/, val/, a folder a class

The last line is JSON: metrics of the validation part after the last epoch, and seconds spent in training. WEIGHTS.pth gets
the state dict then.
bf16 autocast, batch norms trained, SGD with momentum 0.9; warm-up of 100 steps from 0.001 of the rate.
  frcnn  fasterrcnn_resnet50_fpn, 640x480, batch 16, lr 0.02, / 10 after epochs 24 and 33 of 36
  ssd    ssd300_vgg16, batch 32, lr 0.001, gradients clipped to norm 10 (without both it diverges), wd 5e-4, / 10 after
         75 % and 92 % of 120; RandomPhotometricDistort, RandomZoomOut, RandomIoUCrop, flips
  cells  resnet50, 96x96 RandomResizedCrop(scale 0.5-1), batch 64, lr 0.025, / 10 after epochs 12 and 18 of 20
"""
import itertools
import json
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def coco_ap(predictions, targets, classes):
    """COCO box AP, all areas, 100 detections an image, no crowds: (AP, AP50)."""
    thresholds, per_class = np.arange(0.5, 0.96, 0.05), []
    for c in classes:
        rows, positives = [], 0
        for p, t in zip(predictions, targets):
            keep = p["labels"] == c
            order = p["scores"][keep].argsort(descending=True, stable=True)[:100]
            boxes, scores = p["boxes"][keep][order], p["scores"][keep][order]
            truth = t["boxes"][t["labels"] == c]
            positives += len(truth)
            iou = torchvision.ops.box_iou(boxes, truth).numpy() if len(truth) and len(boxes) else np.zeros(
                (len(boxes), len(truth)))
            hit = np.zeros((len(thresholds), len(boxes)), bool)
            for k, threshold in enumerate(thresholds):
                used = np.zeros(len(truth), bool)
                for d in range(len(boxes)):
                    free = np.where(used, -1.0, iou[d])
                    if len(truth) and free.max() >= threshold - 1e-10:
                        used[free.argmax()] = hit[k, d] = True
            rows.append((scores.numpy(), hit))
        if not positives:
            continue
        scores = np.concatenate([r[0] for r in rows])
        hit = np.concatenate([r[1] for r in rows], 1)[:, np.argsort(-scores, kind="mergesort")]
        tp, fp = hit.cumsum(1), (~hit).cumsum(1)
        recall, precision = tp / positives, tp / np.maximum(tp + fp, 1)
        ap = []
        for k in range(len(thresholds)):
            envelope = np.maximum.accumulate(precision[k][::-1])[::-1]
            at = np.searchsorted(recall[k], np.linspace(0, 1, 101), side="left")
            ap.append(np.mean([envelope[i] if i < len(envelope) else 0.0 for i in at]))
        per_class.append(ap)
    per_class = np.array(per_class)
    return float(per_class.mean()), float(per_class[:, 0].mean())


class Boxes(torch.utils.data.Dataset):
    """Decoded images in memory with their boxes; those without area are left out."""

    def __init__(self, root, split, transform):
        from PIL import Image
        d = json.load(open(f"{root}/instances_{split}.json"))
        boxes = {i["id"]: [] for i in d["images"]}
        for a in d["annotations"]:
            x, y, w, h = a["bbox"]
            if w > 0 and h > 0:
                boxes[a["image_id"]].append((x, y, x + w, y + h, a["category_id"]))
        self.items = [(torch.from_numpy(np.array(Image.open(f"{root}/images/{i['file_name']}").convert("RGB"))
                                        ).permute(2, 0, 1), boxes[i["id"]]) for i in d["images"]]
        self.transform = transform

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        image, rows = self.items[k]
        rows = torch.tensor(rows, dtype=torch.float32).reshape(-1, 5)
        target = {"boxes": tv_tensors.BoundingBoxes(rows[:, :4], format="XYXY", canvas_size=image.shape[-2:]),
                  "labels": rows[:, 4].long()}
        image, target = self.transform(tv_tensors.Image(image), target)
        return image.as_subclass(torch.Tensor), {k: v.as_subclass(torch.Tensor) for k, v in target.items()}


def collate(batch):
    return tuple(zip(*batch))


class EveryEpoch(torch.utils.data.Sampler):
    """The batches of all epochs in one sequence, each epoch shuffled: workers go on over the end of one."""

    def __init__(self, count, batch, epochs):
        self.count, self.batch, self.epochs = count, batch, epochs
        self.steps = -(-count // batch)  # of an epoch

    def __iter__(self):
        for _ in range(self.epochs):
            yield from torch.randperm(self.count).split(self.batch)

    def __len__(self):
        return self.epochs * self.steps


def training_batches(dataset, batch, epochs, workers, collate_fn=None):
    return torch.utils.data.DataLoader(dataset, batch_sampler=EveryEpoch(len(dataset), batch, epochs),
                                       collate_fn=collate_fn, num_workers=workers)


def optimize(model, data, lr, decay_epochs, weight_decay, loss_of, max_norm=None):
    """Seconds spent in training."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=weight_decay)
    epochs, steps, batches = data.batch_sampler.epochs, data.batch_sampler.steps, iter(data)
    step, spent = 0, 0.0
    model.train()
    for epoch in range(epochs):
        began, total = time.perf_counter(), 0.0
        for batch in itertools.islice(batches, steps):
            decay = 0.1 ** sum(epoch >= e for e in decay_epochs)
            warm = 0.001 + 0.999 * step / 100 if step < 100 else 1.0
            for group in optimizer.param_groups:
                group["lr"] = lr * decay * warm
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = loss_of(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if max_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            step += 1
            total += loss.item()
        spent += time.perf_counter() - began
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1} loss {total / steps:.4f} {spent:.0f} s", flush=True)
    return spent


def detector(kind, root, epochs, weights):
    if kind == "frcnn":
        model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=4, trainable_backbone_layers=5, min_size=480,
            max_size=640)
        augment, batch, lr, decay, wd = [], 16, 0.02, (24, 33), 1e-4
    else:
        model = torchvision.models.detection.ssd300_vgg16(
            weights=None, weights_backbone=None, num_classes=4, trainable_backbone_layers=5)
        augment = [v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill={tv_tensors.Image: (123, 117, 104), "others": 0}),
                   v2.RandomIoUCrop()]
        batch, lr, decay, wd = 32, 0.001, (27, 33), 5e-4
    model.to(DEVICE)
    finish = [v2.RandomHorizontalFlip(0.5), v2.SanitizeBoundingBoxes()]
    train = training_batches(Boxes(root, "train", v2.Compose(augment + finish)), batch, epochs, 5, collate)
    val = torch.utils.data.DataLoader(Boxes(root, "val", v2.Identity()), 16, collate_fn=collate)

    def on_device(images):  # bytes until there: a quarter of the copies
        return [v2.functional.to_dtype(i.to(DEVICE), torch.float32, scale=True) for i in images]

    def loss_of(data):
        images, targets = data
        return sum(model(on_device(images),
                         [{k: v.to(DEVICE) for k, v in t.items()} for t in targets]).values())

    seconds = optimize(model, train, lr, [epochs * part // 36 for part in decay], wd, loss_of,
                       None if kind == "frcnn" else 10)
    if weights:
        torch.save(model.state_dict(), weights)
    model.eval()
    found, truth = [], []
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        for images, targets in val:
            found += [{k: v.cpu() if k == "labels" else v.float().cpu() for k, v in o.items()}
                      for o in model(on_device(images))]
            truth += list(targets)
    ap, ap50 = coco_ap(found, truth, (1, 2, 3))
    return {"bbox_mAP": ap, "bbox_mAP_50": ap50, "seconds": seconds}


def cells(root, epochs, weights):
    model = torchvision.models.resnet50(weights=None, num_classes=3).to(DEVICE)
    norm = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    train = torchvision.datasets.ImageFolder(f"{root}/train", v2.Compose(
        [v2.RandomResizedCrop(96, scale=(0.5, 1)), v2.RandomHorizontalFlip()] + norm))
    val = torchvision.datasets.ImageFolder(f"{root}/val", v2.Compose([v2.Resize(110), v2.CenterCrop(96)] + norm))
    entropy = torch.nn.CrossEntropyLoss()
    seconds = optimize(model, training_batches(train, 64, epochs, 5), 0.025, [epochs * 6 // 10, epochs * 9 // 10],
                       1e-4, lambda b: entropy(model(b[0].to(DEVICE)), b[1].to(DEVICE)))
    if weights:
        torch.save(model.state_dict(), weights)
    model.eval()
    right = 0
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        for images, labels in torch.utils.data.DataLoader(val, 64, num_workers=4):
            right += (model(images.to(DEVICE)).argmax(1).cpu() == labels).sum().item()
    return {"top1": right / len(val), "seconds": seconds}


def main():
    kind, root, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    epochs = int(sys.argv[4]) if len(sys.argv) > 4 else {"frcnn": 36, "ssd": 120, "cells": 20}[kind]
    torch.manual_seed(seed)
    torch.set_num_threads(2)
    print("torch", torch.__version__, "torchvision", torchvision.__version__, DEVICE, flush=True)
    weights = sys.argv[5] if len(sys.argv) > 5 else None
    result = cells(root, epochs, weights) if kind == "cells" else detector(kind, root, epochs, weights)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
