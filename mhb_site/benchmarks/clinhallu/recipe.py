"""ClinHallu's recipe: questions about images with a checked reference trace.

Records of kind `vqa` get a trace from a generator that sees the images. Records of kind `vqa-trace`
were published with a trace and are used unchanged.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.labelled import LabelledAnswers, choice
from generation.recipes.recipe import Draft, Dropped, ModelRole, Models, NewRubric, NewSample, Recipe, Step
from generation.recipes.review_sampling import ReviewShare
from mhb_site.benchmarks.clinhallu import corrections, lineage, presets, reference
from mhb_site.benchmarks.clinhallu.judging import ANSWER
from mhb_site.benchmarks.clinhallu.presets import MAX_TRIES, PRESETS
from mhb_site.benchmarks.clinhallu.supervision import TRAINING_NOTE
from mhb_site.benchmarks.clinhallu.taxonomy import CODE_OF
from mhb_site.benchmarks.clinhallu.trace_text import STAGES, Trace

GENERATED, PUBLISHED = "vqa", "vqa-trace"
_CONTENT_FIELDS = (
    *("question", "options", "answer", "letter"),
    *("question_type", "dataset", "split", "images", "body_system"),
)
CRITERIA = {
    "visual": _("The visual recognition is supported by the images."),
    "knowledge": _("The recalled knowledge is true."),
    "reasoning": _("The reasoning follows from findings and knowledge."),
    ANSWER: _("The answer is right."),
}


# -------------------------------------------------------------------------------------------- steps


def _corrected_stages(draft: Draft) -> dict[str, str]:
    if draft.previous:
        return corrections.corrected_stages(draft.reasons)
    return {}


def _is_generated(draft: Draft) -> bool:
    return bool(draft.record.content["kind"] == GENERATED) and not _corrected_stages(draft)


def _candidates(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(data.get("candidates", ()))


def _needs_try(draft: Draft, *, number: int) -> bool:
    if not _is_generated(draft) or number > presets.settings(draft)["tries"]:
        return False
    return all(candidate["status"] == reference.INVALID for candidate in _candidates(draft.data))


def _try_prompts(_draft: Draft, *, number: int) -> Sequence[tuple[str, str]]:
    # Expected once: most candidates have a valid format.
    if number == 1:
        return [("generator", reference.REFERENCE.label)]
    return ()


def _try_step(number: int) -> Step:
    return Step(
        f"trace_{number}",
        partial(reference.generate_candidate, number=number),
        partial(_needs_try, number=number),
        partial(_try_prompts, number=number),
    )


TRIES = tuple(_try_step(number) for number in range(1, MAX_TRIES + 1))


async def _check_candidates(draft: Draft, models: Models) -> Sequence[Draft]:
    report = draft.data.get("report", "")
    checked = []
    for candidate in _candidates(draft.data):
        if not candidate["status"]:
            candidate = await reference.check_candidate(draft, models, candidate, report)
        checked.append(candidate)
    return [draft.extended(candidates=checked)]


def _check_prompts(draft: Draft) -> Sequence[tuple[str, str]]:
    settings = presets.settings(draft)
    by_letter = settings["letters"] and draft.record.content["letter"]
    asked = []
    if not by_letter:
        asked.append(("judge", reference.CHECK_ANSWER.label))
    if settings["consistency"]:
        asked.append(("judge", reference.CHECK_TRACE.label))
    return asked


def _drop_reason(candidates: Sequence[Mapping[str, Any]]) -> str:
    reasons = {
        reference.INVALID: "Invalid trace",
        reference.WRONG: "Wrong answer",
        reference.INCONSISTENT: "The trace does not support the true answer",
        reference.UNJUDGED: "The judge's reply cannot be read",
    }
    faults = []
    for candidate in candidates:
        reason = reasons[candidate["status"]]
        faults.append(f"{reason} (candidate {candidate['number']}): {candidate['why']}")
    return " ".join(faults)


async def settle(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Choose the candidate that passed all checks. Raises Dropped with the faults if none did."""
    candidates = _candidates(draft.data)
    kept = [candidate for candidate in candidates if candidate["status"] == reference.KEPT]
    if not kept:
        raise Dropped(_drop_reason(candidates))
    chosen = kept[0]
    final = {"origin": _("made"), "trace": chosen["trace"], "number": chosen["number"], "by": chosen["answer"]["by"]}
    return [draft.extended(final=final)]


async def correct(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Make the next version from the previous one and the stages that physicians corrected."""
    previous, stages = draft.previous or {}, _corrected_stages(draft)
    trace = {**previous["trace"], **stages}
    if fault := Trace(**trace).fault():
        raise Dropped(fault)
    return [replace(draft, data={"final": {"origin": _("corrected"), "trace": trace, "stages": sorted(stages)}})]


async def use_published(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Use a published trace unchanged."""
    content = draft.record.content
    final = {"origin": _("published"), "trace": dict(content["trace"]), "model": content.get("by", "")}
    return [replace(draft, data={"final": final})]


# ------------------------------------------------------------------------------------------- sample


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    Content: the fields of `generation.sources.importers.visual_questions.row`, and trace {visual,
    knowledge, reasoning, answer}. The rubrics are the three stages, each tied to its term, and the
    answer.
    """
    content, final, settings = draft.record.content, draft.data["final"], presets.settings(draft)
    rubrics = [NewRubric(stage, CRITERIA[stage], (CODE_OF[stage],)) for stage in STAGES]
    prompt = ""
    if final["origin"] == "made":
        prompt = reference.REFERENCE.label
    return NewSample(
        task=content["dataset"],
        title=draft.record.title,
        language=draft.record.language,
        content={"kind": "vqa", **{name: content[name] for name in _CONTENT_FIELDS}, "trace": final["trace"]},
        rubrics=(*rubrics, NewRubric(ANSWER, CRITERIA[ANSWER])),
        prompt=prompt,
        provenance=_data_card(draft, final),
        review_share=ReviewShare(
            settings["review_share"], f"{content['dataset']} / {content['question_type']}", settings["review_seed"]
        ),
    )


def _data_card(draft: Draft, final: Mapping[str, Any]) -> dict[str, str]:
    """Entries of the data card: how the sample was made."""
    settings = presets.settings(draft)
    entries = {_("origin"): final["origin"], _("reviewers"): settings["reviewers"]}
    if final["origin"] != "made":
        return entries
    return {**entries, _("preset"): presets.name_of(draft), _("answer checked by"): final["by"]}


_YES_OR_NO = {"Yes": "yes", "No": "no"}


def labelled(content: Mapping[str, Any]) -> LabelledAnswers | None:
    """The options of a question, or yes and no, with the stages of the reference as its contexts.

    What can be told from a stage that an intervention gives is no longer a test of the stages after
    it. None of an open question.
    """
    options = content["options"]
    answer = content["letter"]
    spoken = content["answer"].strip().rstrip(".").casefold()
    if not options and spoken in _YES_OR_NO.values():
        options = list(_YES_OR_NO.items())
        answer = spoken.capitalize()
    stages = {stage: str(content.get("trace", {}).get(stage, "")) for stage in STAGES}
    found = choice({"options": options, "letter": answer, "question": content["question"]}, stages)
    if found is None:
        return None
    return replace(found, facets={"data set": content["dataset"], "question type": content["question_type"]})


def text_to_compare(new_sample: NewSample) -> str:
    """A digest of the question with its images, which no two samples may share.

    A digest is never nearly equal to another: data sets repeat questions in other words on purpose.
    """
    question = " ".join(new_sample.content["question"].casefold().split())
    return hashlib.sha256(
        "\n".join([question, *new_sample.content["images"]]).encode(errors="surrogatepass")
    ).hexdigest()


def _is_reported(draft: Draft) -> bool:
    return _is_generated(draft) and bool(presets.settings(draft)["report"])


def _asks_report(_draft: Draft) -> list[tuple[str, str]]:
    return [("reporter", reference.REPORT.label)]


def _is_corrected(draft: Draft) -> bool:
    return bool(_corrected_stages(draft))


def _is_published(draft: Draft) -> bool:
    return draft.record.content["kind"] == PUBLISHED and not _is_corrected(draft)


STEPS = (
    *TRIES,
    Step("report", reference.write_report, _is_reported, _asks_report),
    Step("check", _check_candidates, _is_generated, _check_prompts),
    Step("settle", settle, _is_generated),
    Step("correct", correct, _is_corrected),
    Step("use_published", use_published, _is_published),
)
RECIPE = Recipe(
    label=_("ClinHallu: reasoning about images, stage by stage"),
    training_note=TRAINING_NOTE,
    intended=(
        "For locating where models hallucinate when they answer questions about medical images: in what they see, know or"
        " conclude. Nothing in the questions is wrong on purpose."
    ),
    kinds=frozenset({GENERATED, PUBLISHED}),
    roles=read_declared(ModelRole, __file__, "roles.json"),
    steps=STEPS,
    sample=sample,
    max_versions=3,
    compared=text_to_compare,
    labelled=labelled,
    presets=PRESETS,
    setting_labels=presets.LABELS,
    choices={"reviewers": ("one", "two")},
    lineage=lineage.lineage,
    analysis=lineage.analysis,
    step_labels={
        "trace_1": _("Write a reference trace"),
        "report": _("Describe the images"),
        "check": _("Check a reference trace"),
    },
)
