"""The form of the trail: what an event is written as, and the hash that ties it to the one before it. docs/audit.md.

Nothing here reads a database, and names stay out: a person is a pseudonym, and what somebody typed is a digest.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

GENESIS = "0" * 64  # what the first event names as the hash before it

PEOPLE = frozenset({"physician", "taken_from", "given_to"})  # keys of an event's data whose value is an account's id
SEALED = frozenset({"reason", "text", "note"})  # keys whose value somebody has typed
KEPT_BACK = PEOPLE | SEALED

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> bytes:
    """`value` as JSON: keys sorted, no spaces, characters as they are, in UTF-8. Raises ValueError for NaN."""
    text = _ENCODER.encode(value)
    return text.encode("utf-8", "surrogatepass")  # a lone surrogate, which JSON can bring in, has a hash too


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def instant(at: datetime) -> str:
    """An aware time in UTC to the microsecond: ``2026-03-01T09:30:00.000000Z``."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def pseudonym(key: str, sample: str, account: int | None) -> str | None:
    """An account within one sample: 32 hexadecimal digits; None stays None.

    The same person is the same in all events of a sample, so that two reviews by one person could be told from two by
    two; in another sample the person is somebody else, so that nobody's work can be gathered from a release.
    """
    if account is None:
        return None
    return hmac.new(bytes.fromhex(key), canonical([sample, account]), "sha256").hexdigest()[:32]


def entry(
    *,
    key: str,
    sequence: int,
    previous: str,
    sample: str,
    version: int,
    number: int,
    kind: str,
    actor: int | None,
    at: datetime,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """An event as it is hashed and published.

    Args:
        key: the installation's key for pseudonyms, hexadecimal.
        sequence: the place in the chain, from 1. `previous`: the hash of the event before it.
        sample, version: the case's lineage and version. `number`: the place among the events of this case, from 1.
        actor: the account's id.
        data: what the event says, JSON-able.
    """
    return {
        "sequence": sequence,
        "previous": previous,
        "sample": sample,
        "version": version,
        "number": number,
        "kind": str(kind),
        "actor": pseudonym(key, sample, actor),
        "at": instant(at),
        "data": published_data(key, sample, data),
    }


def person_entry(
    *,
    key: str,
    sequence: int,
    previous: str,
    person: int,
    kind: str,
    actor: int | None,
    at: datetime,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """What was done to an account, as it is hashed. It is never published. `person`, `actor`: ids of accounts."""
    return {
        "sequence": sequence,
        "previous": previous,
        "person": pseudonym(key, "", person),
        "kind": str(kind),
        "actor": pseudonym(key, "", actor),
        "at": instant(at),
        "data": dict(data),
    }


def published_data(key: str, sample: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What an event of a sample says, with pseudonyms and digests in the places of people and of what they typed."""
    return {name: _published(key, sample, name, value) for name, value in data.items()}


def _published(key: str, sample: str, name: str, value: Any) -> Any:
    if name in PEOPLE and isinstance(value, int):
        return pseudonym(key, sample, value)
    if name in SEALED and value:
        return {"sha256": digest(value)}
    return value


def review_digest(
    *,
    physician: str | None,
    role: str,
    phase: str,
    attempt: int,
    verdict: str,
    inadequate: bool,
    answers: Mapping[str, Any],
    submitted_at: datetime,
    signed_as: str,
    meaning: str,
    guideline: int | None,
) -> str:
    """What the event of a submission says of the review, so that an altered review is found. `physician`: the
    pseudonym. `guideline`: the id of the version that was followed."""
    return digest(
        {
            "physician": physician,
            "role": str(role),
            "phase": str(phase),
            "attempt": attempt,
            "verdict": str(verdict),
            "inadequate": inadequate,
            "answers": answers,
            "submitted_at": instant(submitted_at),
            "signed_as": signed_as,
            "meaning": meaning,
            "guideline": guideline,
        }
    )
