"""Everything that is read of batches and drafts."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext

from generation import errors
from generation.batches import reviewed
from generation.common.model_names import same_model
from generation.jobs import queries as jobs_queries
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
)
from generation.models.work import Work
from generation.recipes import registry
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import NewSample, Preset
from generation.samples.queries import prefetch_rubrics, terms
from generation.sources.other_values import SourceValues
from generation.sources.queries import partner_contents, record_value
from review.rules.blocks import Block

Status = Work.Status
STREAMED = 200  # drafts in memory at once


def bind_roles(benchmark: str, roles: Mapping[str, Endpoint], kinds: Collection[str]) -> dict[str, Endpoint]:
    """An endpoint for every role that records of these kinds need, in the recipe's order.

    A role without one of its own has that of its default, or of the default's default; an optional one may then be without.
    An endpoint for a role that these kinds do not need is left aside, but may be another's default.
    Raises RolesUnbound, UnknownRole.
    """
    defaults = {role.name: role.default for role in registry.recipe(benchmark).roles}
    found: dict[str, Endpoint] = {}
    missing = []
    for role in registry.roles_for(benchmark, kinds):
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


def shared_models(benchmark: str, roles: Mapping[str, Endpoint]) -> list[tuple[str, str, str]]:
    """(role, the role that it is to be apart from, their model) where one model plays both, be it in two versions."""
    found = []
    for role in registry.recipe(benchmark).roles:
        one, other = roles.get(role.name), roles.get(role.apart)
        if one and other and same_model(one.model) == same_model(other.model):
            found.append((role.name, role.apart, one.model))
    return found


def bound_roles(batch: Batch) -> dict[str, Endpoint]:
    """The endpoint of each role of a batch, in the recipe's order."""
    rows = BatchRole.objects.filter(batch=batch).select_related("endpoint").order_by("pk")
    return {row.role: row.endpoint for row in rows}


def endpoints_by_role(batch: Batch) -> dict[str, str]:
    """The names of each role's endpoint; of a role that several play, all of them."""
    found: dict[str, list[str]] = {}
    for role, name in batch.roles.order_by("pk").values_list("role", "endpoint__name"):
        found.setdefault(role, []).append(name)
    return {role: ", ".join(names) for role, names in found.items()}


def kinds_left(source: Source, benchmark: str) -> dict[str, int]:
    """How many records of each kind that the benchmark takes it has not used: one query."""
    left = records_without_draft(source, benchmark, registry.recipe(benchmark).kinds).order_by("content__kind")
    return dict(left.values_list("content__kind").annotate(n=Count("pk")))


def fitting_benchmark(source: Source | None) -> str:
    """The benchmark that somebody who names none means: the first with records of the source left, else the one of its
    newest batch, else the first there is. Those that take samples as they were published come last."""
    names = sorted(registry.names(), key=lambda name: not registry.recipe(name).roles)
    fitting = next((name for name in names if source and kinds_left(source, name)), None)
    newest = Batch.objects.filter(source=source).order_by("-pk").values_list("benchmark", flat=True)
    return fitting or (newest.first() if source else None) or next(iter(names), "")


def latest_benchmark() -> str:
    """The benchmark of the newest batch, else the first there is."""
    newest = Batch.objects.order_by("-pk").values_list("benchmark", flat=True).first()
    return newest or next(iter(registry.names()), "")


def records_without_draft(source: Source, benchmark: str, kinds: Iterable[str]) -> QuerySet[SourceRecord]:
    """Records of the kinds given that no batch of this benchmark has used, oldest first.

    What a batch that is over failed at is not used, nor what a cancelled one did not come to.
    """
    used = _users(benchmark).filter(record=OuterRef("pk"))
    return SourceRecord.objects.filter(~Exists(used), source=source, content__kind__in=list(kinds)).order_by("pk")


def _users(benchmark: str) -> QuerySet[Draft]:
    """Drafts of this benchmark that use their record."""
    over = [Batch.Status.CANCELLED, Batch.Status.FINISHED]
    never = Q(batch__status__in=over, status=Status.FAILED)
    never |= Q(batch__status=Batch.Status.CANCELLED, status=Status.QUEUED)
    return Draft.objects.filter(batch__benchmark=benchmark).exclude(never)


def taken_by_later(batch: Batch) -> QuerySet[Draft]:
    """Drafts of a batch that failed and whose record a later batch has used since. One beside which it was launched to be
    compared is no later one."""
    later = _users(batch.benchmark).filter(record=OuterRef("record"), batch__gt=batch.pk)
    if batch.comparison_id is not None:
        later = later.exclude(batch__comparison=batch.comparison_id)
    return Draft.objects.filter(Exists(later), batch=batch.pk, status=Status.FAILED)


def draft_value(row: Draft) -> DraftValue:
    """A stored draft as the recipe sees it."""
    return draft_values([row])[0]


def draft_values(rows: Sequence[Draft], *, joined: bool = True) -> list[DraftValue]:
    """Stored drafts of one batch as the recipe sees them, in their order; first versions with as many queries for many as for
    one. `joined`: with the records that theirs refer to. A record's private part stays behind."""
    if not rows:
        return []
    refers = Exists(Reference.objects.filter(record=OuterRef("pk")))
    found = SourceRecord.objects.defer("private").annotate(is_joined=refers).in_bulk({row.record_id for row in rows})
    partners = partner_contents([record for record in found.values() if record.is_joined]) if joined else {}
    records = {pk: record_value(record, partners.get(pk, {})) for pk, record in found.items()}
    batch = Batch.objects.only("benchmark", "prompts", "checks", "settings").get(pk=rows[0].batch_id)
    in_force = terms(batch.benchmark)
    values = []
    for row in rows:
        previous = None
        if row.sample_id:
            previous = SampleVersion.objects.filter(sample_id=row.sample_id, number=row.version - 1).first()
        values.append(
            DraftValue(
                record=records[row.record_id],
                terms=in_force,
                version=row.version,
                reasons=tuple(previous.reasons) if previous else (),
                previous=prefetch_rubrics(previous) if previous else None,
                data=row.data,
                preferred=tuple(row.preferred),
                prompts=batch.prompts,
                checks=tuple(batch.checks),
                settings=batch.settings,
                others=SourceValues(found[row.record_id]),
            )
        )
    return values


def batches() -> QuerySet[Batch]:
    """All batches, newest first, with counts of drafts."""
    return Batch.objects.select_related("source", "created_by").annotate(
        drafts_count=Count("drafts"),
        ended_count=Count("drafts", filter=Q(drafts__status__in=[Status.DONE, Status.DROPPED, Status.FAILED])),
        failed_count=Count("drafts", filter=Q(drafts__status=Status.FAILED)),
    )


def drafts(batch: Batch, *statuses: Work.Status) -> QuerySet[Draft]:
    """The drafts of a batch in the given states."""
    return Draft.objects.filter(batch=batch, status__in=statuses).select_related("record").defer("record__private")


def calls_of_draft(draft: Draft) -> list[Call]:
    """The ledger of a draft, with that of the drafts it was made from."""
    subjects = []
    row: Draft | None = draft
    while row is not None:
        subjects.append(f"draft:{row.pk}")
        row = row.parent
    return list(Call.objects.filter(subject__in=subjects).select_related("endpoint").order_by("pk"))


def findings(batch: Batch, *, check: str = "", state: str = "", text: str = "") -> QuerySet[Finding]:
    """What checks found in the drafts of a batch, each with its draft's record and the sample that it is like."""
    found = Finding.objects.filter(draft__batch=batch).select_related("draft__record", "draft__sample", "other")
    found = found.defer("draft__data", "draft__record__content", "draft__record__private")
    if check:
        found = found.filter(check_name=check)
    if state:
        found = found.filter(draft__gate=state)
    if text:
        found = found.filter(draft__record__title__icontains=text)
    return found


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """How many drafts of a batch a check had something to say about, by what became of them."""

    name: str
    label: str
    stopped: int
    let_through: int
    discarded: int


def check_counts(batch: Batch) -> list[CheckCounts]:
    """Each check that the batch makes, with its counts: one query."""
    gates = Finding.objects.filter(draft__batch=batch).order_by().values_list("check_name", "draft__gate")
    counts = {(name, state): n for name, state, n in gates.annotate(n=Count("pk"))}
    return [
        CheckCounts(
            name,
            gettext(registry.check_label(batch.benchmark, name)),
            *(counts.get((name, state), 0) for state in (gate.STOPPED, gate.LET_THROUGH, gate.DISCARDED)),
        )
        for gate in [Draft.Gate]
        for name in batch.checks
    ]


def stopped_versions(sample: Sample) -> QuerySet[Draft]:
    """Versions of a sample that a check stopped."""
    return Draft.objects.filter(sample=sample, gate=Draft.Gate.STOPPED).order_by("pk")


@dataclass(frozen=True, slots=True)
class Presets:
    """The presets of a recipe beside one another: for each setting its value in each, as text; "" where one has none."""

    presets: tuple[Preset, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def presets(benchmark: str) -> Presets:
    """The recipe's presets with all their values."""
    found = registry.recipe(benchmark).presets
    names = dict.fromkeys(name for preset in found for name in preset.values)
    rows = ((name, tuple(_as_text(preset.values.get(name, "")) for preset in found)) for name in names)
    return Presets(found, tuple(rows))


def setting_texts(batch: Batch) -> list[tuple[str, str]]:
    """The settings that a batch was launched with, as text."""
    return [(name, _as_text(value)) for name, value in batch.settings.items()]


def preset_of(batch: Batch) -> Preset | None:
    """The preset that a batch was launched with, as the recipe has it today; None where it has none of that name."""
    return next((p for p in registry.recipe(batch.benchmark).presets if p.name == batch.preset), None)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def analysis(batch: Batch) -> tuple[Block, ...]:
    """What the data of a batch's drafts show together; they are streamed. Raises NoAnalysis.

    Each sample counts once, by its latest draft: not what a later version has taken the place of, nor what was discarded,
    withdrawn or held back by a check. A draft that became several is left out: they have its data; and so is one that went on
    in another one, or was merged later. Where no later version
    is ever made, what physicians have discarded counts as well: it was made.
    """
    shows = registry.recipe(batch.benchmark).analysis
    if shows is None:
        raise errors.NoAnalysis(batch.benchmark)
    begun = Draft.objects.filter(onward=None).exclude(data={}).exclude(error="Merged")
    begun = begun.exclude(gate__in=[Draft.Gate.STOPPED, Draft.Gate.DISCARDED])
    split = Draft.objects.filter(parent=OuterRef("pk"))
    later = begun.filter(sample=OuterRef("version_made__sample"), version__gt=OuterRef("version"))
    over = Sample.objects.filter(
        Q(pk=OuterRef("version_made__sample")) | Q(pk=OuterRef("sample")),
        status__in=[Sample.Status.DISCARDED, Sample.Status.WITHDRAWN],
    )
    rows = begun.filter(~Exists(split), ~Exists(later), batch=batch).order_by("pk")
    if registry.recipe(batch.benchmark).max_versions > 1:
        rows = rows.filter(~Exists(over))
    drafts: Iterator[Mapping[str, Any]] = rows.values_list("data", flat=True).iterator(chunk_size=STREAMED)
    return (*shows(drafts), *reviewed.blocks(batch))


def made_sample(draft: Draft) -> NewSample:
    """What the recipe made of a draft that has been through all its steps."""
    return registry.recipe(draft.batch.benchmark).sample(draft_value(draft))


@dataclass(frozen=True, slots=True)
class TrapTarget:
    """How many samples were to carry a trap (or some trap of a cluster), and how many do. `cluster` is its heading."""

    code: str
    label: str
    cluster: str
    planned: int
    reached: int


def plan_progress(batch: Batch) -> list[tuple[str, list[TrapTarget]]]:
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
            aims.append(TrapTarget(cluster.code, gettext("whole cluster"), heading, of_cluster, there[cluster.code]))
            aims += [
                TrapTarget(t.code, f"{t.code} {gettext(t.label)}", heading, targets.get(t.code, 0), there[t.code])
                for t in in_force
                if t.parent == cluster.code
            ]
        found.append((task, aims))
    return found


def _living(batch: Batch) -> QuerySet[SampleVersion]:
    alive = [SampleVersion.Status.IN_REVIEW, SampleVersion.Status.APPROVED]
    return SampleVersion.objects.filter(sample__batch=batch, status__in=alive)


def models_asked(batch: Batch) -> list[ModelAsked]:
    """The models of a batch, with settings, reported versions and prompts."""
    roles = batch.roles.select_related("endpoint").order_by("pk")
    return jobs_queries.models_asked(batch, [(role.role, role.endpoint) for role in roles], batch.endpoint_settings)
