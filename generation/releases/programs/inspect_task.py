"""A release of MHB as a task of inspect-ai.

Run it with `inspect eval task.py --model MODEL --model-role grader=JUDGE`.

Each criterion is put to the grader (the role `grader`; without one, the model itself, which is not
what you want) in the words of the benchmark's own judge, with its temperature (change it with
`-T judge_temperature=...`) and, where the provider offers it, the schema of its reply. An answer
without text, or with thoughts only, is not judged. The metrics are those of MHB's report, counted
over all criteria and all epochs, whatever reducer is chosen: control samples count only in metrics
of their own. `unjudged` counts the criteria without a verdict. Samples that were stopped by a limit
count here, and not in MHB, which leaves out what is not the model's own doing. MHB imports the log,
which contains the verdicts (`import_results LOG.eval`).
"""

import importlib.util
import json
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, ResponseSchema, get_model
from inspect_ai.scorer import SampleScore, Score, Target, metric, scorer
from inspect_ai.solver import TaskState, generate
from inspect_ai.util import JSONSchema

FOLDER = Path(__file__).parent
# By its file: the folder of another export has a module of the same name.
_spec = importlib.util.spec_from_file_location(f"{FOLDER}/mhb_judging", FOLDER / "mhb_judging.py")
mhb_judging = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mhb_judging)

JUDGING = mhb_judging.load()
MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser}


def rate_metric(rate):
    """A metric of Inspect for one rate: its numerators over its denominators, over all samples."""

    @metric(name=rate["name"], scores="unreduced")
    def pooled():
        def compute(scores: list[SampleScore]) -> float:
            by_sample = {}
            for sample_score in scores:
                value = sample_score.score.value
                counted = (value[rate["name"]], value[f"{rate['name']} of"])
                by_sample.setdefault(sample_score.sample_id, []).append(counted)
            return mhb_judging.pooled([mhb_judging.of_answers(rate, answers) for answers in by_sample.values()])

        return compute

    return pooled()


@metric(scores="unreduced")
def unjudged():
    def compute(scores: list[SampleScore]) -> float:
        return sum(sample_score.score.value["unjudged"] for sample_score in scores)

    return compute


@scorer(metrics=[*map(rate_metric, JUDGING["rates"]), unjudged()])
def criteria(temperature: float | None = None):
    schema = ResponseSchema(name="verdict", json_schema=JSONSchema.model_validate(JUDGING["schema"]), strict=True)
    config = GenerateConfig(temperature=temperature, response_schema=schema)

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - the criteria are in the metadata
        grader, answer = get_model(role="grader"), mhb_judging.answer_of(state.output.completion)
        rubrics, verdicts = state.metadata["rubrics"], {}
        if mhb_judging.is_blank(answer):
            verdicts = mhb_judging.unasked(JUDGING, rubrics)
        else:
            for rubric in rubrics:
                messages = mhb_judging.judge_messages(state.metadata["judging"], answer, rubric["criterion"])
                asked = [MESSAGES[message["role"]](content=message["content"]) for message in messages]
                reply = await grader.generate(asked, config=config)
                verdicts[rubric["key"]] = mhb_judging.read_verdict(JUDGING, reply.completion)
        value = {"unjudged": sum(verdict["met"] is None for verdict in verdicts.values())}
        for rate in JUDGING["rates"]:
            counted = mhb_judging.count(
                rate, state.metadata.get("arm"), rubrics, state.metadata.get("points"), verdicts
            )
            value[rate["name"]], value[f"{rate['name']} of"] = counted
        about = {"judge": str(grader), "release": JUDGING["sha256"], "rules": JUDGING["rules"]}
        return Score(
            value=value, answer=answer, explanation=json.dumps(verdicts, ensure_ascii=False), metadata={"mhb": about}
        )

    return score


@task(name="@@TASK@@")  # inspect-ai reads the name from this text, without running it
def mhb(judge_temperature: float | None = JUDGING["temperature"]) -> Task:
    data = json_dataset(str(FOLDER / JUDGING["samples"]["file"]), name=JUDGING["task"])
    release = {name: JUDGING[name] for name in ("release", "sha256", "rules")}
    return Task(dataset=data, solver=generate(), scorer=criteria(judge_temperature), metadata=release)
