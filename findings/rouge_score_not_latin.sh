#!/usr/bin/env bash
# Expected: ROUGE-1 of a sentence with itself is 1, and of two sentences that differ in a word is less.
# Happens: rouge-score keeps runs of a-z and 0-9 alone, without a warning: a Chinese sentence scores 0
#   with itself, "no fever for 3 days" and "fever for 3 days" in Chinese score 1, and so do 50 µg and
#   50 g, alpha- and beta-thalassaemia in Greek letters, and a T-score of -2.5 and 2.5.
# Version: rouge-score 0.1.2 (numpy 2.3.5, nltk 3.9.2)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install rouge-score==0.1.2 numpy==2.3.5 nltk==3.9.2
"$folder/venv/bin/python" - <<'PYTHON'
from rouge_score.rouge_scorer import RougeScorer

scorer = RougeScorer(["rouge1"])
pairs = [
    ("无骨折", "无骨折", 0.0),
    ("无发热 3 天", "有发热 3 天", 1.0),
    ("50 µg", "50 g", 1.0),
    ("α-thalassaemia", "β-thalassaemia", 1.0),
    ("a T-score of −2.5", "a T-score of 2.5", 1.0),
]
for first, second, seen in pairs:
    score = scorer.score(first, second)["rouge1"].fmeasure
    print(f"{first!r} {second!r}: {score:.2f}")
    assert score == seen, (first, second, score)
PYTHON
