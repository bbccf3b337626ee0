"""The format of the audit trail: how events are hashed and linked. See docs/audit.md.

No entry contains a name: a person appears as a pseudonym, and what somebody typed appears as a
digest.
"""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

from review.models import Event, PersonEvent, Review

GENESIS = "0" * 64  # `previous` of the first event

PEOPLE = frozenset({"physician", "taken_from", "given_to"})  # keys of event data that hold an account's id
SEALED = frozenset({"reason", "text", "note"})  # keys of event data that hold text somebody typed
WITHHELD = PEOPLE | SEALED
# What reading a row raises if somebody wrote it in the place of this site.
NOT_OURS = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)

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


def entry(event: Event | PersonEvent, key: str, *, sequence: int | None = None) -> dict[str, Any]:
    """The entry of an event, as it is hashed; those of case events are published as well.

    Args:
        key: the installation's key for pseudonyms, hexadecimal.
        sequence: position in the chain, from 1; None: the event's own.
    """
    sample = ""
    if isinstance(event, Event):
        sample = event.case.lineage
    common = {
        "sequence": sequence or event.sequence,
        "previous": event.previous,
        "kind": str(event.kind),
        "actor": pseudonym(key, sample, event.actor_id),
        "at": instant(event.at),
    }
    if isinstance(event, PersonEvent):
        return {**common, "person": pseudonym(key, "", event.person_id), "data": event.data}
    data = {name: _published(key, sample, name, value) for name, value in event.data.items()}
    return {**common, "sample": sample, "version": event.case.version, "number": event.number, "data": data}


def _published(key: str, sample: str, name: str, value: Any) -> Any:
    """A value of an event's data: a pseudonym for a person, a digest for typed text."""
    if name in PEOPLE and isinstance(value, int):
        return pseudonym(key, sample, value)
    if name in SEALED and value:
        if isinstance(value, dict):  # erased: the digest is all that is left of the text
            return value
        return {"sha256": digest(value)}
    return value


def review_digest(review: Review, key: str) -> str:
    """The digest of a review, which its submission event stores, so that changes are detected.

    Reads `review.case` for the lineage.
    """
    return digest(
        {
            "physician": pseudonym(key, review.case.lineage, review.physician_id),
            "role": str(review.role),
            "phase": str(review.phase),
            "attempt": review.attempt,
            "verdict": str(review.verdict),
            "inadequate": review.inadequate,
            "answers": review.answers,
            "submitted_at": instant(review.submitted_at),
            "signed_as": review.signed_as,
            "meaning": review.meaning,
            "guideline": review.guideline_id,
        }
    )
