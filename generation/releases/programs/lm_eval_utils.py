"""The functions behind the task: a release of MHB as a task of lm-eval.

    MHB_JUDGE_URL=https://api.example.org/v1 MHB_JUDGE_MODEL=JUDGE MHB_JUDGE_KEY=... \\
        lm_eval --include_path FOLDER --tasks TASK --model local-chat-completions \\
        --apply_chat_template --log_samples --output_path RESULTS \\
        --model_args model=MODEL,base_url=https://api.example.org/v1/chat/completions

TASK is the name of the one file in FOLDER that ends in .yaml; no other release has it.

Each criterion is put to the judge in the words of the benchmark's own judge, with its temperature
(MHB_JUDGE_TEMPERATURE changes it) and the schema of its reply, unless the judge's address refuses a
schema. That address is OpenAI-compatible and given by the variables above; MHB_JUDGE_KEY is
optional. An answer without text, or with thoughts only, is not
judged. `repeats` is refused, because lm-eval asks for all of them and scores the first. Give each
model its own file if you `--use_cache`: lm-eval finds the answers in it by the question alone.

The metrics are those of MHB's report, counted over all criteria: control samples count only in
metrics of their own. `judged` and `unjudged` count the criteria with and without a verdict. The
logged samples contain the verdicts under `judged`; MHB imports them
(`import_results samples_TASK_....jsonl --model =MODEL`).
"""

import importlib.util
import json
import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
from lm_eval.api.task import ConfigurableTask

FOLDER = Path(__file__).parent
# By its file: the folder of another export has a module of the same name.
_spec = importlib.util.spec_from_file_location(f"{FOLDER}/mhb_judging", FOLDER / "mhb_judging.py")
mhb_judging = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mhb_judging)

JUDGING = mhb_judging.load()
TRIES = 5
AT_ONCE = 4
SECONDS = 300
REFUSED = {400, 422}
BUSY = {408, 409, 425, 429, 500, 502, 503, 504}
with_schema = [True]  # emptied when the judge's address refuses a schema

pooled = mhb_judging.pooled


def load(**_options):
    """Load the samples."""
    lines = (FOLDER / JUDGING["samples"]["file"]).read_text(encoding="utf-8").split("\n")
    return {"test": datasets.Dataset.from_list([json.loads(line) for line in lines if line])}


def transcript(doc):
    """The conversation as one text."""
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in doc["messages"])


class ConversationTask(ConfigurableTask):
    """Sends the conversation to a chat model turn by turn."""

    def __init__(self, config=None):
        super().__init__(config={name: value for name, value in (config or {}).items() if name != "class"})
        if self.config.repeats > 1:
            raise ValueError(f"repeats: {self.config.repeats} answers would be asked for, and one of them scored.")

    def fewshot_context(
        self, doc, *_about, system_instruction=None, apply_chat_template=False, chat_template=None, **_more
    ):
        system = []
        if system_instruction:
            system = [{"role": "system", "content": system_instruction}]
        turns = [{"role": message["role"], "content": message["content"]} for message in doc["messages"]]
        messages = system + turns
        if apply_chat_template and chat_template:
            return chat_template(messages)
        return transcript({"messages": messages}) + "\n\nassistant:"


def verdicts_on(doc, answer):
    """The verdict on each criterion, by its key."""
    rubrics, answer = doc["rubrics"], mhb_judging.answer_of(answer)
    if mhb_judging.is_blank(answer):
        return mhb_judging.unasked(JUDGING, rubrics)
    requests = [mhb_judging.judge_messages(doc["judging"], answer, rubric["criterion"]) for rubric in rubrics]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = [mhb_judging.read_verdict(JUDGING, reply) for reply in pool.map(_ask, requests)]
    return dict(zip([rubric["key"] for rubric in rubrics], replies, strict=True))


def judged_answer(doc, results):
    """The verdicts on one answer, and what they add to each rate."""
    verdicts, rubrics = verdicts_on(doc, results[0]), doc["rubrics"]
    points = [float(rubric["points"] or 0) for rubric in rubrics]
    counts = {rate["name"]: mhb_judging.count(rate, doc["arm"], rubrics, points, verdicts) for rate in JUDGING["rates"]}
    about = {
        "sha256": JUDGING["sha256"],
        "rules": JUDGING["rules"],
        "judge": os.environ["MHB_JUDGE_MODEL"],
        "verdicts": verdicts,
    }
    unjudged = sum(verdict["met"] is None for verdict in verdicts.values())
    return {**counts, "judged": about, "unjudged": unjudged}


def judged(logged):
    """The number of verdicts."""
    number = 0
    for answer in logged:
        number += sum(verdict["met"] is not None for verdict in answer["verdicts"].values())
    return number


def total(counts):
    """The sum of the counts."""
    return sum(counts)


def _body(messages):
    body = {"model": os.environ["MHB_JUDGE_MODEL"], "messages": messages}
    temperature = os.environ.get("MHB_JUDGE_TEMPERATURE", JUDGING["temperature"])
    if temperature not in ("", None):
        body["temperature"] = float(temperature)
    if with_schema:
        schema = {"name": "verdict", "strict": True, "schema": JUDGING["schema"]}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _ask(messages):
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("MHB_JUDGE_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    address = os.environ["MHB_JUDGE_URL"].rstrip("/") + "/chat/completions"
    for attempt in range(TRIES):
        body = _body(messages)
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)  # noqa: S310 - the address is yours
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
                return json.load(answer)["choices"][0]["message"]["content"] or ""
        except urllib.error.HTTPError as error:
            if error.code in REFUSED and "response_format" in body:
                with_schema.clear()
                continue
            if error.code not in BUSY or attempt == TRIES - 1:
                raise
        except (urllib.error.URLError, TimeoutError):
            if attempt == TRIES - 1:
                raise
        time.sleep(2**attempt)
    return ""
