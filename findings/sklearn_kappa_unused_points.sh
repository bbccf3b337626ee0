#!/usr/bin/env bash
# Expected: weighted kappa of ratings on a scale from 1 to 5 uses the distances of the ratings.
# Happens: `cohen_kappa_score` uses the places of the ratings among those that were given: if nobody
#   gave 3 or 4, then 2 and 5 are neighbours. The same ratings have another kappa as soon as the
#   whole scale is named (.625 and .647), and again as soon as one rater uses a 3.
# Version: scikit-learn 1.9.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install scikit-learn==1.9.1
"$folder/venv/bin/python" - <<'PYTHON'
from sklearn.metrics import cohen_kappa_score

first, second = [1, 2, 5, 5, 1, 2], [1, 5, 5, 5, 2, 2]
as_given = cohen_kappa_score(first, second, weights="linear")
whole_scale = cohen_kappa_score(first, second, weights="linear", labels=[1, 2, 3, 4, 5])


def by_hand(first, second):
    """Linear weights: 1 - (mean distance of the pairs) / (mean distance of all combinations)."""
    observed = sum(abs(a - b) for a, b in zip(first, second)) / len(first)
    chance = sum(abs(a - b) for a in first for b in second) / len(first) / len(second)
    return 1 - observed / chance


print(f"as given {as_given:.3f}, whole scale {whole_scale:.3f}, by hand {by_hand(first, second):.3f}")
assert abs(whole_scale - by_hand(first, second)) < 1e-9
assert round(as_given, 3) == 0.625 and round(whole_scale, 3) == 0.647
PYTHON
