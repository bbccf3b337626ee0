#!/usr/bin/env bash
# Expected: in the exports for images, the boxes of two annotators of one image can be told apart, or are all of that
#   image.
# Happens: the YOLO export has one file an image, which the last annotator's boxes overwrite: those of the first are
#   nowhere. The COCO export has the image twice, each time as if it had only one annotator's boxes, so that a model is
#   held to have missed the others.
# Version: label-studio-sdk 2.1.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check label-studio-sdk==2.1.2
cat > run.py <<'PY'
import json
from pathlib import Path

from label_studio_sdk.converter import Converter


def annotation(number, left):
    value = {"x": left, "y": 10, "width": 20, "height": 20, "rotation": 0, "rectanglelabels": ["lesion"]}
    region = {"id": "r", "type": "rectanglelabels", "from_name": "label", "to_name": "image", "value": value}
    sizes = {"original_width": 100, "original_height": 100, "image_rotation": 0}
    return {"id": number, "completed_by": number, "was_cancelled": False, "result": [{**region, **sizes}]}


task = {"id": 1, "data": {"image": "https://example.org/1.png"}, "annotations": [annotation(1, 0), annotation(2, 60)]}
labels = '<RectangleLabels name="label" toName="image"><Label value="lesion"/></RectangleLabels>'
Path("tasks.json").write_text(json.dumps([task]))
converter = Converter(f'<View><Image name="image" value="$image"/>{labels}</View>', project_dir=".", download_resources=False)
converter.convert_to_yolo("tasks.json", "yolo", is_dir=False)
print([path.read_text().split() for path in Path("yolo/labels").iterdir()])
converter.convert_to_coco("tasks.json", "coco", is_dir=False)
coco = json.loads(Path("coco/result.json").read_text())
print(len(coco["images"]), len({image["file_name"] for image in coco["images"]}))
print([(one["image_id"], one["bbox"][0]) for one in coco["annotations"]])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
[['0', '0.7', '0.2', '0.2', '0.2']]
2 1
[(0, 0.0), (1, 60.0)]
TEXT
