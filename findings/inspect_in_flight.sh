#!/usr/bin/env bash
# Expected: of a run that stops at the error of one sample, the log has that sample as failed, and those that were still
#   being asked as not asked.
# Happens: each sample in progress is logged with an `error` of its own, a CancelledError, and no mark that tells it from a
#   failure of the model. Whoever counts samples with an error counts four failures for one. The same after Ctrl-C.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
cat > run.py <<'PY'
import asyncio

import tiktoken

class Words:
    """So that nothing is downloaded to count tokens."""
    def encode(self, text, **options):
        return text.split()

tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelAPI, ModelOutput, modelapi

@modelapi(name="own")
class Own(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        question = input[-1].text
        if question == "fails":
            await asyncio.sleep(1)
            raise RuntimeError("overloaded")
        if question == "slow":
            await asyncio.sleep(60)
        return ModelOutput.from_content(self.model_name, "Yes.")

questions = ["fine", "fails", "slow", "slow", "slow"]
data = [Sample(id=f"{number} {question}", input=question) for number, question in enumerate(questions)]
[log] = eval(Task(dataset=data), model="own/model", log_dir="logs", display="none", max_samples=5)
print(log.status)
for sample in read_eval_log(log.location).samples:
    print(sample.id, sample.error and sample.error.message.partition("(")[0])
PY
HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
error
0 fine None
1 fails RuntimeError
2 slow CancelledError
3 slow CancelledError
4 slow CancelledError
TEXT
