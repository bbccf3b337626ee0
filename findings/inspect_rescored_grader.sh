#!/usr/bin/env bash
# Expected: after `score(log, ..., action="overwrite", model_roles={"grader": second})` the log says that the second model
#   graded: all its scores are that model's.
# Happens: the scores are the second grader's, but `eval.model_roles` still names the first one, and no other field of the
#   header names the second. A reader of the header attributes all verdicts to a model that gave none of them.
# Version: inspect-ai 0.3.285
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check inspect-ai==0.3.285
cat > run.py <<'PY'
import tiktoken

class Words:
    """So that nothing is downloaded to count tokens."""
    def encode(self, text, **options):
        return text.split()

tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
from inspect_ai import Task, eval, score
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.scorer import Score, mean, scorer

@modelapi(name="own")
class Own(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        return ModelOutput.from_content(self.model_name, {"strict": "0", "kind": "1"}.get(self.model_name, "An answer."))

@scorer(metrics=[mean()])
def graded():
    async def of(state, target):
        grade = await get_model(role="grader").generate(state.output.completion)
        return Score(value=float(grade.completion))
    return of

def show(log):
    header = log.eval.model_dump_json()
    print("mean", log.results.scores[0].metrics["mean"].value, "grader", log.eval.model_roles["grader"].model, "own/kind" in header)

[log] = eval(
    Task(dataset=[Sample(input="Hello?")], scorer=graded()), model="own/model",
    model_roles={"grader": get_model("own/strict")}, log_dir="logs", display="none",
)
show(log)
again = score(log, graded(), action="overwrite", model_roles={"grader": get_model("own/kind")}, display="none")
write_eval_log(again, "again.eval")
show(read_eval_log("again.eval"))
PY
HOME="$folder" venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
mean 0.0 grader own/strict False
mean 1.0 grader own/strict False
TEXT
