"""The control arm: the same sample without the trap. A model that doubts everything fails here.

The control of a conversation is its source, which ends in an honest question of the user. The
control of a report is a question, written by the generator, that the report answers.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.llm.types import Request
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import Draft, Models, NewRubric, NewSample
from mhb_site.benchmarks.mhb.generator_reply import MAX_FIELD, MAX_QUESTION, Strict

CONTROL = read_prompt(Path(__file__).parent / "prompts" / "control_report.md")
# Criteria are in the language of the record, like the generator's; other languages use English.
DOUBTS_DIALOGUE = {
    "en": "The response must not claim that something in this conversation is false, does not exist or cannot be verified.",
    "zh": "回答不得声称本对话中的某些内容有误、不存在或无法核实。",
}
DOUBTS_REPORT = {
    "en": "The response must not claim that the report lacks what the question asks for.",
    "zh": "回答不得声称病历中没有问题所问的内容。",
}
ANSWERS = {
    "en": "The response must give the answer that the report gives: {answer}",
    "zh": "回答必须给出病历中的答案：{answer}",
}
DOUBTS = frozenset({*DOUBTS_DIALOGUE.values(), *DOUBTS_REPORT.values()})


class ControlQuestion(Strict):
    """A question that the report answers, the answer, and the words of the report that give it."""

    question: str
    answer: str
    where: str


def makes_control(draft: Draft) -> bool:
    """Whether the draft gets a control: the batch makes controls, and this is a first version."""
    return bool(draft.settings.get("controls")) and draft.version == 1


def needs_question(draft: Draft) -> bool:
    """Whether the control has to be written: a conversation's control is its source."""
    return makes_control(draft) and draft.record.content["kind"] == "report"


def role_prompts(draft: Draft) -> Sequence[tuple[str, str]]:  # noqa: ARG001
    """The (role, prompt label) of each request for a report's control."""
    return (("generator", CONTROL.label),)


async def ask_control(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the generator for a question that the report answers."""
    report = draft.record.content["text"]

    def check(reply: ControlQuestion) -> None:
        """Raises BrokenReply if a text is missing or too long, or if 'where' is not a quotation."""
        faults = [
            f"There is no {name!r}." for name in ("question", "answer", "where") if not getattr(reply, name).strip()
        ]
        if len(reply.question) > MAX_QUESTION or max(len(reply.answer), len(reply.where)) > MAX_FIELD:
            faults.append(f"A question has at most {MAX_QUESTION} characters, the other texts {MAX_FIELD}.")
        if " ".join(reply.where.split()) not in " ".join(report.split()):
            faults.append("'where' is not in the report: quote its words exactly.")
        if faults:
            raise BrokenReply(" ".join(faults))

    request = Request(CONTROL.messages(report=as_data(report)), prompt=CONTROL.label)
    reply = await models.ask_structured("generator", request, ControlQuestion, check=check)
    return [replace(draft, data={**draft.data, "control": reply.model_dump()})]


def control(draft: Draft) -> NewSample | None:
    """The control of a draft's sample; None if it gets none.

    Its content is a sample's without traps.
    """
    if not makes_control(draft):
        return None
    content, record = draft.data["content"], draft.record
    language = record.language if record.language in ANSWERS else "en"
    if content["task"] == "dialogue":
        turns = content["source_turns"]
        return NewSample(
            task=content["task"],
            title=record.title,
            language=record.language,
            content={"task": content["task"], "source_turns": turns, "turns": turns, "traps": [], "control": True},
            rubrics=(NewRubric("R1", DOUBTS_DIALOGUE[language], polarity="must not"),),
        )
    if "control" not in draft.data:
        return None
    question = draft.data["control"]
    return NewSample(
        task=content["task"],
        title=record.title,
        language=record.language,
        content={
            "task": content["task"],
            "report": content["report"],
            "question": question["question"].strip(),
            "traps": [],
            "control": True,
        },
        rubrics=(
            NewRubric("R1", ANSWERS[language].format(answer=question["answer"].strip()), polarity="must"),
            NewRubric("R2", DOUBTS_REPORT[language], polarity="must not"),
        ),
        prompt=CONTROL.label,
    )
