"""How ClinHallu makes a sample: a question about images with a reference trace whose answer was checked (CLI-1, CLI-2).

Records of kind `vqa` get a trace from a generator that sees the images; records of kind `vqa-trace` were published with theirs
and are taken as they are.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, Dropped, ModelRole, Models, NewRubric, NewSample, Recipe, ReviewShare, Step
from mhb_site.benchmarks.clinhallu import corrections, lineage, presets, reference
from mhb_site.benchmarks.clinhallu.judging import ANSWER
from mhb_site.benchmarks.clinhallu.presets import MAX_TRIES, PRESETS
from mhb_site.benchmarks.clinhallu.taxonomy import CODE_OF
from mhb_site.benchmarks.clinhallu.trace_text import STAGES, Trace

MADE, PUBLISHED = "vqa", "vqa-trace"
_CONTENT = ("question", "options", "answer", "letter", "question_type", "dataset", "split", "images", "body_system")
CRITERIA = {
    "visual": _("The visual recognition is supported by the images."),
    "knowledge": _("The recalled knowledge is true."),
    "reasoning": _("The reasoning follows from findings and knowledge."),
    ANSWER: _("The answer is right."),
}


# --------------------------------------------------------------------------------------------------------------- steps


def _corrected(draft: Draft) -> dict[str, str]:
    return corrections.corrected(draft.reasons) if draft.previous else {}


def _is_made(draft: Draft) -> bool:
    return bool(draft.record.content["kind"] == MADE) and not _corrected(draft)


def _candidates(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(data.get("candidates", ()))


def _still_tries(draft: Draft, *, number: int) -> bool:
    if not _is_made(draft) or number > presets.settings(draft)["tries"]:
        return False
    return all(each["status"] == reference.INVALID for each in _candidates(draft.data))


async def _try(draft: Draft, models: Models, *, number: int) -> Sequence[Draft]:
    made = await reference.candidate(draft, models, number)
    return [replace(draft, data={**draft.data, "candidates": [*_candidates(draft.data), made]})]


def _asks_of_try(draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:  # noqa: ARG001
    return [("generator", reference.REFERENCE.label)] if number == 1 else ()


TRIES = tuple(
    Step(
        f"trace_{number}",
        partial(_try, number=number),
        partial(_still_tries, number=number),
        partial(_asks_of_try, number=number),
    )
    for number in range(1, MAX_TRIES + 1)
)


def _needs_report(draft: Draft) -> bool:
    return _is_made(draft) and bool(presets.settings(draft)["report"])


async def _report(draft: Draft, models: Models) -> Sequence[Draft]:
    if not any(not each["status"] for each in _candidates(draft.data)):
        return [draft]
    return [replace(draft, data={**draft.data, "report": await reference.report(draft, models)})]


async def _check(draft: Draft, models: Models) -> Sequence[Draft]:
    known = draft.data.get("report", "")
    done = [
        each if each["status"] else await reference.checked(draft, models, each, known)
        for each in _candidates(draft.data)
    ]
    return [replace(draft, data={**draft.data, "candidates": done})]


def _asks_of_check(draft: Draft) -> Sequence[tuple[str, str]]:
    asked = [("judge", reference.CHECK_ANSWER.label)]
    if presets.settings(draft)["letters"] and draft.record.content["letter"]:
        asked = []
    return [*asked, ("judge", reference.CHECK_TRACE.label)] if presets.settings(draft)["consistency"] else asked


def _dropped(made: Sequence[Mapping[str, Any]]) -> str:
    reasons = {
        reference.INVALID: "Invalid trace",
        reference.WRONG: "Wrong answer",
        reference.INCONSISTENT: "The trace does not support the true answer",
        reference.UNJUDGED: "The judge's reply cannot be read",
    }
    return " ".join(f"{reasons[each['status']]} (candidate {each['number']}): {each['why']}" for each in made)


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Choose the candidate that was kept. Raises Dropped with what was wrong where none was."""
    made = _candidates(draft.data)
    kept = next((each for each in made if each["status"] == reference.KEPT), None)
    if kept is None:
        raise Dropped(_dropped(made))
    final = {"origin": "made", "trace": kept["trace"], "number": kept["number"], "by": kept["answer"]["by"]}
    return [replace(draft, data={**draft.data, "final": final})]


async def correct(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """The version before, with the stages that physicians corrected."""
    previous, stages = draft.previous or {}, _corrected(draft)
    trace = {**previous["trace"], **stages}
    if fault := Trace(**trace).fault():
        raise Dropped(fault)
    return [replace(draft, data={"final": {"origin": "corrected", "trace": trace, "stages": sorted(stages)}})]


async def take_over(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """A published trace is taken as it is."""
    content = draft.record.content
    final = {"origin": "published", "trace": dict(content["trace"]), "model": content.get("by", "")}
    return [replace(draft, data={"final": final})]


# -------------------------------------------------------------------------------------------------------------- sample


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    content: as `generation.sources.importers.visual_questions.row` has it, and trace {visual, knowledge, reasoning, answer}.
    Its rubrics are the three stages, each tied to its term, and the answer.
    """
    content, final, settings = draft.record.content, draft.data["final"], presets.settings(draft)
    rubrics = [NewRubric(stage, CRITERIA[stage], (CODE_OF[stage],)) for stage in STAGES]
    return NewSample(
        task=content["dataset"],
        title=draft.record.title,
        language=draft.record.language,
        content={"kind": "vqa", **{name: content[name] for name in _CONTENT}, "trace": final["trace"]},
        rubrics=(*rubrics, NewRubric(ANSWER, CRITERIA[ANSWER])),
        prompt=reference.REFERENCE.label if final["origin"] == "made" else "",
        made=_made(draft, final),
        review_share=ReviewShare(
            settings["review_share"], f"{content['dataset']} / {content['question_type']}", settings["review_seed"]
        ),
    )


def _made(draft: Draft, final: Mapping[str, Any]) -> dict[str, str]:
    """What the data card says of how a sample was made."""
    settings = presets.settings(draft)
    made = {_("origin"): final["origin"], _("reviewers"): settings["reviewers"]}
    if final["origin"] != "made":
        return made
    # A batch is refused where they are one model, unless its launch says that they may be.
    made[_("judge and generator")] = _("may be one model") if settings["one_model"] else _("different models")
    return {**made, _("preset"): presets.name_of(draft), _("answer checked by"): final["by"]}


def compared(made: NewSample) -> str:
    """What no two samples may share: the question with its images. As a digest, which is never nearly another: data sets ask
    the same in other words on purpose."""
    asked = " ".join(made.content["question"].casefold().split())
    return hashlib.sha256("\n".join([asked, *made.content["images"]]).encode(errors="surrogatepass")).hexdigest()


_MAKING = frozenset({MADE})

RECIPE = Recipe(
    label=_("ClinHallu: reasoning about images, stage by stage"),
    kinds=frozenset({MADE, PUBLISHED}),
    roles=(
        ModelRole("generator", _("Generator: sees the images and writes the reference traces"), kinds=_MAKING),
        ModelRole(
            "judge", _("Judge: checks the answer and the consistency of a trace"), kinds=_MAKING, apart="generator"
        ),
        ModelRole(
            "reporter",
            _("Reporter: writes the reports on images that the judge gets in the preset of the released code"),
            default="judge",
            optional=True,
            kinds=_MAKING,
        ),
    ),
    steps=(
        *TRIES,
        Step("report", _report, _needs_report, lambda draft: [("reporter", reference.REPORT.label)]),  # noqa: ARG005
        Step("check", _check, _is_made, _asks_of_check),
        Step("settle", settle, _is_made),
        Step("correct", correct, lambda draft: bool(_corrected(draft))),
        Step(
            "take_over",
            take_over,
            lambda draft: draft.record.content["kind"] == PUBLISHED and not _corrected(draft),
        ),
    ),
    sample=sample,
    max_versions=3,
    compared=compared,
    presets=PRESETS,
    choices={"reviewers": ("one", "two")},
    may_share="one_model",
    lineage=lineage.lineage,
    analysis=lineage.analysis,
)
