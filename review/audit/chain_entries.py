"""The format of the audit trail: how events are hashed and linked. See docs/audit.md.

Nothing here reads the database. No entry contains a name: a person appears as a pseudonym, and what
somebody typed appears as a digest.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

GENESIS = "0" * 64  # `previous` of the first event

PEOPLE = frozenset({"physician", "taken_from", "given_to"})  # keys of event data that hold an account's id
SEALED = frozenset({"reason", "text", "note"})  # keys of event data that hold text somebody typed
WITHHELD = PEOPLE | SEALED

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> bytes:
    """`value` as UTF-8 JSON: sorted keys, no spaces, no \\u escapes. Raises ValueError for NaN."""
    text = _ENCODER.encode(value)
    return text.encode("utf-8", "surrogatepass")  # JSON input may contain a lone surrogate; hash it too


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def instant(at: datetime) -> str:
    """Format an aware time in UTC, to the microsecond: ``2026-03-01T09:30:00.000000Z``."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def pseudonym(key: str, sample: str, account: int | None) -> str | None:
    """The pseudonym of an account within one sample: 32 hexadecimal digits; None stays None.

    A person has the same pseudonym in all events of a sample, so that two reviews by one person can
    be told from reviews by two. It differs between samples, so that nobody's work can be collected
    from a release.
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
    """The entry of a case event, as it is hashed and published.

    Args:
        key: the installation's key for pseudonyms, hexadecimal.
        sequence: position in the chain, from 1.
        previous: hash of the event before it.
        sample, version: lineage and version of the case.
        number: position among the events of this case, from 1.
        actor: id of the account.
        data: the event's data, serialisable as JSON.
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
    person: int | None,
    kind: str,
    actor: int | None,
    at: datetime,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """The entry of an account event, as it is hashed; it is never published.

    `person` and `actor` are ids of accounts; None is the site.
    """
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
    """An event's data, with pseudonyms in place of people and digests in place of typed text."""
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
    """Digest of a review. Its submission event stores it, so that later changes are detected.

    Args:
        physician: the physician's pseudonym.
        guideline: id of the guideline version in force.
    """
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
