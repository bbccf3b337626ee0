"""The versions of review forms, and the default form in the benchmark's folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db.models import QuerySet
from django.utils import translation

from review import errors
from review.calibration import practice
from review.common import benchmarks
from review.forms.design import (
    INHERITABLE_PARTS,
    OTHER_LANGUAGES,
    Design,
    apply_design,
    case_questions,
    describe,
    design_from_json,
)
from review.labels import HARMS, translate
from review.models import ReviewForm
from review.rules.case_spec import CaseSpec
from review.rules.diffing import Span, diff_words
from review.rules.questions import Form


def names() -> list[str]:
    """The benchmarks whose form can be edited: those with a practice case, used for the preview."""
    return practice.names()


def sample_case(benchmark: str) -> CaseSpec | None:
    """The practice case of a benchmark, with the form of its folder."""
    case = practice.practice(benchmark)
    if case:
        return case.spec
    return None


def edited_sample(benchmark: str) -> CaseSpec:
    """`sample_case` of a benchmark whose form can be edited. Raises UnknownForm for any other."""
    sample = sample_case(benchmark)
    if sample is None:
        raise errors.UnknownForm
    return sample


def locked(benchmark: str) -> Mapping[str, str]:
    """Keys of unremovable questions, and why (a msgid): `locked` in the benchmark's `form.json`."""
    form = benchmarks.data(benchmark, "form") or {}
    reasons: Mapping[str, str] = form.get("locked", {})
    return reasons


def form_in_force(benchmark: str) -> ReviewForm | None:
    """The version in force; None if none was ever published, so that the folder's form applies."""
    return ReviewForm.objects.filter(benchmark=benchmark).order_by("-version").first()


def versions(benchmark: str) -> QuerySet[ReviewForm]:
    """All versions, newest first."""
    return ReviewForm.objects.filter(benchmark=benchmark).select_related("author").order_by("-version")


def with_forms_in_force(specs: Sequence[CaseSpec]) -> list[CaseSpec]:
    """Cases that are about to be opened, each with the form in force for its benchmark."""
    opened = {spec.benchmark for spec in specs}
    forms = {benchmark: form_in_force(benchmark) for benchmark in opened}
    return [_with_form(spec, forms[spec.benchmark]) for spec in specs]


def senior_decides(benchmark: str) -> bool:
    """Whether senior physicians decide where the reviewers of a benchmark's new cases differ."""
    sample = sample_case(benchmark)
    return sample is not None and with_forms_in_force([sample])[0].policy.senior_decides


def _with_form(spec: CaseSpec, row: ReviewForm | None) -> CaseSpec:
    sample = sample_case(spec.benchmark)
    # A control has no question in common with the practice case, and keeps its own form.
    is_control = sample is not None and not _question_keys(sample) & _question_keys(spec)
    if row is None or row.design is None or is_control:
        if any(question.per != "case" for question in spec.form.questions):
            form = replace(spec.form, questions=case_questions(spec.form.questions, spec.form))
            spec = replace(spec, form=form)
        if row:
            return replace(spec, form_version=row.version)
        return spec
    return apply_design(design_from_json(row.design), row.version, spec)


def _question_keys(spec: CaseSpec) -> set[str]:
    return {question.key for question in spec.form.questions}


def default_design(benchmark: str) -> Design:
    """The folder's form as a design that includes the translations of the message catalogue."""
    spec = sample_case(benchmark)
    form = Form(())
    if spec:
        form = spec.form
    levels = []
    with translation.override(settings.LANGUAGE_CODE):
        for level in form.severities:
            levels.append(replace(level, about=level.about or str(HARMS.get(level.value, ""))))
    design = Design(
        form.questions,
        reasons=form.reasons,
        dissents=form.dissents,
        levels=tuple(levels),
        severity_asks=form.severity_asks,
    )
    return replace(design, wordings={code: _catalogue_wordings(design, code) for code in OTHER_LANGUAGES})


def _catalogue_wordings(design: Design, language: str) -> dict[str, str]:
    texts = {"severity_asks": design.severity_asks}
    for question in design.questions:
        for part in ("label", "asks", "help"):
            texts[f"{question.key}.{part}"] = getattr(question, part)
        for choice in question.choices:
            texts[f"{question.key}.choice.{choice.value}"] = choice.label
    for part, reasons in (("reasons", design.reasons), ("dissents", design.dissents)):
        for reason in reasons or ():
            texts[f"{part}:{reason.code}.label"] = reason.label
    for level in design.levels or ():
        texts[f"levels:{level.value}.label"] = level.label
        texts[f"levels:{level.value}.about"] = level.about
    wordings = {}
    with translation.override(language):
        for name, text in texts.items():
            if text and translate(text) != text:
                wordings[name] = translate(text)
    return wordings


def design_of(benchmark: str, row: ReviewForm | None) -> Design:
    """The design of a version, with the parts that it leaves to the folder filled in from there."""
    default = default_design(benchmark)
    if row is None or row.design is None:
        return default
    design = design_from_json(row.design)
    inherited = {part: getattr(default, part) for part in INHERITABLE_PARTS if getattr(design, part) in (None, "")}
    wordings = {code: dict(texts) for code, texts in design.wordings.items()}
    for code, texts in default.wordings.items():
        inherited_texts = {name: text for name, text in texts.items() if name.partition(":")[0] in inherited}
        wordings[code] = inherited_texts | wordings.get(code, {})
    return replace(design, **inherited, wordings=wordings)


@dataclass(frozen=True, slots=True)
class FormChange:
    """One part of a form in which two versions differ."""

    name: str
    spans: tuple[Span, ...]


def changes(before: Design, after: Design) -> list[FormChange]:
    """The differences between two designs, part by part."""
    old, new = describe(before), describe(after)
    found = []
    for name in dict.fromkeys([*new, *old]):
        text_before, text_after = old.get(name, ""), new.get(name, "")
        if text_before != text_after:
            found.append(FormChange(name, diff_words(text_before, text_after)))
    return found
