"""The kinds of jobs: one class each, registered when its app is ready. Pages, API and commands serve every kind."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from generation import errors
from generation.jobs import live_status, queries
from generation.jobs.life_cycle import OVER
from generation.jobs.live_status import LiveStatus, Progress
from generation.models import Endpoint, Job
from generation.models.work import Work
from review.rules.permissions import Can

J = TypeVar("J", bound=Job)
Status = Work.Status
OPEN = (Status.QUEUED, Status.RUNNING)
Text = str | Promise


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """How many rows of one model have ended."""

    name: str
    label: Text
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of a job's progress. `href`: the place on the page that lists its rows."""

    label: Text
    value: int
    note: str = ""
    href: str = ""


class JobKind(Generic[J]):
    """What one kind of job adds to the common behaviour: its rows of work and how to work on them.

    `model` and `rows` must be given, and `work`. `rows`: the models of its rows by name; each has a foreign key to the job
    that is named as the kind is. `titles`: of one, with %(n)s for its number, and of many. `own_page`: its app has a view of
    one; the others are shown on a page that fits every kind. `tallied`: its jobs have columns that say how many rows are done
    (`live_status.with_live_status`).
    """

    model: type[J]
    rows: Mapping[str, type[Work]]
    titles: tuple[Text, Text] = (gettext_lazy("Job %(n)s"), gettext_lazy("Jobs"))
    own_page: ClassVar[bool] = False
    tallied: ClassVar[bool] = False
    control: ClassVar[Can] = Can.PRODUCE
    read: ClassVar[Can] = Can.PRODUCE
    unknown: ClassVar[type[Exception]] = errors.UnknownJob

    @property
    def name(self) -> str:
        return str(self.model._meta.model_name)

    @property
    def plural(self) -> str:
        """Its name in URLs."""
        return f"{self.name}s"

    # ------------------------------------------------------------------------------------------------------------ rows

    def jobs(self) -> QuerySet[J]:
        """All jobs of the kind, with the rows that their pages show."""
        return cast("QuerySet[J]", self.model._default_manager.select_related("created_by"))

    def get(self, pk: int) -> J:
        """One job. Raises the kind's `unknown`."""
        return self._one(self.jobs(), pk)

    def _one(self, jobs: QuerySet[J], pk: int) -> J:
        found = jobs.filter(id=pk).first()  # by `pk`, a number too large for the column would be an error
        if found is None:
            raise self.unknown(str(pk))
        return found

    def rows_of(self, job: Any, **fields: Any) -> list[QuerySet[Any]]:
        """The rows of a job (a number, or an OuterRef), one query for each model."""
        return [model._default_manager.filter(**{self.name: job}, **fields) for model in self.rows.values()]

    def is_open(self, pk: int) -> bool:
        """Whether any row of a job is queued or running."""
        return any(rows.exists() for rows in self.rows_of(pk, status__in=OPEN))

    def unsettled(self) -> list[int]:
        """Jobs to settle: not over, but without an open row."""
        ended = [~Exists(rows) for rows in self.rows_of(OuterRef("pk"), status__in=OPEN)]
        alive = self.model._default_manager.exclude(status__in=OVER)
        return list(alive.filter(*ended).values_list("pk", flat=True))

    # ------------------------------------------------------------------------------------------------------------ work

    def work(self, pk: int) -> int:
        """Work on a job in a lane until nothing is queued or its time is up; returns how many rows ran."""
        raise NotImplementedError

    def endpoints(self, job: J) -> QuerySet[Endpoint]:
        """The endpoints that a job calls."""
        return Endpoint.objects.none()

    def with_work(self, jobs: QuerySet[J]) -> QuerySet[J]:
        """Those of `jobs` that a lane could work on."""
        some = Q()
        for rows in self.rows_of(OuterRef("pk"), status=Status.QUEUED):
            some |= Q(Exists(rows))
        return jobs.filter(some)

    def due(self) -> list[int]:
        """Jobs that need a worker, each once for every further lane it may have."""
        running = self.model._default_manager.filter(status=Job.Status.RUNNING)
        return queries.due(self.with_work(cast("QuerySet[J]", running)))

    def clean_up(self) -> None:
        """Further work of a sweep, before jobs are settled."""

    def retry(self, pk: int) -> int:
        """Queue the failed rows of a job again; returns how many."""
        failed = self.rows_of(pk, status=Status.FAILED)
        return sum(rows.update(status=Status.QUEUED, error="", detail="", tries=0) for rows in failed)

    def discard_waiting(self, pk: int) -> None:
        """Handle the rows of a job that is being cancelled, in the same transaction."""

    # ---------------------------------------------------------------------------------------------------------- status

    def endpoint_lists(self) -> Mapping[str, Subquery]:
        """Lists of a job's endpoints (by OuterRef), by name; see `live_status.endpoints_listed`."""
        return {}

    def all_watched(self) -> QuerySet[J]:
        """All jobs, each with all that `progress` and `live` need."""
        return self._all_watched.all()

    @cached_property
    def _all_watched(self) -> QuerySet[J]:
        """Kept, as putting it together takes a third of a poll. Never evaluated itself."""
        lists = self.endpoint_lists()
        return live_status.with_live_status(self.jobs(), self.rows, self.name, lists, tallied=self.tallied)

    def watched(self, pk: int) -> J:
        """One job with all that `progress` and `live` need, in one statement. Raises the kind's `unknown`."""
        return self._one(self.all_watched(), pk)

    def progress(self, job: J) -> Any:
        """Progress over all rows of a job: current, or as read by `watched`."""
        job = self._read(job)
        parts = self.parts(job)
        names = ("queued", "running", "done", "dropped", "failed")
        counts = {name: sum(getattr(part, name) for part in parts) for name in names}
        return Progress(**counts, cost=job.cost, calls=job.calls)

    def parts(self, job: J) -> list[Progress]:
        """The same for each model of rows."""
        job = self._read(job)
        return [live_status.progress(job, name) for name in self.rows]

    def _read(self, job: J) -> J:
        return job if hasattr(job, "lanes_listed") else self.watched(job.pk)

    def live(self, job: J) -> LiveStatus:
        """Live status of a job: current, or as read by `watched`."""
        job = self._read(job)
        whole = self.progress(job)
        return live_status.live(job, ended=whole.ended, total=whole.total)

    # ---------------------------------------------------------------------------------------------------------- launch

    def repeated(self, job: J, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is given for a launch, and the settings of a job for what is not, as the API's launch takes them.

        How many records, the budget, and that cached replies are ignored are of one launch: none of them is repeated.
        Raises NotRepeatable.
        """
        raise errors.NotRepeatable

    # ----------------------------------------------------------------------------------------------------------- pages

    def title(self, job: Job) -> str:
        """The name of a job on pages."""
        return str(self.titles[0]) % {"n": job.pk}

    def address(self, what: str, pk: int) -> str:
        """The URL of a job's page (""), or of one of its controls ("pause", "failures" …)."""
        place = f"{self.name}-{what}" if what else self.name
        return reverse(f"{self.model._meta.app_label}:{place}", args=[pk])

    def list_address(self) -> str:
        """The URL of the list of such jobs; "" if there is none."""
        return ""

    def bars(self, job: J) -> Iterable[ProgressBar]:
        """A progress bar for each model of rows."""
        models = self.rows.values()
        labels = [model._meta.verbose_name_plural or "" for model in models]
        parts = zip(self.rows, labels, self.parts(job), strict=True)
        return [ProgressBar(name, label, part.ended, part.total) for name, label, part in parts]

    def tiles(self, progress: Any) -> Iterable[Tile]:
        """The numbers below the bars."""
        return [
            Tile(_("done"), progress.done),
            Tile(_("open"), progress.open, note=_("%(n)s in progress") % {"n": progress.running}),
            Tile(_("dropped"), progress.dropped),
            Tile(_("failed"), progress.failed),
        ]

    def cancel_warning(self, progress: Any) -> str:
        """What cancelling means for a job's rows, for the page that asks for confirmation."""
        return _("Results so far are kept. Unfinished items will not be completed.")

    def page_notes(self, job: J) -> Mapping[str, Any]:
        """Context for the notes at the top of its pages; see `base.html`."""
        return {}


_kinds: dict[str, JobKind[Any]] = {}


def register(kind: JobKind[Any]) -> None:
    """Add a kind. Call it in `AppConfig.ready`."""
    _kinds[kind.name] = kind


def all_kinds() -> list[JobKind[Any]]:
    """All kinds, ordered by name."""
    return [kind for _name, kind in sorted(_kinds.items())]


def kind_named(name: str) -> JobKind[Any]:
    """The kind of this name. Raises UnknownJob."""
    if name not in _kinds:
        raise errors.UnknownJob(name)
    return _kinds[name]


def kind_of(job: Job) -> JobKind[Any]:
    """The kind of a job."""
    return _kinds[job.kind]
