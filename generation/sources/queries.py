"""Queries on sources and records."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from generation import errors
from generation.models import Import, Reference, Source, SourceRecord
from generation.recipes.recipe import Record


def source(name: str) -> Source:
    """The source called `name`. Raises UnknownSource."""
    match = Source.objects.filter(name=name).first()
    if match is None:
        raise errors.UnknownSource(name)
    return match


def sources(*, archived: bool = False) -> QuerySet[Source]:
    """Sources with `records_count`: those that are not archived, or those that are."""
    rows = Source.objects.filter(archived_at__isnull=not archived)
    return rows.annotate(records_count=Count("records", filter=Q(records__latest=True))).order_by("name")


def imports() -> QuerySet[Import]:
    """All imports, newest first."""
    return Import.objects.select_related("source", "created_by").order_by("-pk")


def records(source: Source, *, archived: bool = False) -> QuerySet[SourceRecord]:
    """The latest revision of each record of a source that is not archived, or of each that is.

    Without their private part.
    """
    rows = SourceRecord.objects.filter(source=source, latest=True, archived_at__isnull=not archived)
    return rows.defer("private").order_by("pk")


def count_partners(source: Source, external_ids: Collection[str]) -> dict[str, int]:
    """Format -> how many of these records are linked with an existing record of that format.

    Either may refer to the other. The count is 0 if these records refer to records of the format,
    none of which exists. Two queries.
    """
    records = SourceRecord.objects.filter(source=source, external_id__in=external_ids, latest=True)
    partner_exists = Exists(
        SourceRecord.objects.filter(latest=True, match=OuterRef("digest"), source__format=OuterRef("format"))
    )
    references = Reference.objects.filter(record__in=records).order_by().values_list("format")
    counts = dict(references.annotate(n=Count("record", distinct=True, filter=partner_exists)))
    incoming = Reference.objects.filter(format=source.format, digest__in=records.values("match")).order_by()
    for name, n in incoming.values_list("record__source__format").annotate(n=Count("digest", distinct=True)):
        counts[name] = max(n, counts.get(name, 0))
    return counts


def partners(records: Sequence[SourceRecord]) -> dict[int, list[SourceRecord]]:
    """Primary key -> the records that a record refers to, then those that these refer to.

    Each has its source, but not its private part. At most four queries, however many records.
    """
    direct = _referred_to([record.pk for record in records])
    pks: set[int] = set()
    for found in direct.values():
        pks.update(partner.pk for partner in found)
    indirect = _referred_to(pks)
    result = {}
    for record in records:
        referred = direct.get(record.pk, [])
        chain = list(referred)
        for partner in referred:
            chain += indirect.get(partner.pk, [])
        distinct = {partner.pk: partner for partner in chain}
        distinct.pop(record.pk, None)
        result[record.pk] = list(distinct.values())
    return result


def _referred_to(pks: Collection[int]) -> dict[int, list[SourceRecord]]:
    references = Reference.objects.filter(record__in=pks)
    targets = []
    if pks:
        targets = list(references.order_by("pk").values_list("record_id", "format", "digest"))
    if not targets:
        return {}
    by_match: dict[tuple[str, str], list[SourceRecord]] = {}
    matches = SourceRecord.objects.filter(match__in=references.values("digest"), latest=True).select_related("source")
    for record in matches.defer("private").order_by("pk"):
        by_match.setdefault((record.source.format, record.match), []).append(record)
    result: dict[int, list[SourceRecord]] = {}
    for pk, format_name, digest in targets:
        result.setdefault(pk, []).extend(by_match.get((format_name, digest), []))
    return result


def partner_contents(records: Sequence[SourceRecord]) -> dict[int, dict[str, tuple[Mapping[str, Any], ...]]]:
    """The contents of the `partners` of records, by format."""
    result = {}
    for pk, linked in partners(records).items():
        by_format: dict[str, tuple[Mapping[str, Any], ...]] = {}
        for partner in linked:
            by_format[partner.source.format] = (*by_format.get(partner.source.format, ()), partner.content)
        result[pk] = by_format
    return result


def records_referring_to(record: SourceRecord) -> QuerySet[SourceRecord]:
    """The records of other sources that refer to this one, without their private part."""
    references = None
    if record.match:
        references = Reference.objects.filter(format=record.source.format, digest=record.match)
    if references is None:
        return SourceRecord.objects.none()
    referring = SourceRecord.objects.filter(pk__in=references.values("record"), latest=True).select_related("source")
    return referring.exclude(pk=record.pk).defer("private").order_by("pk")


def record_value(row: SourceRecord, joined: Mapping[str, tuple[Mapping[str, Any], ...]]) -> Record:
    """A stored record as recipes see it, without its private part."""
    return Record(row.external_id, row.title, row.language, row.content, joined)
