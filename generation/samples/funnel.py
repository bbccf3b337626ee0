"""The way from drawn records to approved samples: how many arrived where, and why others did not.

After CONSORT's flow diagram: at every stage, what arrived minus what left, plus what was added, is
what arrived at the next one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

from django.db.models import Case, CharField, Count, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Left
from django.http import Http404, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _
from pydantic import TypeAdapter

from generation.jobs.endpoint_choices import error_words
from generation.models import Draft, Finding, Sample, SampleVersion
from generation.recipes import registry
from generation.samples.queries import term_label, term_labels
from review.cases import queries as cases_queries
from review.charts.standalone import StageBox, StageChart, svg
from review.labels import task_label, with_label
from review.rules.shown_fields import Hidden, shown
from review.rules.state_machine import State

MERGED = "Merged"  # stored in place of an error name
DETAIL = 200  # characters of a recipe's reason
OTHERS_FROM = 8  # reasons of a recipe shown by name; the rest is counted together
Status = SampleVersion.Status

StageName = Literal["drawn", "drafted", "generated", "samples", "decided", "approved", "released"]
STAGES: dict[str, Promise] = {
    "drawn": _("Records drawn"),
    "drafted": _("Drafts"),
    "generated": _("Generated"),
    "samples": _("Samples for review"),
    "decided": _("Samples decided"),
    "approved": _("Approved"),
    "released": _("Released"),
}
LOSSES: dict[str, Promise] = {
    "open": _("still being generated"),
    "dropped": _("given up by the recipe"),
    "failed": _("failed"),
    "merged": _("merged into another draft"),
    "stopped": _("stopped by a check, undecided"),
    "discarded": _("stopped by a check, discarded"),
    "awaits-draw": _("awaiting the draw for review"),
    "other-trap": _("counted under the traps they carry"),
    "in-review": _("in review"),
    "withdrawn": _("withdrawn"),
    "rejected": _("rejected"),
    "regenerating": _("rejected, next version being generated"),
    "regeneration-failed": _("rejected, next version failed"),
    "regeneration-stopped": _("rejected, next version stopped by a check"),
    "next-in-review": _("rejected, next version in review"),
    "left-out": _("left out"),
}
GAINS: dict[str, Promise] = {
    "generators": _("drafts by further models"),
    "batches": _("drafts of the same records in further batches"),
    "split": _("from drafts that were split"),
    "further": _("further drafts of these records"),
    "controls": _("controls"),
    "other-plan": _("planned with another trap or none"),
}


@dataclass(frozen=True, slots=True)
class Loss:
    """Why `count` items did not get to the next stage.

    `why`: a msgid, of what failed the class name of the error, or empty.
    """

    kind: str
    why: str
    count: int

    @property
    @shown
    def label(self) -> str:
        """The reason in the reader's language."""
        kind = str(LOSSES.get(self.kind, self.kind))
        if self.kind == "failed":
            why = error_words(self.why).rstrip(".。")
        else:
            why = gettext(self.why)
        if self.why:
            return with_label(kind, why)
        return kind


@dataclass(frozen=True, slots=True)
class Stage:
    """How many items arrived at a stage, how many were added there, and which went no further."""

    name: StageName
    count: int
    lost: tuple[Loss, ...] = ()
    gained: Mapping[str, int] = field(default_factory=dict)

    @property
    @shown
    def label(self) -> str:
        return str(STAGES[self.name])

    @property
    def gains(self) -> list[tuple[str, int]]:
        """What was added, in the reader's language."""
        return [(str(GAINS[name]), n) for name, n in self.gained.items()]

    @property
    @shown
    def remaining(self) -> int:
        return self.count - sum(loss.count for loss in self.lost)


@dataclass(frozen=True, slots=True)
class VersionCounts:
    """What became of the versions with one number; `reasons`: why rejected (msgid -> versions)."""

    number: int
    made: int
    approved: int
    in_review: int
    withdrawn: int
    rejected: int
    reasons: Mapping[str, int]

    @property
    def reason_labels(self) -> list[tuple[str, int]]:
        return [(gettext(why or NO_REASON), n) for why, n in self.reasons.items()]


@dataclass(frozen=True, slots=True)
class SampleFunnel:
    """The stages of a group of samples: all, a data set's, or those with a trap.

    A data set is the task of a sample; what never became one counts under the kind of its record.
    A draft counts under each trap that was planned for it, a sample under each of its latest
    version. `term`: the name of a trap (a msgid).
    """

    group: str
    stages: tuple[Stage, ...]
    versions: tuple[VersionCounts, ...] = ()
    term: Hidden[str] = ""

    @property
    @shown
    def label(self) -> str:
        """The data set, or code and name of the trap, in the reader's language; empty for all."""
        if self.term:
            return term_label(self.group, self.term)
        return task_label(self.group)

    @property
    def adds_up(self) -> bool:
        """Whether each stage is what the one before left, plus what was added."""
        remaining = None  # of the stage before
        for stage in self.stages:
            if remaining is not None and remaining + sum(stage.gained.values()) != stage.count:
                return False
            remaining = stage.remaining
            if min([stage.count, *(loss.count for loss in stage.lost)]) < 0:
                return False
        for row in self.versions:
            if row.made != row.approved + row.in_review + row.withdrawn + row.rejected:
                return False
            if row.rejected != sum(row.reasons.values()):
                return False
        return True


@dataclass(frozen=True, slots=True)
class FunnelReport:
    """The funnel of some batches: of everything, by data set, and by trap.

    `returned`: the drafts that checks stopped and sent back to the generator, and `returned_by`
    each check (a label, a msgid); the drafts that followed them are in the stages. `drawn_again`:
    the records drawn after all that was made of them before had been discarded.
    """

    whole: SampleFunnel
    by_task: tuple[SampleFunnel, ...]
    by_trap: tuple[SampleFunnel, ...]
    returned: int = 0
    returned_by: Mapping[str, int] = field(default_factory=dict)
    drawn_again: int = 0

    @property
    def returned_labels(self) -> list[tuple[str, int]]:
        """The checks that sent drafts back, in the reader's language."""
        return [(gettext(label), n) for label, n in self.returned_by.items()]

    @property
    def data_sets(self) -> tuple[SampleFunnel, ...]:
        """The funnels by data set, if there are several: one alone is the whole."""
        if len(self.by_task) > 1:
            return self.by_task
        return ()

    @property
    def adds_up(self) -> bool:
        return all(funnel.adds_up for funnel in (self.whole, *self.by_task, *self.by_trap))


@dataclass(slots=True)
class _Tally:
    """The counts of one group.

    `lost`: stage -> (kind, why) -> items. `versions` and `reasons`: number -> status or reason of
    rejection -> versions.
    """

    records: int = 0
    drafts: int = 0
    samples: int = 0
    approved: int = 0
    gained: Counter[str] = field(default_factory=Counter)  # of samples
    lost: dict[StageName, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    versions: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    reasons: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def funnel(
        self, group: str = "", term: str = "", *, drawn: bool = True, added: Mapping[str, int] | None = None
    ) -> SampleFunnel:
        """The funnel from the records `drawn`, or from the samples on.

        `added`: drafts beyond one a record, by what added them.
        """
        stages: tuple[Stage, ...] = ()
        if drawn:
            if added is None:
                added = {"further": self.drafts - self.records}
            drafted = self._stage("drafted", self.drafts, {name: n for name, n in added.items() if n})
            stages = (Stage("drawn", self.records), drafted, self._stage("generated", drafted.remaining))
        samples = self._stage("samples", self.samples, dict(self.gained))
        stages = (*stages, samples, self._stage("decided", samples.remaining), Stage("approved", self.approved))
        versions = []
        for number, cell in sorted(self.versions.items()):
            reasons = dict(sorted(self.reasons[number].items()))
            by_status = (cell[Status.APPROVED], cell[Status.IN_REVIEW], cell[Status.WITHDRAWN], cell[Status.REJECTED])
            versions.append(VersionCounts(number, cell.total(), *by_status, reasons))
        return SampleFunnel(group, stages, tuple(versions), term)

    def _stage(self, name: StageName, count: int, gained: Mapping[str, int] | None = None) -> Stage:
        """A stage with its losses in the order of LOSSES, the most frequent reason first."""
        losses: list[Loss] = []
        for kind in LOSSES:
            counts = {why: n for (lost_as, why), n in self.lost[name].items() if lost_as == kind}
            found = sorted((-n, why) for why, n in counts.items())
            shown = found
            if kind == "dropped":
                shown = found[:OTHERS_FROM]
            losses += [Loss(kind, why, -n) for n, why in shown]
            if rest := found[len(shown) :]:
                losses.append(Loss(kind, _OTHERS, -sum(n for n, _why in rest)))
        return Stage(name, count, tuple(losses), gained or {})


_OTHERS = gettext_noop("other reasons")
_NO_TRAP = gettext_noop("No trap planned")
NO_REASON = gettext_noop("no reason code")
# The sample of a draft is another row than its later versions, so the plan is that of the first.
_PLANNED = SampleVersion.objects.filter(sample=OuterRef("sample"), number=1).values("draft__preferred")[:1]


class _Groups:
    """The tallies of everything, of each data set and of each trap.

    `planned`: whether traps were planned for any draft. Without a plan a draft counts under no
    trap.
    """

    def __init__(self) -> None:
        self.whole = _Tally()
        self.by_task: dict[str, _Tally] = defaultdict(_Tally)
        self.by_trap: dict[str, _Tally] = defaultdict(_Tally)
        self.planned = False

    def of_draft(self, task: str, preferred: Sequence[str]) -> list[_Tally]:
        if not self.planned:
            return self._groups(task, [])
        return self._groups(task, preferred or [""])

    def of_sample(self, task: str, arm: str, traps: Sequence[str]) -> list[_Tally]:
        if arm != Sample.Arm.TRAP:
            return self._groups(task, [])
        return self._groups(task, traps)

    def _groups(self, task: str, traps: Iterable[str]) -> list[_Tally]:
        tallies = [self.whole, self.by_task[task]]
        tallies += [self.by_trap[trap] for trap in dict.fromkeys(traps)]
        return tallies

    def count_samples(self, task: str, arm: str, traps: Sequence[str], preferred: Sequence[str] | None, n: int) -> None:
        """Count samples by the traps of their latest version, and where these were not planned."""
        for tally in self.of_sample(task, arm, traps):
            tally.samples += n
            if arm != Sample.Arm.TRAP:
                tally.gained["controls"] += n
        if arm != Sample.Arm.TRAP or not self.planned:
            return
        carried, planned = set(traps), set(preferred or [""])
        for trap in carried - planned:
            self.by_trap[trap].gained["other-plan"] += n
        for trap in planned - carried:
            self.by_trap[trap].lost["generated"]["other-trap", ""] += n


def funnel(benchmark: str, batches: Iterable[int]) -> FunnelReport:
    """The funnel of these batches of a benchmark. A fixed number of queries."""
    pks = list(batches)
    groups = _Groups()
    added = _count_drafts(benchmark, pks, groups)
    _count_versions(pks, groups)
    returned = Draft.objects.filter(batch__in=pks, gate=Draft.Gate.RETURNED)
    findings = Finding.objects.filter(draft__in=returned, stops=True).order_by().values_list("check_name")
    by_check = dict(findings.annotate(n=Count("pk")))
    names = {"": _NO_TRAP, **term_labels(benchmark)}
    by_task = [tally.funnel(name) for name, tally in sorted(groups.by_task.items())]
    by_trap = []
    for code, tally in sorted(groups.by_trap.items()):
        by_trap.append(tally.funnel(code, names.get(code, code), drawn=groups.planned))
    returned_by = {registry.check_label(benchmark, name): n for name, n in sorted(by_check.items())}
    return FunnelReport(
        groups.whole.funnel(added=added),
        tuple(by_task),
        tuple(by_trap),
        returned=returned.count(),
        returned_by=returned_by,
        drawn_again=_count_drawn_again(benchmark, pks),
    )


def _count_drawn_again(benchmark: str, batches: list[int]) -> int:
    """The records with earlier drafts, in batches that may draw what had been discarded."""
    earlier = Draft.objects.filter(
        batch__benchmark=benchmark, batch__lt=OuterRef("batch"), record=OuterRef("record"), sample=None
    )
    drawn = Draft.objects.filter(
        Exists(earlier.exclude(Q(status=Draft.Status.FAILED) | Q(gate=Draft.Gate.RETURNED))),
        batch__in=batches, batch__draw__again=True, batch__comparison=None, parent=None, sample=None,
    )  # fmt: skip
    return drawn.values("record").distinct().count()


def _count_drafts(benchmark: str, batches: list[int], groups: _Groups) -> dict[str, int]:
    """Count the first versions' drafts by their end, and their records.

    Returns how many drafts there are beyond one a record, by what added them (GAINS).

    A draft that was split, or that goes on as another one after a barrier, counts as those made of
    it. A control, or its rewording, is made beside its sample and is no draft of its own.
    """
    controls = (Sample.Arm.CONTROL, Sample.Arm.REWORDED)
    of_no_control = Draft.objects.exclude(version_made__sample__arm__in=controls).order_by()
    first = of_no_control.filter(batch__in=batches, sample=None)
    roots = first.filter(parent=None).aggregate(records=Count("record", distinct=True), begun=Count("pk"))
    launches = first.filter(parent=None).values("record", "batch").distinct().count()
    check = Finding.objects.filter(draft=OuterRef("pk"), stops=True).order_by("pk").values("check_name")[:1]
    task = Coalesce(
        "version_made__sample__task", KeyTextTransform("kind", "record__content"), Value(""), output_field=CharField()
    )
    last = first.filter(~Exists(of_no_control.filter(parent=OuterRef("pk")))).annotate(task=task)
    records = list(last.values_list("task", "preferred").annotate(n=Count("record", distinct=True)))
    groups.planned = any(preferred for _task, preferred, _n in records)
    for task_name, preferred, n in records:
        for tally in groups.of_draft(task_name, preferred):
            tally.records += n
    groups.whole.records = roots["records"]  # one record may have drafts of several tasks
    rows = (
        last.annotate(
            end=Case(
                When(version_made__isnull=False, then=Value("made")),
                When(gate=Draft.Gate.STOPPED, then=Value("stopped")),
                When(gate=Draft.Gate.DISCARDED, then=Value("discarded")),
                When(Q(onward__isnull=False) | Q(error=MERGED), then=Value("merged")),
                When(status=Draft.Status.DROPPED, then=Value("dropped")),
                When(status=Draft.Status.FAILED, then=Value("failed")),
                When(status=Draft.Status.DONE, then=Value("awaits-draw")),
                default=Value("open"),
                output_field=CharField(),
            ),
            why=Case(
                When(~Q(gate=""), then=Subquery(check)),
                When(status=Draft.Status.DROPPED, then=Left("detail", DETAIL)),
                When(status=Draft.Status.FAILED, then=F("error")),
                default=Value(""),
                output_field=CharField(),
            ),
        )
        .values_list("task", "preferred", "end", "why")
        .annotate(n=Count("pk"))
    )
    for task_name, preferred, end, why, n in rows:
        for tally in groups.of_draft(task_name, preferred):
            tally.drafts += n
            if end in ("stopped", "discarded"):
                tally.lost["generated"][end, registry.check_label(benchmark, why or "")] += n
            elif end == "awaits-draw":
                tally.lost["generated"][end, ""] += n
            elif end in ("open", "merged"):
                tally.lost["drafted"][end, ""] += n
            elif end != "made":
                tally.lost["drafted"][end, why or ""] += n
    return {
        "generators": roots["begun"] - launches,  # a record once for each endpoint of a batch
        "batches": launches - roots["records"],
        "split": groups.whole.drafts - roots["begun"],
    }


def _count_versions(batches: list[int], groups: _Groups) -> None:
    """Count the versions, rejected ones by reason, and the samples by their latest version."""
    later = SampleVersion.objects.filter(sample=OuterRef("sample"), number__gt=OuterRef("number"))
    drafts = Draft.objects.filter(sample=OuterRef("sample"), version__gt=OuterRef("number"))
    versions = SampleVersion.objects.filter(sample__batch__in=batches).order_by()
    versions = versions.annotate(
        latest=~Exists(later),
        planned=Subquery(_PLANNED),
        failed=Exists(drafts.filter(status=Draft.Status.FAILED)),
        stopped=Exists(drafts.filter(gate=Draft.Gate.STOPPED)),
    )
    fields = ("sample__task", "sample__arm", "traps", "planned", "number", "status", "latest")
    ends = ("case__state", "sample__status", "failed", "stopped")
    rejected = versions.filter(status=Status.REJECTED)
    whys = cases_queries.rejection_labels(rejected.values("case"))
    rows = chain(
        versions.exclude(status=Status.REJECTED).values_list(*fields, *ends, Value(0)).annotate(n=Count("pk")),
        rejected.values_list(*fields, *ends, "case", Value(1)).iterator(chunk_size=2000),
    )
    for task, arm, traps, planned, number, status, latest, *end, case, n in rows:
        why = whys.get(case, "")
        if latest:
            groups.count_samples(task, arm, traps, planned, n)
        for tally in groups.of_sample(task, arm, traps):
            tally.versions[number][status] += n
            if status == Status.REJECTED:
                tally.reasons[number][why] += n
            if latest and status == Status.APPROVED:
                tally.approved += n
            elif latest:
                stage, kind = _way_out(number, status, *end)
                lost_because = ""
                if kind == "rejected":
                    lost_because = why
                tally.lost[stage][kind, lost_because] += n


def _way_out(
    number: int, status: str, case_state: str, sample_status: str, failed: bool, stopped: bool
) -> tuple[StageName, str]:
    """The stage after which a sample went no further, and why, by its latest version."""
    if status == Status.IN_REVIEW:
        if number == 1:
            return ("samples", "in-review")
        return ("decided", "next-in-review")
    if status != Status.REJECTED:
        if number == 1 and case_state == State.WITHDRAWN:
            return "samples", "withdrawn"
        return "decided", "withdrawn"
    if sample_status == Sample.Status.WITHDRAWN:
        return "decided", "withdrawn"
    if sample_status != Sample.Status.REGENERATING:
        return "decided", "rejected"
    if failed:
        return "decided", "regeneration-failed"
    if stopped:
        return "decided", "regeneration-stopped"
    return "decided", "regenerating"


def released(report: FunnelReport, count: int, left_out: Mapping[str, int]) -> FunnelReport:
    """The report with the stage of a release. `left_out`: reason (a msgid) -> approved samples."""
    *stages, approved = report.whole.stages
    losses = tuple(Loss("left-out", why, n) for why, n in sorted(left_out.items()) if n)
    ended = (*stages, replace(approved, lost=losses), Stage("released", count))
    return replace(report, whole=replace(report.whole, stages=ended))


def chart(funnel: SampleFunnel) -> StageChart:
    """The funnel as a figure, in the reader's language."""
    boxes = []
    for stage in funnel.stages:
        losses = tuple((loss.label, loss.count) for loss in stage.lost)
        boxes.append(StageBox(stage.label, stage.count, tuple(stage.gains), losses))
    return StageChart("funnel", gettext("From drawn records to approved samples"), tuple(boxes))


def as_figure(report: FunnelReport, asked: Mapping[str, str], notes: Sequence[str], *, simulated: bool) -> HttpResponse:
    """A funnel as an SVG file: of the `task` or `trap` that is `asked` for, else the whole.

    `notes`: further lines of text.
    """
    shown = report.whole
    for name, groups in (("task", report.by_task), ("trap", report.by_trap)):
        if name in asked:
            found = [group for group in groups if group.group == asked[name]]
            if not found:
                raise Http404
            shown = found[0]
    lines = [*filter(None, [shown.label]), *notes]
    if simulated:
        lines.append(gettext("Simulated models or reviewers: not evidence"))
    figure = chart(shown)
    return HttpResponse(svg(figure, figure.title, lines), content_type="image/svg+xml")


_REPORT = TypeAdapter(FunnelReport)


def to_json(report: FunnelReport) -> dict[str, Any]:
    """The report as it is stored with a release; the inverse of `from_json`."""
    return _REPORT.dump_python(report, mode="json")  # type: ignore[no-any-return]


def from_json(stored: Mapping[str, Any]) -> FunnelReport:
    """The report stored with a release."""
    return _REPORT.validate_python(stored)
