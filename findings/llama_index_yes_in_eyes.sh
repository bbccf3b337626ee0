#!/usr/bin/env bash
# Expected: the evaluators of faithfulness and relevancy, whose judge is told to answer YES or NO, read that answer; a
#   reply that is neither does not pass.
# Happens: whatever has the letters "yes" anywhere passes, with score 1.0: "NO. The eyes were not examined." is faithful,
#   and "No, not yet; yesterday's dose is unknown." is relevant.
# Version: llama-index-core 0.14.25
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check llama-index-core==0.14.25
cat > run.py <<'PY'
from llama_index.core.evaluation import FaithfulnessEvaluator, RelevancyEvaluator
from llama_index.core.llms import CustomLLM, CompletionResponse, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback


class Judge(CustomLLM):
    """A judge that always says the same."""

    reply: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.reply)

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield CompletionResponse(text=self.reply)


asked = {"query": "Is the retina healthy?", "response": "The retina is healthy.", "contexts": ["Cough for three days."]}
for evaluator in (FaithfulnessEvaluator, RelevancyEvaluator):
    for reply in ("NO", "NO. The eyes were not examined.", "No, not yet; yesterday's dose is unknown."):
        result = evaluator(llm=Judge(reply=reply)).evaluate(**asked)
        print(evaluator.__name__, repr(reply), result.passing, result.score)
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
FaithfulnessEvaluator 'NO' False 0.0
FaithfulnessEvaluator 'NO. The eyes were not examined.' True 1.0
FaithfulnessEvaluator "No, not yet; yesterday's dose is unknown." True 1.0
RelevancyEvaluator 'NO' False 0.0
RelevancyEvaluator 'NO. The eyes were not examined.' True 1.0
RelevancyEvaluator "No, not yet; yesterday's dose is unknown." True 1.0
TEXT
