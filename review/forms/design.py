"""A review form as edited by admins, and how it is applied to a benchmark's cases. Plain Python."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from importlib.resources import files
from typing import Any

from django.conf import settings
from pydantic import TypeAdapter

from review.rules.case_spec import CaseSpec
from review.rules.questions import Form, Level, Question, Reason
from review.rules.state_machine import Policy

# Policy fields that are not on/off settings of a form.
_EXCLUDED_SETTINGS = ("primary", "third_decides", "guided", "objection_hours")
# The parts that a design can leave to the folder, by None or an empty text.
INHERITABLE_PARTS = ("reasons", "dissents", "levels", "severity_asks")
OTHER_LANGUAGES = tuple(code for code, _name in settings.LANGUAGES if code != settings.LANGUAGE_CODE)
SETTINGS = tuple(setting.name for setting in fields(Policy) if setting.name not in _EXCLUDED_SETTINGS)


@dataclass(frozen=True, slots=True)
class Design:
    """The questions of a form, and its changes to the policy in the benchmark's folder.

    policy: setting -> on or off; other settings remain as in the folder, sample by sample.
    share: the percentage of samples to review; None: as in the folder.
    objection_hours: see `Policy`; None: as in the folder.
    wordings: see `Form`.
    reasons, dissents: see `Form`; None: as in the folder.
    levels: the folder's harm scale in other words; None: as in the folder.
    severity_asks: see `Form`; empty: as in the folder.
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
    """A fault that prevents a form from being published.

    field: `question.<n>.<part>`, `policy.<setting>`, `share`, `objection_hours`, `reasons.<n>`,
        `dissents.<n>`, `levels.<n>`, `reasons`, `levels`, `severity_asks` or `form`.
    """

    field: str
    sentence: str


_DESIGN, _FORM = TypeAdapter(Design), TypeAdapter(Form)


def folder_form(package: str, name: str = "form") -> Form:
    """The form in a benchmark's folder, a JSON file."""
    return _FORM.validate_json(files(package).joinpath(f"{name}.json").read_bytes())


def design_to_json(design: Design) -> dict[str, Any]:
    """A design as JSON-serializable data; the inverse of `design_from_json`."""
    return _DESIGN.dump_python(design, mode="json")  # type: ignore[no-any-return]


def design_from_json(data: object) -> Design:
    """A stored design. Raises pydantic's ValidationError if the data has another shape."""
    return _DESIGN.validate_python(data)


def unknown_names(sent: Any, parsed: Any, path: str = "") -> Iterator[str]:
    """Names in the sent data that the parsed design lacks: misspelt ones would silently be lost."""
    if isinstance(sent, dict) and isinstance(parsed, dict):
        yield from (f"{path}{name}" for name in sent if name not in parsed)
        for name in sent.keys() & parsed.keys():
            yield from unknown_names(sent[name], parsed[name], f"{path}{name}.")
    elif isinstance(sent, list) and isinstance(parsed, list):
        for number, (sent_item, parsed_item) in enumerate(zip(sent, parsed, strict=False), 1):
            yield from unknown_names(sent_item, parsed_item, f"{path}{number}.")


def apply_design(design: Design, version: int, spec: CaseSpec) -> CaseSpec:
    """The case, built with the folder's form, with a form version's questions and policy."""
    keys = {question.key for question in design.questions}
    rubrics_when = ""
    if spec.form.rubrics_when.partition("=")[0] in keys:
        rubrics_when = spec.form.rubrics_when
    reworded = {level.value: level for level in design.levels or ()}
    dissents = design.dissents
    if dissents is None:
        dissents = spec.form.dissents
    # By value: rates are weighted by the folder's levels, whose words alone can change.
    severities = tuple(reworded.get(level.value, level) for level in spec.form.severities)
    form = replace(
        spec.form,
        questions=case_questions(design.questions, spec.form),
        rubrics_when=rubrics_when,
        wordings=dict(design.wordings),
        reasons=_reasons(design, spec.form),
        dissents=dissents,
        severities=severities,
        severity_asks=design.severity_asks or spec.form.severity_asks,
    )
    return replace(spec, form=form, policy=_policy(design, spec), form_version=version)


def can_be_revised(form: Form) -> bool:
    """Whether a rejection by the folder's form can lead to another version of the sample.

    Samples that others have published cannot be revised.
    """
    blocking = []
    for question in form.questions:
        blocking += [choice for choice in question.choices if choice.blocks]
    if blocking and all(choice.ends for choice in blocking):
        return False
    return not form.reasons or any(reason.reducible for reason in form.reasons)


def _reasons(design: Design, form: Form) -> tuple[Reason, ...]:
    if design.reasons is None:
        return form.reasons
    revisable = can_be_revised(form)
    return tuple(replace(reason, reducible=reason.reducible and revisable) for reason in design.reasons)


def case_questions(asked: tuple[Question, ...], form: Form) -> tuple[Question, ...]:
    """The questions of a case, with those per rubric or per trap repeated for each of them.

    form: the folder's for the case. What it asks of each trap is asked of each trap by forms of
        the site that are older than this, too.
    """
    folder = {question.key: question.per for question in form.questions}
    names = {term.code: term.name for term in form.terms}
    rubrics = [(rubric.key, rubric.key) for rubric in form.rubrics]
    traps = [(tag, f"{tag} {names.get(tag, '')}".strip()) for tag in form.tags]
    subjects = {"rubric": rubrics, "trap": traps}
    is_final = not can_be_revised(form)
    by_subject = []
    for question in asked:
        if question.per == "case":
            question = replace(question, per=folder.get(question.key, "case"))
        if is_final:
            choices = tuple(replace(choice, ends=choice.blocks) for choice in question.choices)
            question = replace(question, choices=choices)
        by_subject.append(question)
    questions: list[Question] = []
    for question in by_subject:
        if question.per not in subjects:
            questions.append(question)
            continue
        source, _, value = question.when.partition("=")
        is_about_the_same = any(other.key == source and other.per == question.per for other in by_subject)
        for key, about in subjects[question.per]:
            when = question.when
            if is_about_the_same:
                when = f"{source}:{key}={value}"
            questions.append(replace(question, key=f"{question.key}:{key}", about=about, when=when, first_look=False))
    return tuple(questions)


def _policy(design: Design, spec: CaseSpec) -> Policy:
    if design.share is None:
        sampled = spec.policy.primary
    else:
        sampled = is_sampled(spec, design.share)
    if not sampled:
        return Policy(primary=False, secondary=False)
    changes: dict[str, Any] = {name: value for name, value in design.policy.items() if name in SETTINGS}
    if design.objection_hours is not None:
        changes["objection_hours"] = design.objection_hours
    if not spec.first_look:  # otherwise the first look would be empty
        changes["reveal_first_look"] = False
    return replace(spec.policy, **changes, primary=True)


def is_sampled(spec: CaseSpec, share: int) -> bool:
    """Whether a sample is among the `share` percent to review, the same for all its versions."""
    digest = sha256(f"{spec.benchmark}/{spec.lineage}".encode()).digest()
    return int.from_bytes(digest[:8]) * 100 < share * 2**64


def describe(design: Design) -> dict[str, str]:
    """Every part of a form as a line of text, by name, for comparing two versions."""
    lines: dict[str, str] = {}
    for number, question in enumerate(design.questions, 1):
        name = question.key
        lines[name] = " · ".join(_traits(number, question))
        for part in ("label", "asks", "help"):
            lines[f"{name}.{part}"] = getattr(question, part)
        for choice in question.choices:
            effects = ["blocks"] * choice.blocks + ["ends"] * choice.ends + ["inadequate"] * choice.inadequate
            effects += ["evidence"] * choice.evidence
            lines[f"{name}.choice.{choice.value}"] = " · ".join([choice.label, *effects, *choice.evidence_kinds])
    for language, words in design.wordings.items():
        lines |= {f"{name} ({language})": text for name, text in words.items()}
    for name, value in design.policy.items():
        lines[f"policy.{name}"] = "off"
        if value:
            lines[f"policy.{name}"] = "on"
    for part in ("reasons", "dissents"):
        for reason in getattr(design, part) or ():
            effect = "final"
            if reason.reducible:
                effect = "mendable"
            lines[f"{part}.{reason.code}"] = f"{reason.label} · {effect}"
    for level in design.levels or ():
        lines[f"levels.{level.value}"] = " · ".join(filter(None, (level.label, level.about)))
    lines["severity_asks"] = design.severity_asks
    if design.share is not None:
        lines["share"] = f"{design.share} %"
    if design.objection_hours is not None:
        lines["objection_hours"] = f"{design.objection_hours} h"
    return {name: text for name, text in lines.items() if text}


def _traits(number: int, question: Question) -> list[str]:
    traits = [f"{number}", question.kind, question.per]
    if question.required:
        traits.append("required")
    else:
        traits.append("optional")
    if question.first_look:
        traits.append("first look")
    if not question.compared:
        traits.append("agreement not required")
    if question.when:
        traits.append(f"when {question.when}")
    if question.stages:
        traits.append(f"stages {', '.join(question.stages)}")
    if question.shows:
        traits.append(f"shows {', '.join(question.shows)}")
    return traits
