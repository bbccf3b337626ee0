#!/usr/bin/env bash
# Expected: a detector that finds each annotated lesion exactly has an average precision and recall of 1.
# Happens: annotations are numbered from 0 in Label Studio's COCO export, and pycocotools takes the number 0 for "found
#   nothing": the first lesion is missed and its detection a false one. Of four perfect detections the average precision
#   is .564 and the recall .75; numbered from 1 both are 1.
# Version: pycocotools 2.0.11, label-studio-sdk 2.1.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pycocotools==2.0.11 label-studio-sdk==2.1.2
cat > run.py <<'PY'
import contextlib
import io
import json

from label_studio_sdk.converter import Converter
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

box = {"x": 10, "y": 10, "width": 50, "height": 50, "rotation": 0, "rectanglelabels": ["lesion"]}
region = {"type": "rectanglelabels", "from_name": "label", "to_name": "image", "value": box}
sizes = {"original_width": 100, "original_height": 100, "image_rotation": 0}
tasks = [
    {
        "id": number,
        "data": {"image": f"https://example.org/{number}.png"},
        "annotations": [{"id": number, "completed_by": 1, "was_cancelled": False, "result": [{"id": "r", **sizes, **region}]}],
    }
    for number in range(4)
]
labels = '<RectangleLabels name="label" toName="image"><Label value="lesion"/></RectangleLabels>'
with open("tasks.json", "w") as file:
    json.dump(tasks, file)
converter = Converter(f'<View><Image name="image" value="$image"/>{labels}</View>', project_dir=".", download_resources=False)
converter.convert_to_coco("tasks.json", "coco", is_dir=False)
with open("coco/result.json") as file:
    truth = json.load(file)


def found(first):
    """Average precision and recall of perfect detections, with annotations numbered from `first`."""
    for number, annotation in enumerate(truth["annotations"], first):
        annotation["id"] = number
    with open("truth.json", "w") as file:
        json.dump(truth, file)
    detections = [
        {"image_id": one["image_id"], "category_id": one["category_id"], "bbox": one["bbox"], "score": 0.9}
        for one in truth["annotations"]
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO("truth.json")
        evaluation = COCOeval(coco, coco.loadRes(detections), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return round(float(evaluation.stats[0]), 3), float(evaluation.stats[8])


print([annotation["id"] for annotation in truth["annotations"]])
print(found(0), found(1))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
[0, 1, 2, 3]
(0.564, 0.75) (1.0, 1.0)
TEXT
