"""A review form as an admin builds it, and the case that it makes of a benchmark's. Plain Python."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter

from review.rules.case_spec import CaseSpec
from review.rules.questions import Form, Level, Question, Reason
from review.rules.state_machine import Policy

# What an admin may set; the others decide between these.
_DECIDED_ELSEWHERE = ("primary", "third_decides", "objection_hours")
LISTS = (
    "reasons",
    "dissents",
    "levels",
    "severity_asks",
)  # what a design can leave to the folder: None, or an empty text
SETTINGS = tuple(each.name for each in fields(Policy) if each.name not in _DECIDED_ELSEWHERE)


@dataclass(frozen=True, slots=True)
class Design:
    """The questions of a form, and what it changes in the policy of the benchmark's folder.

    policy: setting -> on or off; what it does not name stays as the folder says, sample by sample. share: percent of the
    samples that are reviewed, objection_hours: as of `Policy`; None: as the folder says. wordings: as of `Form`.
    reasons, dissents: as of `Form`; levels: the folder's harm scale in other words; None, and an empty severity_asks: as the
    folder says.
    """

    questions: tuple[Question, ...]
    policy: Mapping[str, bool] = field(default_factory=dict)
    share: int | None = None
    objection_hours: int | None = None
    wordings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reasons: tuple[Reason, ...] | None = None
    dissents: tuple[Reason, ...] | None = None
    levels: tuple[Level, ...] | None = None
    severity_asks: str = ""


@dataclass(frozen=True, slots=True)
class FormFault:
    """What keeps a form from being published, and the field: `question.<n>.<part>`, `policy.<setting>`, `share`,
    `objection_hours`, `reasons.<n>`, `dissents.<n>`, `levels.<n>`, `reasons`, `levels`, `severity_asks`, `form`."""

    field: str
    sentence: str


_DESIGN = TypeAdapter(Design)


def design_to_json(design: Design) -> dict[str, Any]:
    """JSON-able form of a design; `design_from_json` is its inverse."""
    return _DESIGN.dump_python(design, mode="json")  # type: ignore[no-any-return]


def design_from_json(data: object) -> Design:
    """The design that was stored. Raises pydantic's ValidationError on anything else."""
    return _DESIGN.validate_python(data)


def unknown_names(sent: Any, read: Any, at: str = "") -> Iterator[str]:
    """Names in what somebody sent that the design read from it does not have: misspelt ones would be lost without a word."""
    if isinstance(sent, dict) and isinstance(read, dict):
        yield from (f"{at}{name}" for name in sent if name not in read)
        for name in sent.keys() & read.keys():
            yield from unknown_names(sent[name], read[name], f"{at}{name}.")
    elif isinstance(sent, list) and isinstance(read, list):
        for number, (one, other) in enumerate(zip(sent, read, strict=False), 1):
            yield from unknown_names(one, other, f"{at}{number}.")


def applied(design: Design, version: int, spec: CaseSpec) -> CaseSpec:
    """The folder's case with the questions and the policy of a version."""
    asked = {question.key for question in design.questions}
    when = spec.form.rubrics_when if spec.form.rubrics_when.partition("=")[0] in asked else ""
    questions = _in_case(design, spec.form)
    form = replace(
        spec.form,
        questions=questions,
        rubrics_when=when,
        wordings=dict(design.wordings),
        reasons=_reasons(design, spec.form),
        dissents=spec.form.dissents if design.dissents is None else design.dissents,
        severities=_scale(design, spec.form),
        severity_asks=design.severity_asks or spec.form.severity_asks,
    )
    return replace(spec, form=form, policy=_policy(design, spec), form_version=version)


def can_be_revised(form: Form) -> bool:
    """Whether a rejection by the folder's form may ask for another version of the sample. What others published is final."""
    against = [choice for question in form.questions for choice in question.choices if choice.blocks]
    final = bool(against) and all(choice.ends for choice in against)
    return not final and (not form.reasons or any(reason.reducible for reason in form.reasons))


def _reasons(design: Design, form: Form) -> tuple[Reason, ...]:
    if design.reasons is None:
        return form.reasons
    again = can_be_revised(form)
    return tuple(replace(reason, reducible=reason.reducible and again) for reason in design.reasons)


def _scale(design: Design, form: Form) -> tuple[Level, ...]:
    """The folder's levels, in the design's words: rates are weighted by their values."""
    worded = {level.value: level for level in design.levels or ()}
    return tuple(worded.get(level.value, level) for level in form.severities)


def _in_case(design: Design, form: Form) -> tuple[Question, ...]:
    """The questions of a case: one that is asked per rubric or trap stands there once of each."""
    found: list[Question] = []
    names = {term.code: term.name for term in form.terms}
    of = {
        "rubric": [(rubric.key, rubric.key) for rubric in form.rubrics],
        "trap": [(tag, f"{tag} {names.get(tag, '')}".strip()) for tag in form.tags],
    }
    for question in design.questions:
        if question.per not in of:
            found.append(question)
            continue
        for key, about in of[question.per]:
            when = question.when
            source, _, value = when.partition("=")
            if any(each.key == source and each.per == question.per for each in design.questions):
                when = f"{source}:{key}={value}"
            found.append(replace(question, key=f"{question.key}:{key}", about=about, when=when, first_look=False))
    if can_be_revised(form):
        return tuple(found)
    return tuple(replace(each, choices=tuple(replace(c, ends=c.blocks) for c in each.choices)) for each in found)


def _policy(design: Design, spec: CaseSpec) -> Policy:
    drawn = spec.policy.primary if design.share is None else is_sampled(spec, design.share)
    if not drawn:
        return Policy(primary=False, secondary=False)
    changed: dict[str, Any] = {name: value for name, value in design.policy.items() if name in SETTINGS}
    if design.objection_hours is not None:
        changed["objection_hours"] = design.objection_hours
    if not spec.first_look:  # nothing to look at: the case would be empty
        changed["reveal_first_look"] = False
    return replace(spec.policy, **changed, primary=True)


def is_sampled(spec: CaseSpec, share: int) -> bool:
    """Whether a sample is among the `share` percent that are reviewed; the same for all of its versions."""
    digest = sha256(f"{spec.benchmark}/{spec.lineage}".encode()).digest()
    return int.from_bytes(digest[:8]) * 100 < share * 2**64


def described(design: Design) -> dict[str, str]:
    """Every part of a form as a line of text, by a name: what two versions are compared by."""
    lines: dict[str, str] = {}
    for number, question in enumerate(design.questions, 1):
        name = question.key
        lines[name] = " · ".join(
            [f"{number}", question.kind, question.per]
            + ["required" if question.required else "optional"]
            + ["first look"] * question.first_look
            + ["agreement not required"] * (not question.compared)
            + ([f"when {question.when}"] if question.when else [])
            + ([f"stages {', '.join(question.stages)}"] if question.stages else [])
        )
        lines |= {f"{name}.{part}": getattr(question, part) for part in ("label", "asks", "help")}
        for choice in question.choices:
            effects = ["blocks"] * choice.blocks + ["ends"] * choice.ends + ["inadequate"] * choice.inadequate
            effects += ["evidence"] * choice.evidence
            shown = [choice.label, *effects, *choice.evidence_kinds]
            lines[f"{name}.choice.{choice.value}"] = " · ".join(shown)
    for language, words in design.wordings.items():
        lines |= {f"{name} ({language})": text for name, text in words.items()}
    lines |= {f"policy.{name}": "on" if value else "off" for name, value in design.policy.items()}
    for part in ("reasons", "dissents"):
        for reason in getattr(design, part) or ():
            after = "mendable" if reason.reducible else "final"
            lines[f"{part}.{reason.code}"] = f"{reason.label} · {after}"
    for level in design.levels or ():
        lines[f"levels.{level.value}"] = " · ".join(part for part in (level.label, level.about) if part)
    lines["severity_asks"] = design.severity_asks
    if design.share is not None:
        lines["share"] = f"{design.share} %"
    if design.objection_hours is not None:
        lines["objection_hours"] = f"{design.objection_hours} h"
    return {name: text for name, text in lines.items() if text}
