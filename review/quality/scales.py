"""The answers that may be given to a question: the categories of its agreement.

One rule for the page, the data card, the export and its check: the answers that the forms of the
counted cases offer. A form may change between cases; then the answers of all of them count.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from review.models import Case
from review.rules.questions import RUBRIC_VALUES
from review.rules.state_machine import Verdict

# How the wordings of a rubric are compared (`consolidation.same_wordings`, `added_wordings`).
WORDINGS = ("generated", "corrected", "corrected-2", "added", "absent")
IDS_AT_ONCE = 500  # in a query
FORM_PARTS = ("questions", "severities", "reasons", "rubrics_editable")  # that offer answers


@dataclass(frozen=True, slots=True)
class Scale:
    """The answers to a question, in their order if they have one (`ordinal`)."""

    answers: tuple[str, ...]
    ordinal: bool = False


def offered_answers(cases: Collection[int]) -> dict[int, Mapping[str, Scale]]:
    """Case -> the answers that its form offers to each question (`scales_of`)."""
    parts = {name: F(f"spec__form__{name}") for name in FORM_PARTS}
    ids, offered = sorted(cases), dict[int, Mapping[str, Scale]]()
    by_form: dict[str, Mapping[str, Scale]] = {}
    for start in range(0, len(ids), IDS_AT_ONCE):
        rows = Case.objects.filter(pk__in=ids[start : start + IDS_AT_ONCE]).annotate(**parts).order_by()
        for case, *values in rows.values_list("pk", *parts):
            form = json.dumps(values)
            if form not in by_form:
                by_form[form] = scales_of(dict(zip(FORM_PARTS, values, strict=True)))
            offered[case] = by_form[form]
    return offered


def scales_of(form: Mapping[str, Any]) -> dict[str, Scale]:
    """Question -> its answers in one form (`FORM_PARTS`, as stored).

    Questions are named as in `ratings.csv`. One that is asked of each rubric or trap is one
    question. Free text has no answers.
    """
    result = {
        "verdict": Scale(tuple(Verdict)),
        "rubric": Scale(RUBRIC_VALUES if form["rubrics_editable"] else RUBRIC_VALUES[:3]),
        "wording": Scale(WORDINGS),
    }
    if form["severities"]:
        result["severity"] = Scale(tuple(level["value"] for level in form["severities"]), ordinal=True)
    if form["reasons"]:
        result["reason"] = Scale(tuple(reason["code"] for reason in form["reasons"]))
    for question in form["questions"]:
        if question["kind"] != "text":
            name = question["key"].partition(":")[0]
            answers = tuple(choice["value"] for choice in question["choices"])
            earlier = []
            if name in result:
                earlier = [result[name]]
            result[name] = merged([*earlier, Scale(answers, len(answers) > 2 and _are_numbers(answers))])
    return result


def merged(scales: Sequence[Scale], given: Iterable[str] = ()) -> Scale:
    """The answers of all these scales of a question, oldest first.

    Numbers are in their order. Otherwise the newest scale has its own order, and an answer that it
    does not offer stands behind the one that it followed in its own. Answers without an order in
    one of the scales have none together, unless all are numbers. `given`: answers, of which those
    that no scale offers (several choices at once, or what an older program stored) are added.
    """
    versions = list(dict.fromkeys(reversed(scales))) or [Scale(())]  # the newest first
    answers = list(versions[0].answers)
    for scale in versions[1:]:
        for place, answer in enumerate(scale.answers):
            if answer not in answers:
                answers.insert(answers.index(scale.answers[place - 1]) + 1 if place else 0, answer)
    answers += sorted(set(given) - set(answers))
    has_order = [scale.ordinal for scale in versions]
    if any(has_order) and _are_numbers(answers):
        return Scale(tuple(sorted(answers, key=int)), ordinal=True)
    return Scale(tuple(answers), all(has_order))


def _are_numbers(answers: Iterable[str]) -> bool:
    return all(answer.isdecimal() for answer in answers)
