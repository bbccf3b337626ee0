"""The trail of samples as it goes out with a release: docs/audit.md has the format."""

import json
from collections.abc import Callable
from functools import lru_cache

from review.audit import chain_entries
from review.common.sql import Rows, among, as_text, instant_of, json_of, repeated
from review.models import Event

_text = json.encoder.encode_basestring
_person = lru_cache(maxsize=1024)(chain_entries.pseudonym)  # of one sample, few people do all


def trails(*, key: str, upto: int) -> Callable[[list[str]], Callable[[], dict[str, list[str]]]]:
    """What requests the trails of samples (by lineage), and gives what gives them: of each its events in the order of the
    chain, up to number `upto`. Each is a line: the canonical form of the entry as it is hashed, with its hash.

    key: the `pseudonym_key`.
    """
    columns = ("actor_id", instant_of("at"), as_text("data"), "hash", "kind", "number", "previous", "sequence")

    def rows_of(samples: list[str]) -> Rows:
        events = Event.objects.filter(among("case__lineage", samples), sequence__lte=upto).order_by("sequence", "id")
        return events.values_list("case__lineage", "case__version", *columns)

    request = repeated(rows_of)

    def requested(samples: list[str]) -> Callable[[], dict[str, list[str]]]:
        rows = request(samples)

        def read() -> dict[str, list[str]]:
            found: dict[str, list[str]] = {sample: [] for sample in samples}
            for sample, version, *about in rows():
                found[sample].append(_line(key, sample, version, *about))
            return found

        return read

    return requested


def _line(
    key: str,
    sample: str,
    version: int,
    actor: int | None,
    at: str,
    data: str,
    hash_: str,
    kind: str,
    number: int,
    previous: str,
    sequence: int,
) -> str:
    """Written out with its names in their order, so that nothing has to be sorted."""
    person = "null" if actor is None else f'"{_person(key, sample, actor)}"'  # digits
    shown = _same_for_all(data) or _canonical(chain_entries.published_data(key, sample, json_of(data)))
    return (
        f'{{"actor":{person},"at":{_text(at)},"data":{shown},"hash":{_text(hash_)},"kind":{_text(kind)},"number":{number},'
        f'"previous":{_text(previous)},"sample":{_text(sample)},"sequence":{sequence},"version":{version}}}\n'
    )


@lru_cache(maxsize=512)
def _same_for_all(data: str) -> str:
    """An event's data as they are published, where that depends on no sample: most events say one of a few things."""
    value = json_of(data)
    return "" if chain_entries.KEPT_BACK.intersection(value) else _canonical(value)


def _canonical(value: object) -> str:
    return chain_entries.canonical(value).decode("utf-8", "surrogatepass")
