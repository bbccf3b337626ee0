"""Reads batches and drafts."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext

from generation import errors
from generation.batches import review_results
from generation.common.model_names import canonical_model_name
from generation.jobs import queries as jobs_queries
from generation.jobs.kinds import Trial
from generation.jobs.queries import ModelAsked
from generation.models import (
    Batch,
    BatchRole,
    Call,
    Draft,
    Endpoint,
    Finding,
    Reference,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
    load_requests,
)
from generation.models.work import Work
from generation.prompts import queries as prompts_queries
from generation.recipes import registry, rehearsal
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import NewSample, Preset, Step
from generation.recipes.trap_plan import parents_of
from generation.samples.queries import prefetch_rubrics, terms
from generation.sources.other_values import SourceValues
from generation.sources.queries import partner_contents, record_value
from review.people.queries import physicians_specialties
from review.rules.blocks import Block
from review.rules.text import whole_number

Status = Work.Status
STREAMED = 200  # drafts in memory at a time


def bind_roles(
    benchmark: str, roles: Mapping[str, Endpoint], kinds: Collection[str], checks: Collection[str] | None = None
) -> dict[str, Endpoint]:
    """Bind an endpoint to every role that these kinds and checks need, in the recipe's order.

    A role without an endpoint of its own gets that of its default role, or of the default's
    default. Optional roles may remain without one. An endpoint for a role that is not needed is
    ignored, but may serve as another role's default. Raises RolesUnbound, UnknownRole.
    """
    defaults = {role.name: role.default for role in registry.recipe(benchmark).roles}
    bound: dict[str, Endpoint] = {}
    missing = []
    for role in registry.roles_for(benchmark, kinds, checks):
        endpoint = _endpoint_of(role.name, roles, defaults)
        if endpoint is not None:
            bound[role.name] = endpoint
        elif not role.optional:
            missing.append(role.name)
    if missing:
        raise errors.RolesUnbound(", ".join(missing))
    if unknown := [name for name in roles if name not in defaults]:
        raise errors.UnknownRole(f"{', '.join(unknown)}; known: {', '.join(defaults) or '-'}")
    return bound


def _endpoint_of(role: str, roles: Mapping[str, Endpoint], defaults: Mapping[str, str]) -> Endpoint | None:
    default = defaults.get(role)
    if role in roles or not default:
        return roles.get(role)
    return _endpoint_of(default, roles, defaults)


def shared_models(benchmark: str, players: Mapping[str, Sequence[Endpoint]]) -> list[tuple[str, str, str]]:
    """(role, role to be kept apart from, model) for each model that plays both.

    `players`: all endpoints of each role. Two versions of a model count as the same model.
    """
    shared = []
    for role in registry.recipe(benchmark).roles:
        for other_role in role.independent_of:
            others = {canonical_model_name(endpoint.model) for endpoint in players.get(other_role, ())}
            for endpoint in players.get(role.name, ()):
                if canonical_model_name(endpoint.model) in others:
                    shared.append((role.name, other_role, endpoint.model))
    return shared


def players(batch: Batch) -> dict[str, list[Endpoint]]:
    """Role -> the endpoints that play it."""
    by_role: dict[str, list[Endpoint]] = {}
    for row in BatchRole.objects.filter(batch=batch).select_related("endpoint").order_by("pk"):
        by_role.setdefault(row.role, []).append(row.endpoint)
    return by_role


def shared_roles(batch: Batch) -> list[tuple[str, str, str]]:
    """`shared_models` of a batch."""
    return shared_models(batch.benchmark, players(batch))


def endpoints_by_role(batch: Batch) -> dict[str, str]:
    """The name of each role's endpoint; all names with commas for a role that several play."""
    names = {}
    for role, endpoints in players(batch).items():
        names[role] = ", ".join(endpoint.name for endpoint in endpoints)
    return names


def is_simulated(batch: int) -> bool:
    """Whether a simulated model plays a role of a batch."""
    return BatchRole.objects.filter(batch=batch, endpoint__simulated=True).exists()


def unused_record_counts(source: Source, benchmark: str) -> dict[str, int]:
    """The number of records of each kind that the benchmark can still use: one query."""
    unused = records_without_draft(source, benchmark, registry.recipe(benchmark).kinds).order_by("content__kind")
    return dict(unused.values_list("content__kind").annotate(n=Count("pk")))


def has_discarded_records(source: Source, benchmark: str) -> bool:
    """Whether records are left to a launch that also draws those of which all was discarded."""
    return records_without_draft(source, benchmark, registry.recipe(benchmark).kinds, again=True).exists()


def unused_by_source(benchmark: str) -> dict[int, int]:
    """Source -> number of records that the benchmark can still use, if there are any."""
    unused = _without_draft(benchmark, registry.recipe(benchmark).kinds).order_by()
    return dict(unused.values_list("source").annotate(n=Count("pk")))


def suggested_source(benchmark: str = "") -> Source | None:
    """The newest source with records that the benchmark, or any, can still use; else the newest."""
    sources = Source.objects.filter(archived_at=None).order_by("-pk")
    names = [name for name in registry.names() if benchmark in ("", name)]
    for source in sources:
        for name in names:
            if records_without_draft(source, name, registry.recipe(name).kinds).exists():
                return source
    return sources.first()


def suggested_benchmark(source: Source | None) -> str:
    """The benchmark to suggest for a source.

    That is the first one that can still use records of it, else the one of its newest batch, else
    the first of all. Benchmarks that take samples as published come last.
    """
    names = sorted(registry.names(), key=lambda name: not registry.recipe(name).roles)
    if source:
        for name in names:
            if unused_record_counts(source, name):
                return name
        newest = Batch.objects.filter(source=source).order_by("-pk").first()
        if newest:
            return newest.benchmark
    return next(iter(names), "")


def latest_benchmark() -> str:
    """The benchmark of the newest batch, else the first of all."""
    newest = Batch.objects.order_by("-pk").values_list("benchmark", flat=True).first()
    return newest or next(iter(registry.names()), "")


def records_without_draft(
    source: Source, benchmark: str, kinds: Iterable[str], *, again: bool = False
) -> QuerySet[SourceRecord]:
    """Records of these kinds that no batch of this benchmark has used, oldest first.

    A record does not count as used if a batch that is over failed at it, or a cancelled batch never
    reached it; with `again` nor if nothing that was made of it is left: its drafts were given up or
    discarded, and its samples were discarded.
    """
    return _without_draft(benchmark, kinds, again=again).filter(source=source).order_by("pk")


def _without_draft(benchmark: str, kinds: Iterable[str], *, again: bool = False) -> QuerySet[SourceRecord]:
    used = _drafts_using_records(benchmark).filter(record=OuterRef("pk"))
    if again:
        used = used.filter(~_given_up())
    records = SourceRecord.objects.filter(archived_at=None, source__archived_at=None)
    return records.filter(~Exists(used), latest=True, content__kind__in=list(kinds))


def _drafts_using_records(benchmark: str) -> QuerySet[Draft]:
    """Drafts of this benchmark that use their record."""
    ended = [Batch.Status.CANCELLED, Batch.Status.FINISHED]
    unused = Q(batch__status__in=ended, status=Status.FAILED)
    unused |= Q(batch__status=Batch.Status.CANCELLED, status=Status.QUEUED)
    unused |= Q(status=Status.DROPPED, error=Draft.ERASED)
    unused |= Q(gate=Draft.Gate.RETURNED)  # the draft that follows it tells
    return Draft.objects.filter(batch__benchmark=benchmark).exclude(unused)


def _given_up() -> Q:
    """Drafts of which nothing is left; those that others were made of are left to these."""
    samples = Sample.objects.filter(Q(pk=OuterRef("sample")) | Q(pk=OuterRef("version_made__sample")))
    dropped = Q(status=Status.DROPPED) & ~Q(gate=Draft.Gate.STOPPED) & ~Q(error="Merged")
    return (
        dropped
        | Q(Exists(samples.filter(status=Sample.Status.DISCARDED)))
        | Q(Exists(Draft.objects.filter(parent=OuterRef("pk"))))
    )


def superseded_failures(batch: Batch) -> QuerySet[Draft]:
    """Failed drafts of a batch whose record a later batch has used since.

    The other batch of the same comparison is not a later one.
    """
    later = _drafts_using_records(batch.benchmark).filter(record=OuterRef("record"), batch__gt=batch.pk)
    if batch.comparison_id is not None:
        later = later.exclude(batch__comparison=batch.comparison_id)
    return Draft.objects.filter(Exists(later), batch=batch.pk, status=Status.FAILED)


def draft_value(row: Draft) -> DraftValue:
    """A stored draft as the recipe sees it."""
    return draft_values([row])[0]


def draft_values(rows: Sequence[Draft], *, joined: bool = True) -> list[DraftValue]:
    """Stored drafts of one batch as the recipe sees them, in their order.

    The number of queries does not grow with the number of first versions. `joined`: include the
    records that theirs refer to. A record's private part is left out.
    """
    if not rows:
        return []
    references = Exists(Reference.objects.filter(record=OuterRef("pk")))
    with_joined = SourceRecord.objects.defer("private").annotate(is_joined=references)
    rows_by_record = with_joined.in_bulk({row.record_id for row in rows})
    partners = {}
    if joined:
        partners = partner_contents([record for record in rows_by_record.values() if record.is_joined])
    records = {pk: record_value(record, partners.get(pk, {})) for pk, record in rows_by_record.items()}
    batch = Batch.objects.only("benchmark", "prompts", "checks", "settings").get(pk=rows[0].batch_id)
    taxonomy, known_specialties = terms(batch.benchmark), physicians_specialties()
    values = []
    for row in rows:
        rejected = _rejected_versions(row)
        previous: Mapping[str, Any] | None = None
        reasons: tuple[str, ...] = ()
        if rejected:
            previous, reasons = rejected.pop()
        values.append(
            DraftValue(
                record=records[row.record_id],
                terms=taxonomy,
                version=row.version,
                reasons=reasons,
                previous=previous,
                earlier=tuple(rejected),
                data=row.data,
                preferred=tuple(row.preferred),
                prompts=batch.prompts,
                checks=tuple(batch.checks),
                settings=batch.settings,
                specialties=known_specialties,
                other_values=SourceValues(rows_by_record[row.record_id]),
            )
        )
    return values


def _rejected_versions(row: Draft) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """The versions that were rejected before a draft, the oldest first, with the reasons."""
    rejected: list[tuple[Mapping[str, Any], tuple[str, ...]]] = []
    if row.sample_id:
        versions = SampleVersion.objects.filter(sample_id=row.sample_id, number__lt=row.version).order_by("number")
        for version in versions:
            rejected.append((prefetch_rubrics(version), tuple(version.reasons)))
    for returned in row.returned:
        rejected.append((returned["content"], tuple(returned["reasons"])))
    return rejected


ARCHIVED = "archived"  # in place of a status: the batches that lists leave out


def batches(*, text: str = "", benchmark: str = "", status: str = "") -> QuerySet[Batch]:
    """Batches, with counts of drafts and samples. `text`: a number, or in a source's name."""
    drafts, samples = Draft.objects.all(), Sample.objects.all()
    rows = Batch.objects.select_related("source", "created_by", "prompt_set").annotate(
        drafts_count=_count(drafts),
        ended_count=_count(drafts.filter(status__in=[Status.DONE, Status.DROPPED, Status.FAILED])),
        failed_count=_count(drafts.filter(status=Status.FAILED)),
        samples_count=_count(samples),
        approved_count=_count(samples.filter(status=Sample.Status.APPROVED)),
        simulated=Exists(BatchRole.objects.filter(batch=OuterRef("pk"), endpoint__simulated=True)),
    )
    rows = rows.filter(archived_at__isnull=status != ARCHIVED)
    if benchmark:
        rows = rows.filter(benchmark=benchmark)
    if status and status != ARCHIVED:
        rows = rows.filter(status=status)
    if text:
        return rows.filter(Q(source__name__icontains=text) | Q(pk=whole_number(text) or 0))
    return rows


def _count(rows: QuerySet[Any]) -> Coalesce:
    """The number of these rows of a batch, as an annotation of which a page counts its own only."""
    counted = rows.filter(batch=OuterRef("pk")).order_by().values("batch").annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted), 0)


def drafts(batch: Batch, *statuses: Work.Status) -> QuerySet[Draft]:
    """The drafts of a batch with the given statuses."""
    return Draft.objects.filter(batch=batch, status__in=statuses).select_related("record").defer("record__private")


def calls_of_draft(draft: Draft) -> list[Call]:
    """The calls of a draft and of the drafts it was made from."""
    subjects = []
    row: Draft | None = draft
    while row is not None:
        subjects.append(f"draft:{row.pk}")
        row = row.parent
    calls = list(Call.objects.filter(subject__in=subjects).select_related("endpoint").order_by("pk"))
    load_requests(calls)
    return calls


def findings(batch: Batch, *, check: str = "", state: str = "", text: str = "") -> QuerySet[Finding]:
    """The findings of checks in a batch's drafts, with the draft's record and a similar sample."""
    rows = Finding.objects.filter(draft__batch=batch).select_related("draft__record", "draft__sample", "other")
    rows = rows.defer("draft__data", "draft__record__content", "draft__record__private")
    if check:
        rows = rows.filter(check_name=check)
    if state:
        rows = rows.filter(draft__gate=state)
    if text:
        rows = rows.filter(draft__record__title__icontains=text)
    return rows


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """How many findings a check made in a batch, by what became of the drafts."""

    name: str
    label: str
    stopped: int
    returned: int
    sent_to_review: int
    discarded: int


def check_counts(batch: Batch) -> list[CheckCounts]:
    """The counts of each check that the batch runs: one query."""
    gates = Finding.objects.filter(draft__batch=batch).order_by().values_list("check_name", "draft__gate")
    counts = {}
    for name, gate, n in gates.annotate(n=Count("pk")):
        counts[name, gate] = n
    checks = []
    for name in batch.checks:
        checks.append(
            CheckCounts(
                name=name,
                label=gettext(registry.check_label(batch.benchmark, name)),
                stopped=counts.get((name, Draft.Gate.STOPPED), 0),
                returned=counts.get((name, Draft.Gate.RETURNED), 0),
                sent_to_review=counts.get((name, Draft.Gate.SENT_TO_REVIEW), 0),
                discarded=counts.get((name, Draft.Gate.DISCARDED), 0),
            )
        )
    return checks


def stopped_versions(sample: Sample) -> QuerySet[Draft]:
    """Versions of a sample that a check stopped."""
    return Draft.objects.filter(sample=sample, gate=Draft.Gate.STOPPED).order_by("pk")


@dataclass(frozen=True, slots=True)
class Presets:
    """A recipe's presets side by side: (label, setting, its values in the reader's words)."""

    presets: tuple[Preset, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]


def presets(benchmark: str) -> Presets:
    """The recipe's presets with all their values."""
    recipe_presets = registry.recipe(benchmark).presets
    names: dict[str, None] = {}
    for preset in recipe_presets:
        names |= dict.fromkeys(preset.values)
    rows = []
    for name in names:
        texts = [_in_words(preset.values.get(name)) for preset in recipe_presets]
        rows.append((registry.setting_label(benchmark, name), name, tuple(texts)))
    return Presets(recipe_presets, tuple(rows))


def setting_texts(batch: Batch) -> list[tuple[str, str, str]]:
    """The settings of a batch: (label, name, value in the reader's words)."""
    texts = []
    for name, value in batch.settings.items():
        texts.append((registry.setting_label(batch.benchmark, name), name, _in_words(value)))
    return texts


def _in_words(value: Any) -> str:
    if value is True:
        return gettext("yes")
    if value is False:
        return gettext("no")
    if value is None:
        return "–"
    return _as_text(value)


def preset_of(batch: Batch) -> Preset | None:
    """A batch's preset as the recipe has it today; None if it no longer has one of that name."""
    for preset in registry.recipe(batch.benchmark).presets:
        if preset.name == batch.preset:
            return preset
    return None


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def analysis(batch: Batch) -> tuple[Block, ...]:
    """The recipe's analysis of all drafts of a batch. Raises NoAnalysis."""
    analyse = registry.recipe(batch.benchmark).analysis
    if analyse is None:
        raise errors.NoAnalysis(batch.benchmark)
    return (*analyse(analysed_drafts(batch)), *review_results.blocks(batch))


def analysed_drafts(batch: Batch) -> Iterator[Mapping[str, Any]]:
    """The data of the drafts that an analysis of a batch counts, streamed.

    Each sample counts once, by its latest draft: not by versions that were replaced, and not if it
    was discarded, withdrawn or stopped by a check. Left out are drafts that were split (their
    children have the data) and drafts that were merged into another one, at the barrier or later.
    If the recipe never makes later versions, samples that physicians discarded count as well: they
    were made.
    """
    candidates = Draft.objects.filter(onward=None).exclude(data={}).exclude(error="Merged")
    candidates = candidates.exclude(gate__in=[Draft.Gate.STOPPED, Draft.Gate.DISCARDED, Draft.Gate.RETURNED])
    children = Draft.objects.filter(parent=OuterRef("pk"))
    later = candidates.filter(sample=OuterRef("version_made__sample"), version__gt=OuterRef("version"))
    ended = Sample.objects.filter(
        Q(pk=OuterRef("version_made__sample")) | Q(pk=OuterRef("sample")),
        status__in=[Sample.Status.DISCARDED, Sample.Status.WITHDRAWN],
    )
    rows = candidates.filter(~Exists(children), ~Exists(later), batch=batch).exclude(data={}).order_by("pk")
    if registry.recipe(batch.benchmark).max_versions > 1:
        rows = rows.filter(~Exists(ended))
    return rows.values_list("data", flat=True).iterator(chunk_size=STREAMED)


def sample_of_draft(draft: Draft) -> NewSample:
    """The sample that the recipe makes of a draft which went through all steps."""
    batch = draft.batch
    with prompts_queries.using(batch.benchmark, batch.prompt_set):
        return registry.recipe(batch.benchmark).sample(draft_value(draft))


@dataclass(frozen=True, slots=True)
class TrapTarget:
    """How many samples should carry a trap (or any trap of a cluster), and how many do.

    `cluster` is its heading.
    """

    code: str
    label: str
    cluster: str
    planned: int
    reached: int


def plan_progress(batch: Batch) -> list[tuple[str, list[TrapTarget]]]:
    """Task -> each cluster with its subtypes, planned and reached; [] for a batch without a plan.

    Counts the current version of each sample (in review or approved). One query besides the
    taxonomy's, streamed.
    """
    if not batch.plan:
        return []
    taxonomy = terms(batch.benchmark)
    clusters = [term for term in taxonomy if not term.parent]
    parents = parents_of(taxonomy)
    reached: dict[str, Counter[str]] = {}
    current = SampleVersion.objects.filter(
        sample__batch=batch, status__in=[SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]
    )
    for kind, traps in current.values_list("sample__record__content__kind", "traps").iterator():
        counts = reached.setdefault(kind, Counter())
        counts.update(set(traps) | {parents.get(code, "") for code in traps})
    by_task = []
    for task, targets in batch.plan["targets"].items():
        carried, trap_targets = reached.get(task, Counter()), []
        for cluster in clusters:
            labels = {cluster.code: gettext("whole cluster")}
            for term in taxonomy:
                if term.parent == cluster.code:
                    labels[term.code] = f"{term.code} {gettext(term.label)}"
            planned = targets | {cluster.code: batch.plan["clusters"][task].get(cluster.code, 0)}
            heading = f"{cluster.code} {gettext(cluster.label)}"
            for code, label in labels.items():
                trap_targets.append(TrapTarget(code, label, heading, planned.get(code, 0), carried[code]))
        by_task.append((task, trap_targets))
    return by_task


def models_asked(batch: Batch) -> list[ModelAsked]:
    """The models of a batch, with settings, reported versions and prompts."""
    roles = batch.roles.select_related("endpoint").order_by("pk")
    return jobs_queries.models_asked(batch, [(role.role, role.endpoint) for role in roles], batch.endpoint_settings)


def trials(batch: Batch) -> list[Trial]:
    """The first question that a batch asks of each role, as far as it follows from a record alone.

    What later steps ask depends on replies that nobody has given yet.
    """
    roles = list(BatchRole.objects.filter(batch=batch).select_related("endpoint").order_by("pk"))
    row = Draft.objects.filter(batch=batch, status=Work.Status.QUEUED, step=0, version=1).order_by("pk").first()
    if row is None:
        return []
    value, names = draft_value(row), {role.role: role.endpoint.model for role in roles}
    asked: dict[str, rehearsal.RehearsedQuestion] = {}
    with prompts_queries.using(batch.benchmark, batch.prompt_set):
        for step in registry.recipe(batch.benchmark).steps:
            if not isinstance(step, Step):
                continue
            with suppress(rehearsal.NoQuestion):
                question = rehearsal.first_question(step, value, names)
                asked.setdefault(question.role, question)
    questions = []
    for role in roles:
        if role.role in asked:
            question = asked[role.role]
            launch_settings = batch.endpoint_settings.get(str(role.endpoint_id), {})
            endpoint = role.endpoint.with_launch_settings(launch_settings)
            questions.append(Trial(endpoint, role.role, question.request, question.shape))
    return questions


def first_record(batch: Batch) -> int | None:
    """The record with which a batch begins."""
    return Draft.objects.filter(batch=batch).order_by("pk").values_list("record", flat=True).first()
