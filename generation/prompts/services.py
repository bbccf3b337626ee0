"""Stores versions of a team's own prompt sets."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from django.db import IntegrityError
from django.utils import timezone
from django.utils.translation import gettext as _

from generation import errors
from generation.models import PromptSet
from generation.prompts import queries
from generation.recipes import registry
from generation.recipes.prompts import parse_prompt
from review.audit.trail import record_person, recording_events
from review.errors import TooLong
from review.models import PersonEvent, User
from review.rules import limits
from review.rules.text import is_storable

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
RESERVED = (queries.DEFAULT, "compare")  # in addresses
MAX_VERSION = 20


def save(
    benchmark: str,
    name: str,
    texts: Mapping[str, str],
    *,
    based_on: str = "",
    note: str = "",
    actor: User | None = None,
) -> PromptSet:
    """Store texts as the next version of a set; files that are not given are those of `based_on`.

    `based_on`: a set's name as a launch gives it, "" for the benchmark's default. Texts equal to
    the newest version's are not stored again: that version is returned.

    Raises PromptsFaulty, which names each file and what is wrong; StalePrompts if `based_on` is an
    older version of the same set; UnknownPrompts; UnknownBenchmark; TooLong for the note.
    """
    if len(note) > limits.NOTE:
        raise TooLong
    released = queries.released_texts(benchmark)
    base = queries.shown_set(benchmark, based_on)
    if not NAME.fullmatch(name) or name in {*released, *registry.recipe(benchmark).prompt_sets, *RESERVED}:
        raise errors.PromptsFaulty(
            _("%(name)s cannot be the name of a set: use up to 40 letters a-z, digits, - and _, and no released set's.")
            % {"name": repr(name[:60])}
        )
    whole = {file: _normalised(text) for file, text in {**base.texts, **texts}.items()}
    faults: list[str] = []
    for found in problems(benchmark, whole).values():
        faults += found
    if faults:
        raise errors.PromptsFaulty(" ".join(faults[: limits.PROBLEMS]))
    try:
        return _store(benchmark, name, whole, base, note, actor)
    except IntegrityError:  # somebody stored this version first
        raise errors.StalePrompts from None


@recording_events()
def _store(
    benchmark: str, name: str, whole: Mapping[str, str], base: queries.ShownSet, note: str, actor: User | None
) -> PromptSet:
    newest = queries.stored_sets(benchmark).filter(name=name).select_for_update(of=("self",)).first()
    if newest is not None and dict(newest.texts) == whole:
        return newest
    if newest is not None and base.stored is not None and base.stored.name == name and base.stored != newest:
        raise errors.StalePrompts
    number, based_on = 1, ""
    if newest is not None:
        number = newest.number + 1
    if base.name != queries.DEFAULT:
        based_on = base.name
    row = PromptSet.objects.create(
        benchmark=benchmark,
        name=name,
        number=number,
        texts=whole,
        digest=queries.digest_of(whole),
        based_on=based_on,
        note=note,
        author=actor,
        at=timezone.now(),
    )
    if actor is not None:
        values = {"benchmark": benchmark, "set": str(row), "digest": row.digest, "note": row.note}
        record_person(actor, PersonEvent.Kind.PROMPTS, actor, **values)
    return row


def load_folder(benchmark: str, folder: Path, name: str, *, note: str = "") -> PromptSet:
    """Store the prompt files of a folder as the next version of a set.

    Files of the benchmark that the folder lacks are its default ones. Raises like `save`.
    """
    if not folder.is_dir():
        raise errors.PromptsFaulty(_("%(folder)s is no folder.") % {"folder": folder})
    texts = {}
    for path in sorted(folder.glob("*.md")):
        if path.stat().st_size > 4 * limits.PROMPT:  # bytes of the longest text
            raise errors.PromptsFaulty(f"{path.name}: {_too_long()}")
        try:
            texts[path.stem] = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise errors.PromptsFaulty(path.name + ": " + _("not UTF-8.")) from None
    if not texts:
        raise errors.PromptsFaulty(_("%(folder)s has no .md file.") % {"folder": folder})
    return save(benchmark, name, texts, note=note)


def problems(benchmark: str, texts: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with each file, in words; {} if all can be used. Raises UnknownBenchmark."""
    released = queries.released_texts(benchmark)
    found: dict[str, list[str]] = {}
    for file, text in sorted(texts.items()):
        for fault in _problems(benchmark, file, _normalised(text), released):
            found.setdefault(file, []).append(f"{file[:60]}.md: {fault}")
    return found


def _normalised(text: str) -> str:
    """A text without the differences that a browser makes: line ends, spaces at the very end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"


def _too_long() -> str:
    return _("longer than %(n)s characters.") % {"n": limits.PROMPT}


def _problems(benchmark: str, file: str, text: str, released: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """What is wrong with a file, in words. Nothing but ``$placeholders`` is ever filled in."""
    same_file = [texts[file] for texts in released.values() if file in texts]
    if not same_file:
        known = ", ".join(f"{name}.md" for name in released[""]) or "-"
        yield _("no prompt file of this benchmark; known: %(known)s.") % {"known": known}
        return
    if len(text) > limits.PROMPT:
        yield _too_long()
        return
    if not is_storable(text):
        yield _("contains a character that cannot be stored.")
        return
    try:
        prompt = parse_prompt(f"{benchmark}/{file}", text)
        placeholders = prompt.placeholders
    except ValueError as mistake:
        yield str(mistake).removeprefix(f"{file}.md: ") + "."
        return
    if len(prompt.version) > MAX_VERSION:
        yield _("its version is longer than %(n)s characters.") % {"n": MAX_VERSION}
        return
    in_sets = [parse_prompt(f"{benchmark}/{file}", released_text).placeholders for released_text in same_file]
    allowed, needed = frozenset[str]().union(*in_sets), in_sets[0].intersection(*in_sets)
    if unknown := sorted(placeholders - allowed):
        names = {"names": _named(name[:40] for name in unknown), "known": _named(sorted(allowed)) or "-"}
        yield _("unknown placeholder %(names)s; known: %(known)s. Write $$ for a dollar sign.") % names
    if missing := sorted(needed - placeholders):
        yield _("without the placeholder %(names)s, the model would not see it.") % {"names": _named(missing)}
    if further := registry.recipe(benchmark).prompt_faults:
        yield from further(file, prompt)


def _named(placeholders: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in placeholders)
