#!/usr/bin/env bash
# Expected: a verdict of the judge that is not one of the words it was asked for leaves the metric without a score, or
#   counts against.
# Happens: it is dropped, and a metric without any verdict left has the best score: a judge that says "contradicts" of
#   every context gives Hallucination 1 (none, passed), and so does an empty list. Faithfulness divides by the verdicts
#   that came, not by the claims: one verdict on three claims is 1.0.
# Version: deepeval 4.3.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check deepeval==4.3.1
cat > run.py <<'PY'
import json

from deepeval.metrics import FaithfulnessMetric, HallucinationMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase

class Judge(DeepEvalBaseLLM):
    def __init__(self, *replies):
        self.replies = [json.dumps(reply) for reply in replies]
    def load_model(self):
        return self
    def get_model_name(self):
        return "own"
    def generate(self, prompt, *rest, **options):
        return self.replies.pop(0)
    a_generate = generate

def verdicts(*words):
    return {"verdicts": [{"verdict": word, "reason": ""} for word in words]}

case = LLMTestCase(input="?", actual_output="!", context=["a", "b"], retrieval_context=["a", "b"])
plain = {"include_reason": False, "async_mode": False}
for words in (("yes", "no"), ("contradicts", "contradicts"), ()):
    metric = HallucinationMetric(model=Judge(verdicts(*words)), **plain)
    print("hallucination", words, metric.measure(case, _show_indicator=False), metric.is_successful())
claims = {"claims": ["one", "two", "three"]}
metric = FaithfulnessMetric(model=Judge({"truths": ["a"]}, claims, verdicts("yes")), **plain)
print("faithfulness", metric.measure(case, _show_indicator=False))
PY
HOME="$folder" DEEPEVAL_TELEMETRY_OPT_OUT=YES venv/bin/python run.py 2>/dev/null | sed "/^ *$/d" | tee output
diff output - <<'TEXT'
hallucination ('yes', 'no') 0.5 True
hallucination ('contradicts', 'contradicts') 1 True
hallucination () 1 True
faithfulness 1.0
TEXT
