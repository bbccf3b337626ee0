"""The kinds of jobs: one class each, registered by its app.

Pages, API and commands serve every kind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from pydantic import BaseModel

from generation import errors
from generation.jobs import live_status, queries
from generation.jobs.life_cycle import OVER
from generation.jobs.live_status import LiveStatus, Progress
from generation.llm.types import Request
from generation.models import Call, Endpoint, Job
from generation.models.work import Work
from review import registrations
from review.common.site_pause import not_paused
from review.rules.permissions import Can, may_read

J = TypeVar("J", bound=Job)
Status = Work.Status
OPEN = (Status.QUEUED, Status.RUNNING)
Text = str | Promise


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """How many rows of one model have ended, of all."""

    name: str
    label: Text
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of a job's progress. `href`: the place on the page that lists the rows."""

    label: Text
    value: int
    note: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A request like those that a job will send to an endpoint, to be tried once before it begins.

    `shape`: of the reply that is asked for; None for plain text. `batched`: the job will send such
    requests in provider batches.
    """

    endpoint: Endpoint
    role: str
    request: Request
    shape: type[BaseModel] | None = None
    batched: bool = False


class JobKind(Generic[J]):
    """What one kind of job adds to the common behaviour: its rows of work and how to work on them.

    A kind must define `model`, `rows` and `work`. `rows`: the models of its rows by name; each has
    a foreign key to the job that is named like the kind. `titles`: singular, with %(n)s for the
    number, and plural. `own_page`: whether its app has a view of a job; otherwise the common page
    is used. `tallied`: the names of rows of which its jobs have columns with the number done
    (`live_status.with_live_status`). `control`, `read`: the permissions needed. `unknown`: the
    error for a job that does not exist.
    """

    model: type[J]
    rows: Mapping[str, type[Work]]
    titles: tuple[Text, Text] = (gettext_lazy("Job %(n)s"), gettext_lazy("Jobs"))
    own_page: ClassVar[bool] = False
    tallied: ClassVar[tuple[str, ...]] = ()
    control: ClassVar[Can] = Can.PRODUCE
    read: ClassVar[Can] = Can.PRODUCE
    unknown: ClassVar[type[Exception]] = errors.UnknownJob

    @property
    def name(self) -> str:
        return str(self.model._meta.model_name)

    @property
    def plural(self) -> str:
        """The kind's name in URLs."""
        return f"{self.name}s"

    # ----------------------------------------------------------------------------------------- rows

    def jobs(self) -> QuerySet[J]:
        """All jobs of the kind, with related rows that their pages show."""
        return cast("QuerySet[J]", self.model._default_manager.select_related("created_by"))

    def get(self, pk: int) -> J:
        """Return one job. Raises the kind's `unknown`."""
        return self._one(self.jobs(), pk)

    def _one(self, jobs: QuerySet[J], pk: int) -> J:
        job = jobs.filter(id=pk).first()  # with `pk`, a number too large for the column would be an error
        if job is None:
            raise self.unknown(str(pk))
        return job

    def rows_of(self, job: Any, **fields: Any) -> list[QuerySet[Any]]:
        """The rows of a job (a key or an OuterRef), one query for each model."""
        return [model._default_manager.filter(**{self.name: job}, **fields) for model in self.rows.values()]

    def visible_calls(self, job: J, calls: QuerySet[Call], reader: object) -> QuerySet[Call]:
        """Those of a job's calls that `reader` may see, who has the right `read`."""
        return calls

    def is_open(self, pk: int) -> bool:
        """Whether any row of a job is queued or running."""
        return any(rows.exists() for rows in self.rows_of(pk, status__in=OPEN))

    def unsettled(self) -> list[int]:
        """Keys of the jobs to settle: not over, but without an open row."""
        ended = [~Exists(rows) for rows in self.rows_of(OuterRef("pk"), status__in=OPEN)]
        not_over = self.model._default_manager.exclude(status__in=OVER)
        return list(not_over.filter(*ended).values_list("pk", flat=True))

    # ----------------------------------------------------------------------------------------- work

    def work(self, pk: int) -> int:
        """Work on a job in a lane; returns how many rows ran.

        The lane ends when nothing is queued or its time is up.
        """
        raise NotImplementedError

    def endpoints(self, job: J) -> QuerySet[Endpoint]:
        """The endpoints that a job calls."""
        return Endpoint.objects.none()

    def trials(self, job: J) -> Iterable[Trial]:
        """Requests like those that a job will send, for each of its endpoints."""
        return ()

    def with_work(self, jobs: QuerySet[J]) -> QuerySet[J]:
        """The jobs among `jobs` that a lane could work on."""
        has_queued = Q()
        for rows in self.rows_of(OuterRef("pk"), status=Status.QUEUED):
            has_queued |= Q(Exists(rows))
        return jobs.filter(has_queued)

    def waiting(self) -> QuerySet[J]:
        """The running jobs with rows to take that neither rest nor have their models tried.

        None while the site is paused.
        """
        now = timezone.now()
        is_resting, is_checking = Q(rests_until__gt=now), Q(checking_until__gt=now)
        running = self.model._default_manager.filter(not_paused(), status=Job.Status.RUNNING)
        return self.with_work(cast("QuerySet[J]", running.exclude(is_resting).exclude(is_checking)))

    def due(self) -> list[int]:
        """Keys of the jobs that need a worker, each once for every lane wanted or errand."""
        wanted = queries.fair_lanes(self.waiting()).wanted()
        return wanted + [pk for pk in self.errands() if pk not in wanted]

    def errands(self) -> list[int]:
        """Keys of the jobs with something to do that needs no lane and takes seconds."""
        return []

    def run_errand(self, pk: int) -> None:
        """Do what `errands` names a job for. Safe if several workers do it at once."""

    def clean_up(self) -> None:
        """Further work of a sweep, before jobs are settled."""

    def retry(self, pk: int) -> int:
        """Queue the failed rows of a job again; returns how many."""
        failed = self.rows_of(pk, status=Status.FAILED)
        return sum(rows.update(status=Status.QUEUED, error="", detail="", tries=0) for rows in failed)

    def discard_waiting(self, pk: int) -> None:
        """Handle the rows of a job that is being cancelled, in the same transaction."""

    # --------------------------------------------------------------------------------------- status

    def endpoint_lists(self) -> Mapping[str, Subquery]:
        """Subqueries for the endpoints of a job (OuterRef); see `live_status.endpoints_listed`."""
        return {}

    def jobs_with_status(self) -> QuerySet[J]:
        """All jobs, annotated with all that `progress` and `live` need."""
        return self._jobs_with_status.all()

    @cached_property
    def _jobs_with_status(self) -> QuerySet[J]:
        """Cached, as building the query takes a third of a poll. Never evaluated itself."""
        lists = self.endpoint_lists()
        return live_status.with_live_status(self.jobs(), self.rows, self.name, lists, tallied=self.tallied)

    def get_with_status(self, pk: int, reader: object) -> J:
        """Return one job as `jobs_with_status` does, in one statement, as `reader` may see it.

        Raises the kind's `unknown`.
        """
        job = self._one(self.jobs_with_status(), pk)
        if not self.shows_words(reader):
            live_status.remove_words(job)
        return job

    def shows_words(self, reader: object) -> bool:
        """Whether `reader` may see what servers said, which may quote any sample sent to them."""
        return may_read(reader, self.control)

    def progress(self, job: J) -> Any:
        """Progress over all rows of a job: as read by `get_with_status`, else current."""
        job = self._with_status(job)
        parts = self.parts(job)
        names = ("queued", "running", "done", "dropped", "failed")
        counts = {}
        for name in names:
            counts[name] = sum(getattr(part, name) for part in parts)
        return Progress(**counts, cost=job.cost, calls=job.calls)

    def parts(self, job: J) -> list[Progress]:
        """Progress over the rows of each model: as read by `get_with_status`, else current."""
        job = self._with_status(job)
        return [live_status.progress(job, name) for name in self.rows]

    def _with_status(self, job: J) -> J:
        if hasattr(job, "lanes_listed"):
            return job
        return self._one(self.jobs_with_status(), job.pk)

    def live(self, job: J) -> LiveStatus:
        """Live status of a job: as read by `get_with_status`, else current."""
        job = self._with_status(job)
        whole = self.progress(job)
        return live_status.live(job, ended=whole.ended, total=whole.total)

    # --------------------------------------------------------------------------------------- launch

    def repeat_settings(self, job: J, given: Mapping[str, Any]) -> dict[str, Any]:
        """Complete the given values of a launch by the settings of a job, as the API takes them.

        The record limit, the budget and `fresh` belong to a single launch and are not repeated.
        Raises NotRepeatable.
        """
        raise errors.NotRepeatable

    # ---------------------------------------------------------------------------------------- pages

    def title(self, job: Job) -> str:
        """The name of a job on pages."""
        return str(self.titles[0]) % {"n": job.pk}

    def address(self, page: str, pk: int) -> str:
        """The URL of a job's page (""), or of one of its controls ("pause", "failures" …)."""
        if page:
            route = f"{self.name}-{page}"
        else:
            route = self.name
        return reverse(f"{self.model._meta.app_label}:{route}", args=[pk])

    def list_address(self) -> str:
        """The URL of the list of these jobs; "" if there is none."""
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

    def first_result(self, job: J) -> str:
        """The URL of what became of a job's first record; "" if there is no page of it."""
        return ""

    def page_notes(self, job: J) -> Mapping[str, Any]:
        """Context for the notes at the top of a job's pages; see `base.html`."""
        return {}


_kinds: dict[str, JobKind[Any]] = {}


def register(kind: JobKind[Any]) -> None:
    """Add a kind. Call it in `registered.py`."""
    _kinds[kind.name] = kind


def all_kinds() -> list[JobKind[Any]]:
    """All kinds, ordered by name."""
    registrations.load()
    return [kind for _name, kind in sorted(_kinds.items())]


def kind_named(name: str) -> JobKind[Any]:
    """The kind of this name. Raises UnknownJob."""
    registrations.load()
    if name not in _kinds:
        raise errors.UnknownJob(name)
    return _kinds[name]


def kind_of(job: Job) -> JobKind[Any]:
    """The kind of a job."""
    registrations.load()
    return _kinds[job.kind]
