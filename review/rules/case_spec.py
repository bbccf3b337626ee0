"""The frozen specification of a case, as its producer submits it.

It is stored as JSON on the case row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import TypeAdapter

from review.rules.blocks import Block
from review.rules.questions import Answers, Form, Level, Question
from review.rules.state_machine import Policy, Reason

P = TypeVar("P", Question, Reason, Level)
UNDETERMINED = "und"  # ISO 639-2: the language of the case is not known yet


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """One sample version under review.

    lineage: the same for all versions of a sample; fresh eyes are chosen by it.
    blocks: what is shown, in order.
    first_look: what is shown before the traps are revealed, if the policy asks for it: the text as
        a model under test would see it.
    asked_for: the reasons for which the previous version was rejected.
    task: the kind of sample, if a benchmark has several, so that agreement can be reported for
        each.
    form_version: the version of the benchmark's review form in force when the case was opened (0:
        the form of its folder).
    language: ISO 639-1; empty: reviewers need no particular language; UNDETERMINED: an admin has to
        set it.
    """

    benchmark: str
    lineage: str
    version: int
    title: str
    blocks: tuple[Block, ...]
    form: Form
    policy: Policy = field(default_factory=Policy)
    asked_for: tuple[str, ...] = ()
    language: str = ""
    specialty: str = ""
    task: str = ""
    first_look: tuple[Block, ...] = ()
    simulated: bool = False
    form_version: int = 0

    @classmethod
    def of(cls, sample: Any, benchmark: str, lineage: str, version: int, **shown: Any) -> "CaseSpec":
        """The case of a sample, which has its title, task, language and specialty."""
        taken = {name: getattr(sample, name) for name in ("title", "task", "language", "specialty")}
        return cls(benchmark=benchmark, lineage=lineage, version=version, **taken, **shown)

    def in_language(self, language: str) -> "CaseSpec":
        """The case with the wordings that an admin has entered for `language`."""
        wordings = self.form.wordings.get(language)
        if wordings:
            return replace(self, form=_localize_form(self.form, wordings))
        return self


def _localize_form(form: Form, wordings: Mapping[str, str]) -> Form:
    def worded(part: P, key: str, *names: str) -> P:
        return replace(part, **{name: wordings.get(f"{key}.{name}", getattr(part, name)) for name in names})

    def question(asked: Question) -> Question:
        key = asked.key.partition(":")[0]
        choices = []
        for choice in asked.choices:
            choices.append(replace(choice, label=wordings.get(f"{key}.choice.{choice.value}", choice.label)))
        return replace(worded(asked, key, "label", "asks", "help"), choices=tuple(choices))

    reasons = [worded(reason, f"reasons:{reason.code}", "label") for reason in form.reasons]
    dissents = [worded(reason, f"dissents:{reason.code}", "label") for reason in form.dissents]
    levels = [worded(level, f"levels:{level.value}", "label", "about") for level in form.severities]
    return replace(
        form,
        questions=tuple(map(question, form.questions)),
        reasons=tuple(reasons),
        dissents=tuple(dissents),
        severities=tuple(levels),
        severity_asks=wordings.get("severity_asks", form.severity_asks),
    )


_SPEC = TypeAdapter(CaseSpec)
_ANSWERS = TypeAdapter(Answers)
_BLOCKS = TypeAdapter(list[Block])


def _storable(value: Any) -> Any:
    """`value` without NUL and lone surrogates, which JSON allows but PostgreSQL cannot store."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_storable(key): _storable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(inner) for inner in value]
    return value


def spec_to_json(spec: CaseSpec) -> dict[str, Any]:
    """A spec as JSON-serializable data; the inverse of `spec_from_json`."""
    return _storable(_SPEC.dump_python(spec, mode="json"))  # type: ignore[no-any-return]


def blocks_to_json(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Blocks outside of a case as JSON-serializable data."""
    return _storable(_BLOCKS.dump_python(list(blocks), mode="json"))  # type: ignore[no-any-return]


def spec_from_json(data: dict[str, Any]) -> CaseSpec:
    """The spec of a stored case.

    Raises pydantic's ValidationError if the data has another shape.
    """
    return _SPEC.validate_python(data)


def answers_to_json(answers: Answers) -> dict[str, Any]:
    """Answers as JSON-serializable data; the inverse of `answers_from_json`."""
    return _storable(_ANSWERS.dump_python(answers, mode="json"))  # type: ignore[no-any-return]


def answers_from_json(data: dict[str, Any]) -> Answers:
    """Answers of a draft, a form or the API. Raises pydantic's ValidationError on another shape."""
    return _ANSWERS.validate_python(data)
