"""What a producer hands over to have reviewed: one case, frozen. Stored as JSON on the case row and read back."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from review.rules.blocks import Block
from review.rules.questions import Answers, Form, Question
from review.rules.state_machine import Policy, Reason

UNDETERMINED = "und"  # ISO 639-2: of a case whose language nobody knows yet


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """One sample version put before physicians.

    `lineage` is the same for all versions of one sample (fresh eyes are chosen by it); `blocks` is what is shown, in
    order; `first_look` is what is shown before the traps are revealed, where the policy asks for it: the text as a model
    under test would see it; `asked_for` lists the reasons for which the previous version was rejected; `task` names the
    kind of sample where a benchmark has several, so that agreement can be read apart; `form_version` is the version of the
    benchmark's review form that was in force when the case was opened (0: the form of its folder). `language`:
    ISO 639-1, empty where none is asked of its reviewers, UNDETERMINED where it waits for an admin's word.
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

    def in_language(self, language: str) -> "CaseSpec":
        """The same case with the questions, reasons and levels as an admin worded them in a language, where one did."""
        words = self.form.wordings.get(language)
        return replace(self, form=_form_worded(self.form, words)) if words else self

    def with_history(self, *, asked_for: tuple[str, ...], simulated: bool) -> "CaseSpec":
        """The same case with what only the producing engine knows of it."""
        return replace(self, asked_for=asked_for, simulated=simulated)


def _form_worded(form: Form, words: Mapping[str, str]) -> Form:
    levels = (
        replace(
            each,
            label=words.get(f"levels:{each.value}.label", each.label),
            about=words.get(f"levels:{each.value}.about", each.about),
        )
        for each in form.severities
    )
    return replace(
        form,
        questions=_worded(form.questions, words),
        reasons=_reasons_worded(form.reasons, "reasons", words),
        dissents=_reasons_worded(form.dissents, "dissents", words),
        severities=tuple(levels),
        severity_asks=words.get("severity_asks", form.severity_asks),
    )


def _reasons_worded(reasons: Iterable[Reason], part: str, words: Mapping[str, str]) -> tuple[Reason, ...]:
    return tuple(replace(each, label=words.get(f"{part}:{each.code}.label", each.label)) for each in reasons)


def _worded(questions: Iterable[Question], words: Mapping[str, str]) -> tuple[Question, ...]:
    found = []
    for question in questions:
        key = question.key.partition(":")[0]
        choices = [
            replace(each, label=words.get(f"{key}.choice.{each.value}", each.label)) for each in question.choices
        ]
        texts = {part: words.get(f"{key}.{part}", getattr(question, part)) for part in ("label", "asks", "help")}
        found.append(replace(question, choices=tuple(choices), **texts))
    return tuple(found)


_SPEC = TypeAdapter(CaseSpec)
_ALIKE: dict[str, TypeAdapter[Any]] = {"form": TypeAdapter(Form), "policy": TypeAdapter(Policy)}
_NAMES = [each.name for each in fields(CaseSpec)]
_ANSWERS = TypeAdapter(Answers)
_BLOCKS = TypeAdapter(list[Block])


def _storable(value: Any) -> Any:
    """`value` without NUL and lone surrogates, which come in through JSON escapes and which PostgreSQL cannot store."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_storable(key): _storable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(inner) for inner in value]
    return value


def spec_to_json(spec: CaseSpec) -> dict[str, Any]:
    """JSON-able form of a spec; `spec_from_json` is its inverse."""
    return _storable(_SPEC.dump_python(spec, mode="json"))  # type: ignore[no-any-return]


def specs_to_json(specs: Iterable[CaseSpec]) -> Iterator[dict[str, Any]]:
    """The same of many cases: a form and a policy that one after the other has, which are most of a case, are read once."""
    known: dict[str, tuple[Any, Any]] = {}
    for spec in specs:
        for name, adapter in _ALIKE.items():
            value = getattr(spec, name)
            if name not in known or known[name][0] != value:
                known[name] = value, _storable(adapter.dump_python(value, mode="json"))
        own = _storable(_SPEC.dump_python(spec, mode="json", exclude=set(_ALIKE)))
        yield {name: known[name][1] if name in known else own[name] for name in _NAMES}


def blocks_to_json(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """JSON-able form of blocks that are no part of a case."""
    return _storable(_BLOCKS.dump_python(list(blocks), mode="json"))  # type: ignore[no-any-return]


def spec_from_json(data: dict[str, Any]) -> CaseSpec:
    """The spec of a stored case. Raises pydantic's ValidationError on anything else."""
    return _SPEC.validate_python(data)


@lru_cache(maxsize=200)  # of some fifty kilobytes each
def spec_from_text(text: str) -> CaseSpec:
    """The same from the JSON itself: what is asked about at each page, draft and submit of a case is read once."""
    return spec_from_json(json.loads(text))


def answers_to_json(answers: Answers) -> dict[str, Any]:
    """JSON-able form of answers; `answers_from_json` is its inverse."""
    return _storable(_ANSWERS.dump_python(answers, mode="json"))  # type: ignore[no-any-return]


def answers_from_json(data: dict[str, Any]) -> Answers:
    """Answers from a draft, a form or the API. Raises pydantic's ValidationError on another shape."""
    return _ANSWERS.validate_python(data)
