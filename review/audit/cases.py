"""Compare cases and review forms with their events: state, settings, rows that go with events."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

from django.db import transaction

from review.audit.chain_entries import NOT_OURS
from review.models import (
    Case,
    ChainHead,
    Event,
    FirstLook,
    PersonEvent,
    Remark,
    Retraction,
    ReviewForm,
    Rewording,
    RewordingOutcome,
)
from review.rules.state_machine import Consent, State

CHUNK = 1000  # cases in memory at a time
Kind = Event.Kind

UNRECORDED = "unrecorded"
STATE = "state"
# Rows that accompany events: name of a mismatch -> model, the case, and what the events tell too.
ROWS: dict[str, tuple[Any, ...]] = {
    "first-look": (FirstLook, "assignment__case", "assignment__role", "physician"),
    "retraction": (Retraction, "review__case", "review"),
    "remark": (Remark, "case", "pk", "author"),
    "rewording": (Rewording, "case"),
    "consent": (RewordingOutcome, "rewording__case", "consent", "reason", "rewording__review"),
}
CONSENTS = {Kind.ACCEPTED: Consent.ACCEPTED, Kind.OBJECTED: Consent.OBJECTED, Kind.LAPSED: Consent.LAPSED}
SETTINGS = {
    Kind.PRIORITISED: ("priority", "after"),
    Kind.SPECIALTY: ("specialty", "text"),
    Kind.LANGUAGE: ("language", "text"),
}
TELLING = (
    *(Kind.OPENED, Kind.MOVED, Kind.CLOSED, Kind.REVEALED, Kind.RETRACTED, Kind.REMARKED, Kind.REWORDED),
    *(*SETTINGS, *CONSENTS),
)
MISMATCH_NAMES = {name: "settings" for name, _key in SETTINGS.values()} | {"consent": "rewording"}
Facts = dict[str, Any]  # name of a mismatch -> what events, or rows, say


def mismatches(cases: Collection[int]) -> list[tuple[int, str]]:
    """The cases that differ from their events, each with the name of the mismatch."""
    recorded = _recorded(cases)
    result = []
    for pk, stored in _stored(cases).items():
        if pk not in recorded:
            result.append((pk, UNRECORDED))
            continue
        differing = set()
        for name, value in recorded[pk].items():
            if stored[name] != value:
                differing.add(MISMATCH_NAMES.get(name, name))
        result += [(pk, name) for name in sorted(differing)]
    return result


def _recorded(cases: Collection[int]) -> dict[int, Facts]:
    """What the events of cases say; of settings, only those that were ever changed."""
    facts: dict[int, Facts] = {}
    rows = Event.objects.filter(case__in=cases, kind__in=TELLING).order_by("sequence")
    for case, kind, actor, data in rows.values_list("case_id", "kind", "actor_id", "data").iterator(chunk_size=CHUNK):
        if kind == Kind.OPENED:
            facts.setdefault(case, {**_none(), STATE: (State.PRIMARY, "")})
        elif case in facts:
            with suppress(*NOT_OURS):  # an event that was altered: the check of the chain names it
                _add(facts[case], kind, actor, data)
    return facts


def _add(facts: Facts, kind: str, actor: int | None, data: dict[str, Any]) -> None:
    if kind in (Kind.MOVED, Kind.CLOSED):
        facts[STATE] = (data["after"], data["ground"])
    elif kind in SETTINGS:
        name, key = SETTINGS[Kind(kind)]
        facts[name] = data[key]
    elif kind == Kind.REVEALED:
        facts["first-look"].add((data["role"], actor))
    elif kind == Kind.RETRACTED:
        facts["retraction"].add((data["review"],))
    elif kind == Kind.REMARKED:
        facts["remark"].add((data["remark"], actor))
    elif kind == Kind.REWORDED:
        facts["rewording"].add(())
    elif kind in CONSENTS:
        facts["consent"].add((CONSENTS[Kind(kind)], data.get("reason", ""), data["review"]))


def _stored(cases: Collection[int]) -> dict[int, Facts]:
    """What the rows of cases say."""
    facts: dict[int, Facts] = defaultdict(_none)
    for case in Case.objects.filter(pk__in=cases).only("state", "ground", "priority", "specialty", "language"):
        facts[case.pk] |= {name: getattr(case, name) for name, _key in SETTINGS.values()}
        facts[case.pk][STATE] = (case.state, case.ground)
    for name, (model, column, *columns) in ROWS.items():
        rows = model._default_manager.filter(**{f"{column}__in": cases}).values_list(column, *columns)
        for case_id, *row in rows:
            facts[case_id][name].add(tuple(row))
    return facts


def _none() -> Facts:
    return {name: set() for name in ROWS}


def form_digest(design: Any) -> str:
    """The digest of a review form's design, for the event of its publication."""
    return sha256(json.dumps(design, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def altered_forms() -> Iterator[tuple[str, int]]:
    """Versions of review forms that are missing, unrecorded or altered: (benchmark, version)."""
    with transaction.atomic():
        list(ChainHead.objects.select_for_update())
        forms = ReviewForm.objects.values_list("benchmark", "version", "design")
        stored = {(benchmark, version, form_digest(design)) for benchmark, version, design in forms}
        recorded: set[tuple[Any, Any, Any]] = set()
        events = PersonEvent.objects.filter(kind=PersonEvent.Kind.FORM)
        for data in events.values_list("data", flat=True):
            with suppress(*NOT_OURS):
                recorded.add((str(data["benchmark"]), int(data["version"]), data["digest"]))
    yield from sorted({(benchmark, version) for benchmark, version, _digest in stored ^ recorded})
