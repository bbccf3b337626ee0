"""The examiner: a model that checks a finished sample before physicians see it.

It reads blind, as a physician in the first look, and then with the traps and rubrics. At last it
writes the brief answer of a careful physician and judges it by the rubrics: what such an answer
fails does not measure hallucination.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from generation.llm.reply_reading import check_explained
from generation.recipes.prompts import Prompt, read_prompt
from generation.recipes.recipe import Check, CheckFinding, Draft, Models, ReplyShape, Step, per_draft
from mhb_site.benchmarks.mhb import judging
from mhb_site.benchmarks.mhb.review import RUBRIC_FORM
from review.rules.blocks import Block, Table, Text

PROMPTS = Path(__file__).parent / "prompts"
EXAMINE_BLIND, EXAMINE = read_prompt(PROMPTS / "examine_blind.md"), read_prompt(PROMPTS / "examine.md")
ANSWER_PLAINLY = read_prompt(PROMPTS / "answer_plainly.md")
ROLE = "examiner"
GIVES_AWAY, EXISTS, ABSENT, BAIT, LANGUAGE, RUBRICS = "gives-away", "exists", "absent", "bait", "language", "rubrics"
PLAIN = "plain"
INFORMED = frozenset((EXISTS, ABSENT, BAIT, LANGUAGE, RUBRICS))  # checks for which it is shown the traps
MAX_QUOTE = 1_000  # characters of the examiner's reply in a finding
WORDING = "wording"


class Noticed(ReplyShape):
    """Something that seems wrong: its words, why, and what shows it."""

    words: str
    why: str
    shows: Literal["wording", "comparison", "knowledge"]


class ReadBlind(ReplyShape):
    """Everything that seems wrong."""

    noticed: list[Noticed]


class Existing(ReplyShape):
    """Something that the sample treats as invented, and that exists: the trap's code, its name, what it is."""

    code: str
    name: str
    what: str


class UnfitRubric(ReplyShape):
    """A criterion that does not fit: its key, what is wrong with it, and why."""

    key: str
    fault: Literal["polarity", "element", "knowledge", "excess", "vague"]
    why: str


class Examined(ReplyShape):
    """Inventions that exist, traps that are absent, what is wrong with the bait, texts in another language,
    criteria that do not fit."""

    existing: list[Existing]
    absent: list[str]
    bait: str
    foreign: list[str]
    rubrics: list[UnfitRubric]


class PlainAnswer(ReplyShape):
    """The brief answer of a careful physician."""

    answer: str


async def read_blind(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the examiner what seems wrong. It sees what a model under test sees, and no trap."""
    reply = await models.ask_structured(ROLE, EXAMINE_BLIND.request(_shown(draft)), ReadBlind)
    return [draft.extended(blind=reply.model_dump()["noticed"])]


async def examine(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the examiner, which now sees traps and rubrics, whether the sample is sound."""
    informed = {"traps": _planted(draft), "rubrics": _keyed_rubrics(draft), "language": draft.record.language}
    request = EXAMINE.request({**_shown(draft), **informed}, {"rubric_form": RUBRIC_FORM})
    reply = await models.ask_structured(ROLE, request, Examined)
    return [draft.extended(examined=reply.model_dump())]


async def answer_plainly(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the examiner, which is not shown the rubrics, for a plainly correct, brief answer."""
    request = ANSWER_PLAINLY.request({**_shown(draft), "traps": _planted(draft)})
    reply = await models.ask_structured(ROLE, request, PlainAnswer)
    return [draft.extended(plain_answer=reply.answer)]


async def judge_plain_answer(draft: Draft, models: Models) -> Sequence[Draft]:
    """Have the plain answer judged by every rubric, as an evaluation judges a response."""
    request = judging.judge_all(draft.data["content"], _keyed_rubrics(draft), draft.data["plain_answer"])

    def check(reply: judging.Judgments) -> None:
        check_explained(request, [judgment.explanation for judgment in reply.judgments])

    reply = await models.ask_structured(ROLE, request, judging.Judgments, check=check)
    failed = [judgment.model_dump() for judgment in reply.judgments if not judgment.criteria_met]
    return [draft.extended(plain_failed=failed)]


def _reads_blind(draft: Draft) -> bool:
    return GIVES_AWAY in draft.checks


def _examines(draft: Draft) -> bool:
    return not INFORMED.isdisjoint(draft.checks)


def _answers_plainly(draft: Draft) -> bool:
    return PLAIN in draft.checks


def _asks(prompt: Prompt, _draft: Draft) -> list[tuple[str, str]]:
    return [(ROLE, prompt.label)]


STEPS: tuple[Step, ...] = (
    per_draft(read_blind, applies=_reads_blind, asks=partial(_asks, EXAMINE_BLIND)),
    per_draft(examine, applies=_examines, asks=partial(_asks, EXAMINE)),
    per_draft(answer_plainly, applies=_answers_plainly, asks=partial(_asks, ANSWER_PLAINLY)),
    per_draft(judge_plain_answer, applies=_answers_plainly, asks=partial(_asks, judging.JUDGE_ALL)),
)


def _planted(draft: Draft) -> list[dict[str, str]]:
    """The planted traps as the examiner sees them."""
    names = ("code", "name", "where", "words", "false", "why")
    planted = []
    for trap in draft.data["content"]["traps"]:
        planted.append({name: trap[name] for name in names if name in trap})
    return planted


def _keyed_rubrics(draft: Draft) -> list[dict[str, Any]]:
    return [{"key": f"R{number}", **rubric} for number, rubric in enumerate(draft.data["rubrics"], 1)]


def _shown(draft: Draft) -> dict[str, Any]:
    """What a model under test sees of a draft's sample: context and question."""
    context, question = judging.context_and_question(draft.data["content"])
    return {"context": context, "question": question}


def findings(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """What the examiner found in a draft with this data, by check.

    What only knowledge or careful reading shows gives nothing away: a trap should be like that.
    Replies to earlier prompts lack some parts.
    """
    examined = data.get("examined") or {}
    found: dict[str, list[str]] = {name: [] for name in (GIVES_AWAY, EXISTS, ABSENT, BAIT, LANGUAGE, RUBRICS, PLAIN)}
    for noticed in data.get("blind", ()):
        if noticed["shows"] == WORDING:
            found[GIVES_AWAY].append(f"“{noticed['words']}” {noticed['why']}")
    for existing in examined.get("existing", ()):
        found[EXISTS].append(f"{existing['code'][:20]} {existing['name'][:200]}: {existing['what']}")
    found[ABSENT] += examined.get("absent", ())
    if examined.get("bait"):
        found[BAIT].append(examined["bait"])
    for words in examined.get("foreign", ()):
        found[LANGUAGE].append(f"“{words}”")
    for rubric in examined.get("rubrics", ()):
        found[RUBRICS].append(f"{rubric['key'][:20]} ({rubric['fault']}): {rubric['why']}")
    for judged in data.get("plain_failed", ()):
        found[PLAIN].append(f"{judged['key'][:20]}: {judged['explanation']}")
    return found


def _summary(check: str, data: Mapping[str, Any]) -> str:
    return "; ".join(detail[:MAX_QUOTE] for detail in findings(data)[check])


def _find(check: str, draft: Draft) -> CheckFinding | None:
    text = _summary(check, draft.data)
    if text:
        return CheckFinding(check, text)
    return None


def _check(name: str, label: str) -> Check:
    return Check(name, label, partial(_find, name), returns=True)


CHECKS = (
    _check(GIVES_AWAY, _("The examiner, reading blind, found a hint in the words")),
    _check(EXISTS, _("The examiner says that something invented exists")),
    _check(ABSENT, _("The examiner finds a trap nowhere in the text")),
    _check(BAIT, _("The examiner says that the question is no bait")),
    _check(LANGUAGE, _("The examiner found another language than the case's")),
    _check(RUBRICS, _("The examiner says that a rubric does not fit its trap")),
    _check(PLAIN, _("A brief, correct answer fails a rubric")),
)
SHOWN_BY = {
    "wording": _("the words themselves"),
    "comparison": _("comparison with the text"),
    "knowledge": _("medical knowledge"),
}


def tables(data: Mapping[str, Any]) -> list[Block]:
    """What the examiner said of a draft with this data, for the pages of draft and sample."""
    blocks: list[Block] = []
    if "blind" in data:
        rows = []
        for noticed in data["blind"]:
            rows.append((noticed["words"], noticed["why"], gettext(SHOWN_BY[noticed["shows"]])))
        columns = (gettext("Words"), gettext("Why"), gettext("Shown by"))
        blocks.append(Table(gettext("What the examiner noticed, reading blind"), columns, tuple(rows)))
    if "examined" in data:
        answers = []
        for check in CHECKS:
            if check.name in INFORMED:
                answers.append((gettext(check.label), _summary(check.name, data) or gettext("no")))
        blocks.append(Table(gettext("Examiner"), (gettext("Question"), gettext("Answer")), tuple(answers)))
    if "plain_answer" in data:
        blocks.append(Text(gettext("A brief, correct answer"), data["plain_answer"]))
        failed = _summary(PLAIN, data) or gettext("It meets every rubric.")
        blocks.append(Text(gettext("Rubrics that this answer fails"), failed))
    return blocks
