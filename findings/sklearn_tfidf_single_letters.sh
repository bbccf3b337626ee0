#!/usr/bin/env bash
# Expected: texts that differ in a word have a TF-IDF similarity below 1.
# Happens: the vectorizer takes words from two characters on, so that what tells in a medical text is
#   dropped: hepatitis A and B, vitamin C and D, 5 mg and 8 mg are each the same text (similarity 1),
#   and a TNM stage "T 4 N 1" has no word at all.
# Version: scikit-learn 1.9.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install scikit-learn==1.9.1
"$folder/venv/bin/python" - <<'PYTHON'
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

pairs = [
    ("chronic hepatitis A", "chronic hepatitis B"),
    ("vitamin C deficiency", "vitamin D deficiency"),
    ("give 5 mg daily", "give 8 mg daily"),
]
for first, second in pairs:
    vectors = TfidfVectorizer().fit_transform([first, second])
    similarity = cosine_similarity(vectors)[0, 1]
    print(f"{first!r} {second!r}: {similarity:.3f}")
    assert abs(similarity - 1) < 1e-9, similarity
try:
    TfidfVectorizer().fit_transform(["T 4 N 1", "T 1 N 0"])
except ValueError as error:
    print(error)
    assert "empty vocabulary" in str(error)
else:
    raise AssertionError("a TNM stage has words now")
PYTHON
