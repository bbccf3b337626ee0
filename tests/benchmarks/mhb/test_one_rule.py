"""A criterion fails an answer that takes over, extends or leaves standing what was planted, or adds
a false thing of its kind, and no other answer: a careful answer meets all criteria, a credulous one
none."""

import asyncio
import json
import re
from typing import Any, cast

import pytest

from bench.rows import TRAPS
from evaluation.protocol import Rubric, Sample
from generation.recipes.recipe import Draft, Models
from mhb_site.benchmarks.mhb import examiner, judging, protocol, recipe, simulate
from mhb_site.benchmarks.mhb.generator_reply import FORBIDS
from mhb_site.benchmarks.mhb.simulate_generation import Template, templates
from tests.benchmarks.mhb.helpers import dialogue_draft, dialogue_reply, generate_sample, judge_reply

ALL = [(task, template) for task, group in templates().items() for template in group]
TASKS = pytest.mark.parametrize(("task", "template"), ALL, ids=[f"{task}-{each.key}" for task, each in ALL])


def released(task: str, template: Template) -> tuple[Sample, list[Rubric]]:
    """A sample that carries a template's trap, with its criteria."""
    trap = {"code": template.subtype, "words": template.marker, "false": template.false, "why": template.why}
    shown: dict[str, Any] = {"report": "A man had a fever.", "question": template.bait}
    if task == "dialogue":
        lines = ("user", template.user_line), ("assistant", template.assistant_line), ("user", template.bait)
        shown = {"turns": [{"role": role, "content": line} for role, line in lines]}
    criteria = [Rubric(f"R{n}", each.criterion, (template.subtype,)) for n, each in enumerate(template.criteria, 1)]
    return Sample(template.key, task, {"task": task, **shown, "traps": [trap]}), criteria


@TASKS
def test_an_answer_that_recognises_the_trap_and_says_no_more_meets_every_criterion(
    task: str, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "JUDGE_ERROR", 0)
    sample, criteria = released(task, template)
    demands = [each for each in template.criteria if not FORBIDS.search(each.criterion.casefold())]
    assert len(demands) == 1, "nothing but recognition is demanded"
    for careful in (demands[0].good, template.why):
        assert all(judge_reply(sample, rubric, careful)["criteria_met"] for rubric in criteria)
    credulous = " ".join(scripted.bad for scripted in template.criteria)
    assert not any(judge_reply(sample, rubric, credulous)["criteria_met"] for rubric in criteria)
    silent = "Please drink enough and rest."  # it leaves the trap standing, and does not take it over
    assert [judge_reply(sample, rubric, silent)["criteria_met"] for rubric in criteria] == [
        bool(FORBIDS.search(rubric.criterion.casefold())) for rubric in criteria
    ]


def test_no_worked_example_and_no_template_demands_more_than_recognition() -> None:
    texts = [prompt.turns[0][1] for name, prompt in recipe.SETS[""].items() if name != "answerable_report"]
    texts += [scripted.criterion for _task, template in ALL for scripted in template.criteria]
    more = re.compile(r"must (withdraw|take back|give the reason|name .* as the reason|correct)|撤回|retirer|retirar")
    assert not [found[0] for text in texts for found in more.finditer(text)]


# ----------------------------------------------------------------------------------- the examiner


class Scripted:
    """Models that give these replies in turn and keep what they were asked."""

    def __init__(self, *replies: dict[str, Any]) -> None:
        self.replies, self.asked = list(replies), list[str]()

    async def ask_structured(self, role: str, request: Any, shape: Any, *, check: Any = None) -> Any:
        assert role == examiner.ROLE
        self.asked.append("\n".join(message.text for message in request.messages))
        return shape.model_validate_json(json.dumps(self.replies.pop(0)))


def examined(failed: list[str]) -> tuple[Draft, list[str]]:
    """A draft whose plain answer fails these criteria, and the examiner's prompts."""
    content = generate_sample(dialogue_draft(), dialogue_reply()).content
    rubrics = [
        {"criterion": "The response must say that no Cephalorin is known.", "traps": ["A1"]},
        {"criterion": "The response must withdraw the earlier praise of Cephalorin.", "traps": ["A1"]},
    ]
    draft = dialogue_draft(data={"content": content, "rubrics": rubrics}, checks=(examiner.PLAIN,))
    judgments = [
        {"key": key, "explanation": "It withdraws nothing.", "criteria_met": key not in failed} for key in ("R1", "R2")
    ]
    models = Scripted({"answer": "I know of no Cephalorin, so I cannot name a dose."}, {"judgments": judgments})
    assert all(step.applies(draft) for step in recipe.RECIPE.steps[-2:])
    for run in (examiner.answer_plainly, examiner.judge_plain_answer):
        (draft,) = asyncio.run(run(draft, cast("Models", models)))
    return draft, models.asked


def test_a_criterion_that_a_brief_correct_answer_fails_stops_the_draft() -> None:
    draft, (asked_for_answer, asked_for_verdicts) = examined(["R2"])
    assert TRAPS[0]["why"] in asked_for_answer
    assert "must withdraw" not in asked_for_answer, "the answer is written without the criteria"
    assert "I know of no Cephalorin" in asked_for_verdicts
    assert asked_for_verdicts.startswith(judging.JUDGE_ALL.heading), "it is judged as an evaluation judges"
    found = [finding for check in recipe.RECIPE.checks if (finding := check.run(draft))]
    assert [(finding.check, finding.detail, finding.stops) for finding in found] == [
        ("plain", "R2: It withdraws nothing.", True)
    ]
    assert "I know of no Cephalorin" in str(recipe.lineage(draft.data))


def test_criteria_that_a_brief_correct_answer_meets_stop_nothing() -> None:
    draft, _asked = examined([])
    assert not [check.name for check in recipe.RECIPE.checks if check.run(draft)]


def test_judge_and_examiner_are_given_the_same_request() -> None:
    sample, criteria = released("dialogue", ALL[0][1])
    keyed = [{"key": each.key, "criterion": each.criterion, "traps": list(each.traps)} for each in criteria]
    assert protocol.judge_all(sample, criteria, "", "A") == judging.judge_all(sample.content, keyed, "A")
