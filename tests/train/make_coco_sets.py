"""Random detection sets and what pycocotools makes of them: OUT/<n>/{gt,dets,expected}.json.

usage: make_coco_sets.py OUT COUNT SEED [SIZE [GT.json...]]
SIZE: images of a set, at most (12). Each GT.json adds a set: its boxes, with drawn detections.

Made to hit the corners: crowds, empty images, equal scores, more than 100 detections, overlaps at exactly
a threshold, boxes without area, categories without boxes, areas that differ from width times height.
"""
import contextlib, importlib.metadata, io, json, os, random, sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def draw(rng, size):
    categories = rng.sample(range(1, 200), rng.randint(1, 6))
    image_ids = rng.sample(range(1, 10**6), rng.randint(1, size))
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 640, "height": 480} for i in image_ids]
    annotations, detections = [], []

    def box():
        side = 10 ** rng.uniform(0.3, 2.6)
        w, h = min(side * rng.uniform(0.4, 2), 600), min(side * rng.uniform(0.4, 2), 400)
        b = [rng.uniform(0, 640 - w), rng.uniform(0, 480 - h), w, h]
        if rng.random() < 0.5:
            b = [float(round(v)) for v in b]
        return b

    def score():
        return rng.choice([0.1, 0.25, 0.5, 0.9]) if rng.random() < 0.4 else rng.random()

    quiet = rng.choice(categories) if len(categories) > 2 else None  # detections only
    for image in image_ids:
        if rng.random() < 0.2:
            continue  # nothing at all
        for category in categories:
            boxes = [] if category == quiet or rng.random() < 0.3 else [box() for _ in range(rng.randint(0, 7))]
            for b in boxes:
                if rng.random() < 0.03:
                    b[2] = 0.0
                annotations.append({
                    "image_id": image, "category_id": category, "bbox": b,
                    "area": b[2] * b[3] * rng.choice([1, 1, 1, 0.7]), "iscrowd": int(rng.random() < 0.12)})
            crowded = rng.random() < 0.03
            for _ in range(rng.randint(101, 140) if crowded else rng.randint(0, 9)):
                b = box()
                if boxes and rng.random() < 0.7:
                    x, y, w, h = rng.choice(boxes)
                    kind = rng.random()
                    if kind < 0.3:
                        b = [x, y, w, h * rng.choice([0.5, 0.55, 0.6, 0.75, 0.8, 0.9, 0.95, 1])]
                    else:
                        b = [x + w * rng.gauss(0, .08), y + h * rng.gauss(0, .08), w * rng.uniform(.8, 1.2), h * rng.uniform(.8, 1.2)]
                detections.append({"image_id": image, "category_id": category, "bbox": b, "score": score()})
    rng.shuffle(annotations)
    rng.shuffle(detections)
    for n, a in enumerate(annotations):
        a["id"] = n + 1
    return {"images": images, "annotations": annotations,
            "categories": [{"id": c, "name": f"c{c}"} for c in categories]}, detections


def detect(rng, gt):
    """Detections near the boxes of a real set, and some anywhere."""
    detections = []
    for a in gt["annotations"]:
        a.setdefault("area", a["bbox"][2] * a["bbox"][3])
        a.setdefault("iscrowd", 0)
        x, y, w, h = a["bbox"]
        for _ in range(rng.randint(0, 2)):
            detections.append({"image_id": a["image_id"], "score": round(rng.random(), 2),
                               "category_id": a["category_id"] if rng.random() < .9 else rng.choice(gt["categories"])["id"],
                               "bbox": [x + w * rng.gauss(0, .1), y + h * rng.gauss(0, .1), w * rng.uniform(.8, 1.2), h * rng.uniform(.8, 1.2)]})
    return detections


def evaluate(gt, detections):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = json.loads(json.dumps(gt))
        coco.createIndex()
        dt = coco.loadRes(json.loads(json.dumps(detections))) if detections else COCO()
        if not detections:
            dt.dataset = {"images": gt["images"], "annotations": [], "categories": gt["categories"]}
            dt.createIndex()
        e = COCOeval(coco, dt, "bbox")
        e.evaluate()
        e.accumulate()
        e.summarize()
    mean = lambda v: float(np.mean(v[v > -1])) if (v > -1).any() else -1.0
    per_class = {}
    for k, category in enumerate(e.params.catIds):
        p, r = e.eval["precision"], e.eval["recall"]
        per_class[int(category)] = [mean(p[:, :, k, 0, 2]), mean(p[0, :, k, 0, 2]), mean(p[5, :, k, 0, 2]),
                                    mean(p[:, :, k, 1, 2]), mean(p[:, :, k, 2, 2]), mean(p[:, :, k, 3, 2]), mean(r[:, k, 0, 2])]
    return {"pycocotools": importlib.metadata.version("pycocotools"), "stats": [float(s) for s in e.stats],
            "classes": [[c["id"]] + per_class[c["id"]] for c in gt["categories"]]}


def main():
    out, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    size = int(sys.argv[4]) if len(sys.argv) > 4 else 12
    sets = [draw(random.Random(seed * 1000003 + n), size) for n in range(count)]
    sets[0] = sets[0][0], []
    for path in sys.argv[5:]:
        gt = json.load(open(path))
        detections = detect(random.Random(seed), gt)
        sets.append((gt, detections))
    for n, (gt, detections) in enumerate(sets):
        folder = os.path.join(out, str(n))
        os.makedirs(folder, exist_ok=True)
        for name, value in (("gt", gt), ("dets", detections), ("expected", evaluate(gt, detections))):
            with open(os.path.join(folder, name + ".json"), "w") as f:
                json.dump(value, f, separators=(",", ":"))


main()
