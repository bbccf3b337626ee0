"""Everything that is read of sources and records."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import Count, Exists, OuterRef, QuerySet

from generation import errors
from generation.models import Import, Reference, Source, SourceRecord
from generation.recipes.recipe import Record


def source(name: str) -> Source:
    """Raises UnknownSource."""
    found = Source.objects.filter(name=name).first()
    if found is None:
        raise errors.UnknownSource(name)
    return found


def sources() -> QuerySet[Source]:
    """All sources with `records_count`."""
    return Source.objects.annotate(records_count=Count("records")).order_by("name")


def imports() -> QuerySet[Import]:
    """All imports, newest first."""
    return Import.objects.select_related("source", "created_by").order_by("-pk")


def records(source: Source) -> QuerySet[SourceRecord]:
    """The records of a source without what is private."""
    return SourceRecord.objects.filter(source=source).defer("private").order_by("pk")


def count_partners(source: Source, external_ids: Collection[str]) -> dict[str, int]:
    """Format -> how many of these records of `source` refer to a record of that format that there is (0: they refer to some,
    and none is there), or are referred to by one: two queries."""
    records = SourceRecord.objects.filter(source=source, external_id__in=external_ids)
    there = Exists(SourceRecord.objects.filter(match=OuterRef("digest"), source__format=OuterRef("format")))
    references = Reference.objects.filter(record__in=records).order_by().values_list("format")
    found = dict(references.annotate(n=Count("record", distinct=True, filter=there)))
    to_us = Reference.objects.filter(format=source.format, digest__in=records.values("match")).order_by()
    for name, n in to_us.values_list("record__source__format").annotate(n=Count("digest", distinct=True)):
        found[name] = max(n, found.get(name, 0))
    return found


def partners(records: Sequence[SourceRecord]) -> dict[int, list[SourceRecord]]:
    """Primary key -> the records that a record refers to, then those that they refer to, each with its source and without
    what is private: at most four queries, however many records."""
    near = _referred_to([record.pk for record in records])
    far = _referred_to({one.pk for found in near.values() for one in found})
    result = {}
    for record in records:
        first = near.get(record.pk, [])
        chain = (*first, *(further for one in first for further in far.get(one.pk, [])))
        result[record.pk] = list({one.pk: one for one in chain if one.pk != record.pk}.values())
    return result


def _referred_to(pks: Collection[int]) -> dict[int, list[SourceRecord]]:
    references = Reference.objects.filter(record__in=pks)
    wanted = list(references.order_by("pk").values_list("record_id", "format", "digest")) if pks else []
    if not wanted:
        return {}
    there: dict[tuple[str, str], list[SourceRecord]] = {}
    found = SourceRecord.objects.filter(match__in=references.values("digest")).select_related("source")
    for record in found.defer("private").order_by("pk"):
        there.setdefault((record.source.format, record.match), []).append(record)
    result: dict[int, list[SourceRecord]] = {}
    for pk, format_name, digest in wanted:
        result.setdefault(pk, []).extend(there.get((format_name, digest), []))
    return result


def partner_contents(records: Sequence[SourceRecord]) -> dict[int, dict[str, tuple[Mapping[str, Any], ...]]]:
    """The contents of the `partners` of records, by format."""
    result = {}
    for pk, found in partners(records).items():
        by_format: dict[str, tuple[Mapping[str, Any], ...]] = {}
        for one in found:
            by_format[one.source.format] = (*by_format.get(one.source.format, ()), one.content)
        result[pk] = by_format
    return result


def records_referring_to(record: SourceRecord) -> QuerySet[SourceRecord]:
    """The records of other sources that refer to this one, without what is private."""
    to_it = Reference.objects.filter(format=record.source.format, digest=record.match) if record.match else None
    if to_it is None:
        return SourceRecord.objects.none()
    found = SourceRecord.objects.filter(pk__in=to_it.values("record")).select_related("source")
    return found.exclude(pk=record.pk).defer("private").order_by("pk")


def record_value(row: SourceRecord, joined: Mapping[str, tuple[Mapping[str, Any], ...]]) -> Record:
    """A stored record as a recipe sees it; its private part stays behind."""
    return Record(row.external_id, row.title, row.language, row.content, joined)
