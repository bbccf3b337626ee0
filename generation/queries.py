"""Everything that is read of sources, batches, samples and releases."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Count, Exists, F, OuterRef, Prefetch, Q, QuerySet, Sum
from django.utils import timezone
from django.utils.translation import gettext

from generation import benchmarks, errors, live
from generation.jobs import OVER, Job
from generation.live import Live, Progress
from generation.models import (
    Batch,
    BatchRole,
    Call,
    Draft,
    Endpoint,
    EndpointDay,
    Finding,
    Import,
    Reference,
    Release,
    ReleasedSample,
    Rubric,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
    TaxonomyTerm,
    WorkerBeat,
)
from generation.recipe import Draft as DraftValue
from generation.recipe import NewRubric, NewSample, Preset, Record, Term
from generation.work import Work
from review.blocks import Block
from review.machine import Ground

Status = Work.Status
STREAMED = 200  # drafts in memory at once


def source(name: str) -> Source:
    """Raises UnknownSource."""
    found = Source.objects.filter(name=name).first()
    if found is None:
        raise errors.UnknownSource(name)
    return found


def endpoint(name: str) -> Endpoint:
    """Raises UnknownEndpoint."""
    found = Endpoint.objects.filter(name=name).first()
    if found is None:
        raise errors.UnknownEndpoint(name)
    return found


def endpoints() -> QuerySet[Endpoint]:
    """All endpoints by name."""
    return Endpoint.objects.order_by("name")


def bound(benchmark: str, roles: Mapping[str, Endpoint], kinds: Collection[str]) -> dict[str, Endpoint]:
    """An endpoint for every role that records of these kinds need, in the recipe's order.

    A role without one of its own has that of its default, or of the default's default; an optional one may then be without.
    An endpoint for a role that these kinds do not need is left aside, but may be another's default.
    Raises RolesUnbound, UnknownRole.
    """
    defaults = {role.name: role.default for role in benchmarks.recipe(benchmark).roles}
    found: dict[str, Endpoint] = {}
    missing = []
    for role in benchmarks.roles_for(benchmark, kinds):
        endpoint = _played_by(role.name, roles, defaults)
        if endpoint is not None:
            found[role.name] = endpoint
        elif not role.optional:
            missing.append(role.name)
    if missing:
        raise errors.RolesUnbound(", ".join(missing))
    if unknown := [name for name in roles if name not in defaults]:
        raise errors.UnknownRole(f"{', '.join(unknown)}; known: {', '.join(defaults) or '-'}")
    return found


def _played_by(role: str, roles: Mapping[str, Endpoint], defaults: Mapping[str, str]) -> Endpoint | None:
    """The endpoint of a role, or of the first one along its defaults that has one."""
    seen: set[str] = set()
    while role and role not in seen:
        if role in roles:
            return roles[role]
        seen.add(role)
        role = defaults.get(role, "")
    return None


def kinds_left(source: Source, benchmark: str) -> dict[str, int]:
    """How many records of each kind that the benchmark takes it has not used: one query."""
    left = records_without_draft(source, benchmark, benchmarks.recipe(benchmark).kinds).order_by("content__kind")
    return dict(left.values_list("content__kind").annotate(n=Count("pk")))


def fitting_benchmark(source: Source | None) -> str:
    """The benchmark that somebody who names none means: the first with records of the source left, else the first there is."""
    names = benchmarks.names()
    return next((name for name in names if source and kinds_left(source, name)), next(iter(names), ""))


def latest_benchmark() -> str:
    """The benchmark of the newest batch, else the first there is."""
    newest = Batch.objects.order_by("-pk").values_list("benchmark", flat=True).first()
    return newest or next(iter(benchmarks.names()), "")


def behind_the_pause(job: Job, endpoints: QuerySet[Endpoint]) -> list[Endpoint]:
    """Those of its `endpoints` because of which a job has paused by itself; one query, and none for a job that has not."""
    if job.paused_because == "EndpointDown":
        return list(endpoints.filter(state__down_since__isnull=False).distinct())
    if job.paused_because in ("KeyMissing", "NotAllowed"):
        named = [(one, one.key_env, urlsplit(one.url).hostname) for one in endpoints.distinct()]
        told = job.paused_detail
        return [one for one, key, host in named if (key and key in told) or (host and f"Host: {host}" in told)]
    return []


def batch(pk: int) -> Batch:
    """Raises UnknownBatch."""
    found = Batch.objects.select_related("source", "created_by").filter(pk=pk).first()
    if found is None:
        raise errors.UnknownBatch(str(pk))
    return found


def endpoints_of(batch: Batch) -> QuerySet[Endpoint]:
    """The endpoints that play a role in a batch."""
    return Endpoint.objects.filter(pk__in=batch.roles.values("endpoint"))


def has_answered(endpoint: Endpoint) -> bool:
    """Whether a call of this endpoint ever succeeded: only then does a result name its address and model."""
    return Call.objects.filter(endpoint=endpoint, error="").exists()


def sources() -> QuerySet[Source]:
    """All sources with `records_count`."""
    return Source.objects.annotate(records_count=Count("records")).order_by("name")


def imports() -> QuerySet[Import]:
    """All imports, newest first."""
    return Import.objects.select_related("source", "created_by").order_by("-pk")


def records(source: Source) -> QuerySet[SourceRecord]:
    """The records of a source without what is private."""
    return SourceRecord.objects.filter(source=source).defer("private").order_by("pk")


def partners_found(source: Source, external_ids: Collection[str]) -> dict[str, int]:
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


def joined(records: Sequence[SourceRecord]) -> dict[int, dict[str, tuple[Mapping[str, Any], ...]]]:
    """The contents of the `partners` of records, by format."""
    result = {}
    for pk, found in partners(records).items():
        by_format: dict[str, tuple[Mapping[str, Any], ...]] = {}
        for one in found:
            by_format[one.source.format] = (*by_format.get(one.source.format, ()), one.content)
        result[pk] = by_format
    return result


def referring(record: SourceRecord) -> QuerySet[SourceRecord]:
    """The records of other sources that refer to this one, without what is private."""
    to_it = Reference.objects.filter(format=record.source.format, digest=record.match) if record.match else None
    if to_it is None:
        return SourceRecord.objects.none()
    found = SourceRecord.objects.filter(pk__in=to_it.values("record")).select_related("source")
    return found.exclude(pk=record.pk).defer("private").order_by("pk")


def record_value(row: SourceRecord, joined: Mapping[str, tuple[Mapping[str, Any], ...]]) -> Record:
    """A stored record as a recipe sees it; its private part stays behind."""
    return Record(row.external_id, row.title, row.language, row.content, joined)


def records_without_draft(source: Source, benchmark: str, kinds: Iterable[str]) -> QuerySet[SourceRecord]:
    """Records of the kinds given that no batch of this benchmark has used, oldest first.

    What a cancelled batch did not come to, or failed at and cannot try again, is not used.
    """
    never = Q(batch__status=Batch.Status.CANCELLED, status__in=[Status.QUEUED, Status.FAILED])
    used = Draft.objects.filter(record=OuterRef("pk"), batch__benchmark=benchmark).exclude(never)
    return SourceRecord.objects.filter(~Exists(used), source=source, content__kind__in=list(kinds)).order_by("pk")


def terms(benchmark: str) -> tuple[Term, ...]:
    """The taxonomy in force: what the benchmark ships and what admins added."""
    added = TaxonomyTerm.objects.filter(benchmark=benchmark).order_by("code")
    return (
        *benchmarks.built_in_terms(benchmark),
        *(Term(term.code, term.label, term.parent, term.definition) for term in added),
    )


def draft_value(row: Draft) -> DraftValue:
    """A stored draft as the recipe sees it; a record's private part stays behind."""
    refers = Exists(Reference.objects.filter(record=OuterRef("pk")))
    record = SourceRecord.objects.defer("private").annotate(is_joined=refers).get(pk=row.record_id)
    batch = Batch.objects.only("benchmark", "prompts", "checks", "settings").get(pk=row.batch_id)
    previous = None
    if row.sample_id:
        previous = SampleVersion.objects.filter(sample_id=row.sample_id, number=row.version - 1).first()
    return DraftValue(
        record=record_value(record, joined([record])[record.pk] if record.is_joined else {}),
        terms=terms(batch.benchmark),
        version=row.version,
        reasons=tuple(previous.reasons) if previous else (),
        previous=_with_rubrics(previous) if previous else None,
        data=row.data,
        preferred=tuple(row.preferred),
        prompts=batch.prompts,
        checks=tuple(batch.checks),
        settings=batch.settings,
    )


def _with_rubrics(version: SampleVersion) -> dict[str, Any]:
    """A version's content with its rubrics: physicians' reasons name them by key."""
    rubrics = version.rubrics.order_by("pk").values("key", "criterion", "traps")
    return {**version.content, "rubrics": list(rubrics)}


def watched_batches() -> QuerySet[Batch]:
    """Batches with all that `batch_progress` and `batch_live` need: one statement, however many drafts a batch has."""
    drafts = Draft.objects.filter(batch=OuterRef("pk"))
    asked = BatchRole.objects.filter(batch=OuterRef("pk"))
    found = live.watched(Batch.objects.all(), {"drafts": drafts}, {"roles": live.endpoints_listed(asked)})
    return found.select_related("source", "created_by")


def batch_progress(batch: Batch) -> Progress:
    """The progress of a batch over its drafts, as it is now unless it is a watched one."""
    return live.progress(_watched(batch), "drafts")


def batch_live(batch: Batch) -> Live:
    """What goes on in a batch, as it is now unless it is a watched one."""
    found = _watched(batch)
    progress = live.progress(found, "drafts")
    return live.live(found, ["roles"], ended=progress.ended, total=progress.total)


def _watched(batch: Batch) -> Batch:
    return batch if hasattr(batch, "lanes_listed") else watched_batches().get(pk=batch.pk)


def failed_calls(job: str, error: str = "") -> QuerySet[Call]:
    """The calls of a job that ended in an error (of one class), newest first, without what was sent."""
    found = Call.objects.filter(~Q(error=""), job=job).select_related("endpoint").defer("sent").order_by("-pk")
    return found.filter(error=error) if error else found


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls of an endpoint came to, on one day or (None) in all."""

    day: date | None
    calls: int
    hits: int
    failed: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    cost: Decimal


USAGE = tuple(name for name in Usage.__slots__ if name != "day")


def usage(endpoint: Endpoint, *, days: int) -> tuple[Usage, list[Usage]]:
    """All that was asked of an endpoint, and each of the last `days` days (UTC) in order, empty ones too: two queries."""
    kept = EndpointDay.objects.filter(endpoint=endpoint)
    whole = kept.aggregate(**{f"sum_{name}": Sum(name) for name in USAGE})
    today = timezone.now().astimezone(UTC).date()
    first = today - timedelta(days=days - 1)
    there = {row["day"]: row for row in kept.filter(day__gte=first).values("day", *USAGE)}
    nothing: dict[str, Any] = {**dict.fromkeys(USAGE, 0), "cost": Decimal(0)}
    dates = [first + timedelta(days=place) for place in range(days)]
    total = {name: whole[f"sum_{name}"] or nothing[name] for name in USAGE}
    return Usage(None, **total), [Usage(**{**nothing, "day": day, **there.get(day, {})}) for day in dates]


def batches() -> QuerySet[Batch]:
    """All batches, newest first, with counts of drafts."""
    return Batch.objects.select_related("source", "created_by").annotate(
        drafts_count=Count("drafts"),
        ended_count=Count("drafts", filter=Q(drafts__status__in=[Status.DONE, Status.DROPPED, Status.FAILED])),
        failed_count=Count("drafts", filter=Q(drafts__status=Status.FAILED)),
    )


def batches_to_settle() -> list[int]:
    """Running batches in which no draft is open any more."""
    is_open = Draft.objects.filter(batch=OuterRef("pk"), status__in=[Status.QUEUED, Status.RUNNING])
    return list(Batch.objects.filter(~Exists(is_open)).exclude(status__in=OVER).values_list("pk", flat=True))


def calls_of(subject: str) -> QuerySet[Call]:
    """The ledger of one row of work, in order."""
    return Call.objects.filter(subject=subject).select_related("endpoint").order_by("pk")


# The approved version of a sample that no physician was asked about.
_UNREVIEWED = SampleVersion.objects.filter(
    sample=OuterRef("pk"), status=SampleVersion.Status.APPROVED, case__ground=Ground.UNREVIEWED
)


def samples(
    *, benchmark: str = "", status: str = "", task: str = "", text: str = "", batch: Batch | None = None
) -> QuerySet[Sample]:
    """Samples, newest first, with the number of their versions and whether they were approved `unreviewed`.

    `text` is looked for in the record's title, its id and the number at the end of the sample's key.
    """
    found = Sample.objects.select_related("record").defer("record__private", "record__content").order_by("-pk")
    found = found.annotate(versions_count=Count("versions"), unreviewed=Exists(_UNREVIEWED))
    if benchmark:
        found = found.filter(benchmark=benchmark)
    if status:
        found = found.filter(status=status)
    if task:
        found = found.filter(task=task)
    if text:
        number = text.rpartition("-")[2]
        numbered = Q(pk=int(number)) if number.isdecimal() and len(number) < 19 else Q()
        found = found.filter(Q(record__title__icontains=text) | Q(record__external_id__icontains=text) | numbered)
    if batch:
        found = found.filter(batch=batch)
    return found


def sample_tasks() -> list[str]:
    """The tasks that samples are of."""
    return list(Sample.objects.order_by("task").values_list("task", flat=True).distinct())


def versions(sample: Sample) -> list[SampleVersion]:
    """All versions of a sample in order, each with its case, draft and rubrics: two queries."""
    rubrics = Prefetch("rubrics", Rubric.objects.order_by("pk"))
    found = SampleVersion.objects.filter(sample=sample).select_related("case", "draft").prefetch_related(rubrics)
    return list(found.order_by("number"))


def drafts(batch: Batch, *statuses: Work.Status) -> QuerySet[Draft]:
    """The drafts of a batch in the given states."""
    return Draft.objects.filter(batch=batch, status__in=statuses).select_related("record").defer("record__private")


def calls_by_subject(subjects: Iterable[str]) -> dict[str, list[Call]]:
    """What models said to each of `subjects`, in order, without what was sent: one query."""
    found: dict[str, list[Call]] = {subject: [] for subject in subjects}
    calls = Call.objects.filter(subject__in=found).select_related("endpoint").defer("sent", "reasoning")
    for call in calls.order_by("pk"):
        found[call.subject].append(call)
    return found


def calls_of_draft(draft: Draft) -> list[Call]:
    """The ledger of a draft, with that of the drafts it was made from."""
    subjects = []
    row: Draft | None = draft
    while row is not None:
        subjects.append(f"draft:{row.pk}")
        row = row.parent
    return list(Call.objects.filter(subject__in=subjects).select_related("endpoint").order_by("pk"))


@dataclass(frozen=True, slots=True)
class Planted:
    """How many samples and rubrics a taxonomy term has; `cluster` is the label of its parent."""

    label: str
    cluster: str
    samples: int
    rubrics: int


def planted(benchmark: str, counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[Planted]:
    """The taxonomy's terms that have a parent, with their `counts` (facet -> value -> {"samples", "rubrics"}).

    Of a taxonomy of one level, all of them. Terms without any sample are there, with 0: what is missing is what a maker looks
    for.
    """
    by_code = {code: cell for values in counts.values() for code, cell in values.items()}
    in_force = terms(benchmark)
    labels = {term.code: gettext(term.label) for term in in_force}
    nothing = {"samples": 0, "rubrics": 0}
    return [
        Planted(
            label=f"{term.code} {labels[term.code]}",
            cluster=f"{term.parent} {labels.get(term.parent, '')}".strip(),
            **by_code.get(term.code, nothing),
        )
        for term in [term for term in in_force if term.parent] or in_force
    ]


def composition(batch: Batch) -> dict[str, dict[str, dict[str, int]]]:
    """What a batch has come to so far, counted as a release counts: facet -> value -> {"samples", "rubrics"}.

    Of each sample its living version counts (in review or approved). One query besides the taxonomy's, streamed.
    """
    alive = [SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]
    rubrics = Rubric.objects.filter(version__sample__batch=batch, version__status__in=alive).order_by("version_id")
    in_force = terms(batch.benchmark)
    counts: dict[str, dict[str, dict[str, int]]] = {}
    seen: set[tuple[int, str, str]] = set()
    columns = ("version_id", "version__sample__task", "traps", "version__content")
    for version, task, traps, content in rubrics.values_list(*columns).iterator():
        facets = benchmarks.facets(batch.benchmark, task, traps, in_force, content)
        for facet, values in {"task": [task], **facets}.items():
            for value in values:
                cell = counts.setdefault(facet, {}).setdefault(value, {"samples": 0, "rubrics": 0})
                cell["rubrics"] += 1
                cell["samples"] += (version, facet, value) not in seen
                seen.add((version, facet, value))
    return counts


def findings(batch: Batch, *, check: str = "", state: str = "") -> QuerySet[Finding]:
    """What checks found in the drafts of a batch, each with its draft's record and the sample that it is like."""
    found = Finding.objects.filter(draft__batch=batch).select_related("draft__record", "draft__sample", "other")
    found = found.defer("draft__data", "draft__record__content", "draft__record__private")
    if check:
        found = found.filter(check_name=check)
    if state:
        found = found.filter(draft__gate=state)
    return found


@dataclass(frozen=True, slots=True)
class Checked:
    """How many drafts of a batch a check had something to say about, by what became of them."""

    name: str
    label: str
    stopped: int
    let_through: int
    discarded: int


def checked(batch: Batch) -> list[Checked]:
    """Each check that the batch makes, with its counts: one query."""
    gates = Finding.objects.filter(draft__batch=batch).order_by().values_list("check_name", "draft__gate")
    counts = {(name, state): n for name, state, n in gates.annotate(n=Count("pk"))}
    return [
        Checked(
            name,
            gettext(benchmarks.check_label(batch.benchmark, name)),
            *(counts.get((name, state), 0) for state in (gate.STOPPED, gate.LET_THROUGH, gate.DISCARDED)),
        )
        for gate in [Draft.Gate]
        for name in batch.checks
    ]


def held_of(sample: Sample) -> QuerySet[Draft]:
    """Versions of a sample that a check stopped."""
    return Draft.objects.filter(sample=sample, gate=Draft.Gate.STOPPED).order_by("pk")


@dataclass(frozen=True, slots=True)
class Presets:
    """The presets of a recipe beside one another: for each setting its value in each, as text; "" where one has none."""

    presets: tuple[Preset, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def presets(benchmark: str) -> Presets:
    """The recipe's presets with all their values."""
    found = benchmarks.recipe(benchmark).presets
    names = dict.fromkeys(name for preset in found for name in preset.values)
    rows = ((name, tuple(_as_text(preset.values.get(name, "")) for preset in found)) for name in names)
    return Presets(found, tuple(rows))


def setting_texts(batch: Batch) -> list[tuple[str, str]]:
    """The settings that a batch was launched with, as text."""
    return [(name, _as_text(value)) for name, value in batch.settings.items()]


def preset_of(batch: Batch) -> Preset | None:
    """The preset that a batch was launched with, as the recipe has it today; None where it has none of that name."""
    return next((p for p in benchmarks.recipe(batch.benchmark).presets if p.name == batch.preset), None)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def lineage(benchmark: str, draft: Draft) -> tuple[Block, ...]:
    """What a draft's data shows of how it was made, where the recipe has something to say of it."""
    shows = benchmarks.recipe(benchmark).lineage
    return tuple(shows(draft.data)) if shows is not None and draft.data else ()


def analysis(batch: Batch) -> tuple[Block, ...]:
    """What the data of a batch's drafts show together; they are streamed. Raises NoAnalysis.

    Each sample counts once, by its latest draft: not what a later version has taken the place of, nor what was discarded,
    withdrawn or held back by a check. A draft that became several is left out: they have its data.
    """
    shows = benchmarks.recipe(batch.benchmark).analysis
    if shows is None:
        raise errors.NoAnalysis(batch.benchmark)
    begun = Draft.objects.exclude(data={}).exclude(gate__in=[Draft.Gate.STOPPED, Draft.Gate.DISCARDED])
    split = Draft.objects.filter(parent=OuterRef("pk"))
    later = begun.filter(sample=OuterRef("version_made__sample"), version__gt=OuterRef("version"))
    over = Sample.objects.filter(
        Q(pk=OuterRef("version_made__sample")) | Q(pk=OuterRef("sample")),
        status__in=[Sample.Status.DISCARDED, Sample.Status.WITHDRAWN],
    )
    rows = begun.filter(~Exists(split), ~Exists(later), ~Exists(over), batch=batch).order_by("pk")
    drafts: Iterator[Mapping[str, Any]] = rows.values_list("data", flat=True).iterator(chunk_size=STREAMED)
    return tuple(shows(drafts))


def made_by(draft: Draft) -> NewSample:
    """What the recipe made of a draft that has been through all its steps."""
    return benchmarks.recipe(draft.batch.benchmark).sample(draft_value(draft))


@dataclass(frozen=True, slots=True)
class Aim:
    """How many samples were to carry a trap (or some trap of a cluster), and how many do. `cluster` is its heading."""

    code: str
    label: str
    cluster: str
    planned: int
    reached: int


def plan_against_reached(batch: Batch) -> list[tuple[str, list[Aim]]]:
    """Task -> each cluster with its subtypes, planned and reached; [] for a batch without a plan.

    Of each sample its living version counts (in review or approved). One query besides the taxonomy's, streamed.
    """
    if not batch.plan:
        return []
    in_force = terms(batch.benchmark)
    parents = {term.code: term.parent for term in in_force}
    reached: dict[str, Counter[str]] = {}
    for kind, traps in _living(batch).values_list("sample__record__content__kind", "traps").iterator():
        counts = reached.setdefault(kind, Counter())
        counts.update(set(traps) | {parents.get(code, "") for code in traps})
    found = []
    for task, targets in batch.plan["targets"].items():
        aims = []
        for cluster in (term for term in in_force if not term.parent):
            heading = f"{cluster.code} {gettext(cluster.label)}"
            of_cluster = batch.plan["clusters"][task].get(cluster.code, 0)
            there = reached.get(task, Counter())
            aims.append(Aim(cluster.code, gettext("all of it"), heading, of_cluster, there[cluster.code]))
            aims += [
                Aim(t.code, f"{t.code} {gettext(t.label)}", heading, targets.get(t.code, 0), there[t.code])
                for t in in_force
                if t.parent == cluster.code
            ]
        found.append((task, aims))
    return found


def _living(batch: Batch) -> QuerySet[SampleVersion]:
    alive = [SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]
    return SampleVersion.objects.filter(sample__batch=batch, status__in=alive)


def releases() -> QuerySet[Release]:
    """All releases, newest first."""
    return Release.objects.select_related("created_by").order_by("-pk")


def approved_counts() -> dict[str, tuple[int, int]]:
    """Benchmark -> how many samples stand as approved now, and how many of them no physician has reviewed."""
    approved = SampleVersion.objects.filter(status=SampleVersion.Status.APPROVED).order_by("sample__benchmark")
    aside = Count("pk", filter=Q(case__ground=Ground.UNREVIEWED))
    rows = approved.values_list("sample__benchmark").annotate(n=Count("pk"), aside=aside)
    return {benchmark: (n, unreviewed) for benchmark, n, unreviewed in rows}


def released_samples(release: Release) -> QuerySet[ReleasedSample]:
    """The samples of a release in its order, with the title of each."""
    return ReleasedSample.objects.filter(release=release).annotate(title=F("version__title")).order_by("pk")


def new_sample(version: SampleVersion) -> NewSample:
    """A stored version as the recipe made it, with the rubrics that stand, in the wording physicians settled on if they did."""
    return NewSample(
        task=version.sample.task,
        title=version.title,
        language=version.case.language,
        specialty=version.case.specialty,
        content=version.content,
        rubrics=tuple(
            NewRubric(rubric.key, rubric.approved or rubric.criterion, tuple(rubric.traps))
            for rubric in sorted(version.rubrics.all(), key=lambda rubric: rubric.pk)
            if not rubric.removed
        ),
    )


def release(name: str, version: int | None = None) -> Release:
    """A release by name, the latest version unless one is given (also as ``name@3``). Raises UnknownRelease."""
    name, _, number = name.partition("@")
    if number and not number.isdecimal():
        raise errors.UnknownRelease(f"{name}@{number}")
    version = int(number) if number else version
    found = Release.objects.filter(name=name).order_by("-version")
    chosen = found.first() if version is None else found.filter(version=version).first()
    if chosen is None:
        raise errors.UnknownRelease(name if version is None else f"{name} v{version}")
    return chosen


def worker_lives() -> bool:
    """Whether some worker has given a sign of life lately."""
    return WorkerBeat.objects.filter(seen_at__gte=timezone.now() - live.ALIVE).exists()
