#!/usr/bin/env bash
# Expected: a segmentation that is read with `get_fdata`, edited and saved with its own header has its labels as before.
# Happens: the header asks for uint8 and the data are floats, so the labels are scaled to fill the 256 values: 1 and 2 come
#   back as 0.996 and 2.0000001, without a warning: no voxel has label 1 or 2 any more.
# Version: nibabel 5.4.2 (numpy 2.4.6)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check nibabel==5.4.2 numpy==2.4.6
cat > run.py <<'PY'
import nibabel
import numpy as np

labels = np.zeros((4, 4, 4), dtype=np.uint8)
labels[0], labels[1] = 1, 2
nibabel.save(nibabel.Nifti1Image(labels, np.eye(4)), "drawn.nii")
image = nibabel.load("drawn.nii")
data = image.get_fdata()
data[0, 0, 0] = 0  # a voxel is erased
nibabel.save(nibabel.Nifti1Image(data, image.affine, image.header), "edited.nii")
for name in ("drawn.nii", "edited.nii"):
    read = nibabel.load(name)
    values = read.get_fdata()
    found = [round(float(value), 3) for value in np.unique(values)]
    print(name, read.get_data_dtype(), found, [int((values == label).sum()) for label in (1, 2)])
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
drawn.nii uint8 [0.0, 1.0, 2.0] [16, 16]
edited.nii uint8 [0.0, 0.996, 2.0] [0, 0]
TEXT
