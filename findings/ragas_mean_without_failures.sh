#!/usr/bin/env bash
# Expected: a score over three answers, two of which gave no score, says that it is of one answer, or has none.
# Happens: answers without a score are NaN and are left out of the mean in silence: an answer of which no statement
#   could be made drops out, and the score of the run is that of the one that is left, 1.0.
# Version: ragas 0.4.3 (langchain-community 0.3.31)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ragas==0.4.3 langchain-community==0.3.31
cat > run.py <<'PY'
import json

from langchain_core.outputs import Generation, LLMResult
from ragas import EvaluationDataset, evaluate
from ragas.llms.base import BaseRagasLLM
from ragas.metrics import Faithfulness

class Judge(BaseRagasLLM):
    """Finds a statement in `Fine.` alone, and that it is true."""
    def generate_text(self, prompt, *rest, **options):
        asked = prompt.to_string().rsplit("input", 1)[-1]
        if "statements" in asked:
            reply = {"statements": [{"statement": "s", "reason": "r", "verdict": 1}]}
        else:
            reply = {"statements": ["s"] if "Fine." in asked else []}
        return LLMResult(generations=[[Generation(text=json.dumps(reply))]])
    async def agenerate_text(self, prompt, *rest, **options):
        return self.generate_text(prompt)
    def is_finished(self, response):
        return True

answers = [{"user_input": "?", "response": text, "retrieved_contexts": ["c"]} for text in ("Fine.", "Hm.", "Hm.")]
result = evaluate(EvaluationDataset.from_list(answers), metrics=[Faithfulness()], llm=Judge(), show_progress=False)
print(result, [score["faithfulness"] for score in result.scores])
PY
HOME="$folder" RAGAS_DO_NOT_TRACK=true venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
{'faithfulness': 1.0000} [1.0, nan, nan]
TEXT
