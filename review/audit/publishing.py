"""The audit trail of samples as published with a release. docs/audit.md describes the format."""

import json
from collections.abc import Callable
from functools import lru_cache

from review.audit import chain_entries
from review.common.sql import Rows, among, as_text, as_utc_text, parse_json, repeatable_query
from review.models import Event

_text = json.encoder.encode_basestring
_pseudonym = lru_cache(maxsize=1024)(chain_entries.pseudonym)  # few people work on one sample


def trail_requester(*, key: str, upto: int) -> Callable[[list[str]], Callable[[], dict[str, list[str]]]]:
    """Prepare the query for the trails of samples, up to position `upto` in the chain.

    The function returned takes the lineages of some samples, sends the query, and returns a second
    function that reads the reply: lineage -> the sample's events in the order of the chain. Each
    event is one line, the canonical JSON of its entry together with its hash.

    Args:
        key: the installation's `pseudonym_key`.
    """
    columns = ("actor_id", as_utc_text("at"), as_text("data"), "hash", "kind", "number", "previous", "sequence")

    def rows_of(samples: list[str]) -> Rows:
        events = Event.objects.filter(among("case__lineage", samples), sequence__lte=upto).order_by("sequence", "id")
        return events.values_list("case__lineage", "case__version", *columns)

    request = repeatable_query(rows_of)

    def requested(samples: list[str]) -> Callable[[], dict[str, list[str]]]:
        rows = request(samples)

        def read() -> dict[str, list[str]]:
            lines: dict[str, list[str]] = {sample: [] for sample in samples}
            for sample, version, *values in rows():
                lines[sample].append(_line(key, sample, version, *values))
            return lines

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
    # Writing the keys out in sorted order saves sorting them for every event.
    person = "null" if actor is None else f'"{_pseudonym(key, sample, actor)}"'  # hexadecimal: no escaping
    published = _sample_independent_data(data) or _canonical(
        chain_entries.published_data(key, sample, parse_json(data))
    )
    return (
        f'{{"actor":{person},"at":{_text(at)},"data":{published},"hash":{_text(hash_)},"kind":{_text(kind)},"number":{number},'
        f'"previous":{_text(previous)},"sample":{_text(sample)},"sequence":{sequence},"version":{version}}}\n'
    )


@lru_cache(maxsize=512)
def _sample_independent_data(data: str) -> str:
    """An event's published data, or "" if it depends on the sample.

    Cached, because most events carry one of a few values.
    """
    value = parse_json(data)
    return "" if chain_entries.WITHHELD.intersection(value) else _canonical(value)


def _canonical(value: object) -> str:
    return chain_entries.canonical(value).decode("utf-8", "surrogatepass")
