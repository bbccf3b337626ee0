"""The versions of review forms, and the benchmark's own form, which is the default."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from django.conf import settings
from django.db.models import QuerySet
from django.utils import translation

from review.calibration import practice
from review.common import benchmarks, sql
from review.forms.design import LISTS, Design, applied, described, design_from_json
from review.labels import HARMS, translate
from review.models import ReviewForm
from review.rules.case_spec import CaseSpec
from review.rules.diffing import Span, diff_words
from review.rules.questions import Form


def names() -> list[str]:
    """The benchmarks whose form can be edited: those with a practice case, which shows what it looks like."""
    return practice.names()


def sample_case(benchmark: str) -> CaseSpec | None:
    """The practice case of a benchmark, with the form of its folder."""
    found = practice.practice(benchmark)
    return found.spec if found else None


def locked(benchmark: str) -> Mapping[str, str]:
    """Keys of the questions that cannot be removed, and why (a msgid), from the benchmark's `review.LOCKED`."""
    found: Mapping[str, str] = getattr(benchmarks.module(benchmark, "review"), "LOCKED", {})
    return found


def reasons_locked(benchmark: str) -> dict[str, str]:
    """The same in the reader's language."""
    return {key: translate(why) for key, why in locked(benchmark).items()}


def in_force(benchmark: str) -> ReviewForm | None:
    """The version in force; None: none was ever published, and the folder's form stands."""
    found = sql.instances(_IN_FORCE, (benchmark,), f=ReviewForm)
    return found[0][0] if found else None


_IN_FORCE = "SELECT {f} FROM review_reviewform f WHERE f.benchmark = %s ORDER BY f.version DESC LIMIT 1"


def versions(benchmark: str) -> QuerySet[ReviewForm]:
    """All versions, newest first."""
    return ReviewForm.objects.filter(benchmark=benchmark).select_related("author").order_by("-version")


def with_form_in_force(spec: CaseSpec) -> CaseSpec:
    """A case about to be opened, with the form that admins published for its benchmark."""
    return _with_form(spec, in_force(spec.benchmark))


def all_with_form_in_force(specs: Iterable[CaseSpec]) -> Iterator[CaseSpec]:
    """The same of many cases: one query a benchmark."""
    forms: dict[str, ReviewForm | None] = {}
    for spec in specs:
        if spec.benchmark not in forms:
            forms[spec.benchmark] = in_force(spec.benchmark)
        yield _with_form(spec, forms[spec.benchmark])


def _with_form(spec: CaseSpec, row: ReviewForm | None) -> CaseSpec:
    if row is None:
        return spec
    if row.design is None or _is_of_another_kind(spec):
        return replace(spec, form_version=row.version)
    return applied(design_from_json(row.design), row.version, spec)


def _is_of_another_kind(spec: CaseSpec) -> bool:
    """Whether the folder asks of a case nothing that it asks of the practice case: a control, which the form is not about."""
    usual = sample_case(spec.benchmark)
    return usual is not None and not _keys(usual) & _keys(spec)


def _keys(spec: CaseSpec) -> set[str]:
    return {question.key for question in spec.form.questions}


def default_design(benchmark: str) -> Design:
    """The folder's form as a design, with the catalogue's translations written out."""
    spec = sample_case(benchmark)
    form = spec.form if spec else Form(())
    with translation.override(settings.LANGUAGE_CODE):
        levels = tuple(replace(each, about=each.about or str(HARMS.get(each.value, ""))) for each in form.severities)
    design = Design(
        form.questions, reasons=form.reasons, dissents=form.dissents, levels=levels, severity_asks=form.severity_asks
    )
    others = [code for code, _name in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
    return replace(design, wordings={code: _translated(design, code) for code in others})


def _translated(design: Design, language: str) -> dict[str, str]:
    texts = {"severity_asks": design.severity_asks}
    for question in design.questions:
        texts |= {f"{question.key}.{part}": getattr(question, part) for part in ("label", "asks", "help")}
        texts |= {f"{question.key}.choice.{choice.value}": choice.label for choice in question.choices}
    for part, reasons in (("reasons", design.reasons), ("dissents", design.dissents)):
        texts |= {f"{part}:{reason.code}.label": reason.label for reason in reasons or ()}
    for level in design.levels or ():
        texts |= {f"levels:{level.value}.{part}": getattr(level, part) for part in ("label", "about")}
    with translation.override(language):
        return {name: translate(text) for name, text in texts.items() if text and translate(text) != text}


def design_of(benchmark: str, row: ReviewForm | None) -> Design:
    """The design of a version; what it leaves to the folder, and the whole of one that has none, is the folder's."""
    default = default_design(benchmark)
    if row is None or row.design is None:
        return default
    design = design_from_json(row.design)
    left = {part: getattr(default, part) for part in LISTS if getattr(design, part) in (None, "")}
    wordings = {code: dict(words) for code, words in design.wordings.items()}
    for code, words in default.wordings.items():
        own = {name: text for name, text in words.items() if name.partition(":")[0] in left}
        wordings[code] = own | wordings.get(code, {})
    return replace(design, **left, wordings=wordings)


@dataclass(frozen=True, slots=True)
class FormChange:
    """One part of a form that two versions have differently."""

    name: str
    spans: tuple[Span, ...]


def changes(before: Design, after: Design) -> list[FormChange]:
    """What is different in `after`, part by part."""
    old, new = described(before), described(after)
    return [
        FormChange(name, diff_words(old.get(name, ""), new.get(name, "")))
        for name in dict.fromkeys([*new, *old])
        if old.get(name, "") != new.get(name, "")
    ]
