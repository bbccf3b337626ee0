"""The kinds of jobs. A kind is one class, registered by its app when it is ready; pages, API and shell know no others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from generation import errors
from generation.jobs import live_status, queries
from generation.jobs.life_cycle import OVER
from generation.jobs.live_status import Live, Progress
from generation.models import Endpoint, Job
from generation.models.work import Work
from review.rules.permissions import Can

J = TypeVar("J", bound=Job)
Status = Work.Status
OPEN = (Status.QUEUED, Status.RUNNING)
Text = str | Promise


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """How much of one sort of rows has ended."""

    name: str
    label: Text
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of a job's progress; `href`: where its rows are on the page."""

    label: Text
    value: int
    note: str = ""
    href: str = ""


class JobKind(Generic[J]):
    """What one kind of job adds to what all have in common: its rows of work, and what is done with them.

    `model` and `rows` must be given, and `work`. `rows`: the models of its rows by name; each has a foreign key to the job
    that is named as the kind is. `titles`: of one, with %(n)s for its number, and of many. `own_page`: its app has a view of
    one; the others are shown on a page that fits every kind.
    """

    model: type[J]
    rows: Mapping[str, type[Work]]
    titles: tuple[Text, Text] = (gettext_lazy("Job %(n)s"), gettext_lazy("Jobs"))
    own_page: ClassVar[bool] = False
    control: ClassVar[Can] = Can.PRODUCE
    read: ClassVar[Can] = Can.PRODUCE
    unknown: ClassVar[type[Exception]] = errors.UnknownJob

    @property
    def name(self) -> str:
        return str(self.model._meta.model_name)

    @property
    def plural(self) -> str:
        """Its word in addresses."""
        return f"{self.name}s"

    # ------------------------------------------------------------------------------------------------------------ rows

    def jobs(self) -> QuerySet[J]:
        """All of the kind, with what their pages show."""
        return cast("QuerySet[J]", self.model._default_manager.select_related("created_by"))

    def get(self, pk: int) -> J:
        """Raises the kind's own error where there is none of this number."""
        return self._one(self.jobs(), pk)

    def _one(self, jobs: QuerySet[J], pk: int) -> J:
        found = jobs.filter(pk=pk).first()
        if found is None:
            raise self.unknown(str(pk))
        return found

    def rows_of(self, job: Any, **fields: Any) -> list[QuerySet[Any]]:
        """The rows of a job (a number, or an OuterRef), one query for each model."""
        return [model._default_manager.filter(**{self.name: job}, **fields) for model in self.rows.values()]

    def is_open(self, pk: int) -> bool:
        """Whether anything of a job is still to be done."""
        return any(rows.exists() for rows in self.rows_of(pk, status__in=OPEN))

    def to_settle(self) -> list[int]:
        """Jobs that have not ended and of which nothing is open any more."""
        ended = [~Exists(rows) for rows in self.rows_of(OuterRef("pk"), status__in=OPEN)]
        alive = self.model._default_manager.exclude(status__in=OVER)
        return list(alive.filter(*ended).values_list("pk", flat=True))

    # ------------------------------------------------------------------------------------------------------------ work

    def work(self, pk: int) -> int:
        """Work on a job in a lane until nothing is queued or its time is up; returns how many rows ran."""
        raise NotImplementedError

    def endpoints(self, job: J) -> QuerySet[Endpoint]:
        """The endpoints that a job asks."""
        return Endpoint.objects.none()

    def with_work(self) -> QuerySet[J]:
        """Jobs for which a lane could do something."""
        some = Q()
        for rows in self.rows_of(OuterRef("pk"), status=Status.QUEUED):
            some |= Q(Exists(rows))
        return cast("QuerySet[J]", self.model._default_manager.filter(some))

    def due(self) -> list[int]:
        """The jobs that want a worker, each as often as it may have another lane."""
        return queries.due(self.with_work())

    def tidy(self) -> None:
        """What a sweep does besides, before jobs are settled."""

    def retry(self, pk: int) -> int:
        """Queue again what failed of a job; returns how many rows."""
        failed = self.rows_of(pk, status=Status.FAILED)
        return sum(rows.update(status=Status.QUEUED, error="", detail="", tries=0) for rows in failed)

    def cancelled(self, pk: int) -> None:
        """What becomes of a job's results when it is cancelled, in the transaction that does it."""

    # ---------------------------------------------------------------------------------------------------------- status

    def asks(self) -> Mapping[str, Subquery]:
        """Lists of the endpoints of a job (OuterRef), by name, as `live_status.endpoints_listed` makes them."""
        return {}

    def watched(self, pk: int) -> J:
        """One job with all that `progress` and `live` need: one statement, however many rows it has."""
        rows = dict(zip(self.rows, self.rows_of(OuterRef("pk")), strict=True))
        return self._one(live_status.watched(self.jobs(), rows, self.asks()), pk)

    def progress(self, job: J) -> Any:
        """How far a job is, as it is now unless it is a watched one: what `Progress` has, of all its rows."""
        parts = self.parts(job)
        names = ("queued", "running", "done", "dropped", "failed")
        counts = {name: sum(getattr(part, name) for part in parts) for name in names}
        return Progress(**counts, cost=job.cost, calls=job.calls)

    def parts(self, job: J) -> list[Progress]:
        """The same for each sort of rows."""
        found = job if hasattr(job, "lanes_listed") else self.watched(job.pk)
        return [live_status.progress(found, of) for of in self.rows]

    def live(self, job: J) -> Live:
        """What goes on in a job, as it is now unless it is a watched one."""
        found = job if hasattr(job, "lanes_listed") else self.watched(job.pk)
        whole = self.progress(found)
        return live_status.live(found, list(self.asks()), ended=whole.ended, total=whole.total)

    # ----------------------------------------------------------------------------------------------------------- pages

    def title(self, job: Job) -> str:
        """What pages call a job."""
        return str(self.titles[0]) % {"n": job.pk}

    def address(self, what: str, pk: int) -> str:
        """The address of a job's page (""), or of what may be done there ("pause", "failures" …)."""
        place = f"{self.name}-{what}" if what else self.name
        return reverse(f"{self.model._meta.app_label}:{place}", args=[pk])

    def list_address(self) -> str:
        """The address of the list of such jobs; "" where there is none."""
        return ""

    def bars(self, job: J) -> Iterable[ProgressBar]:
        """How far each sort of rows is."""
        models = self.rows.values()
        labels = [model._meta.verbose_name_plural or "" for model in models]
        parts = zip(self.rows, labels, self.parts(job), strict=True)
        return [ProgressBar(name, label, part.ended, part.total) for name, label, part in parts]

    def tiles(self, progress: Any) -> Iterable[Tile]:
        """The numbers below them."""
        return [
            Tile(_("done"), progress.done),
            Tile(_("open"), progress.open, note=_("%(n)s in work") % {"n": progress.running}),
            Tile(_("dropped"), progress.dropped),
            Tile(_("failed"), progress.failed),
        ]

    def lost(self, progress: Any) -> str:
        """What cancelling a job means for its rows, in a sentence or two."""
        return _("What was done stays; what is open will not be done.")

    def notes(self, job: J) -> Mapping[str, Any]:
        """What its pages say above everything, as `base.html` takes it."""
        return {}


_kinds: dict[str, JobKind[Any]] = {}


def register(kind: JobKind[Any]) -> None:
    """Make a kind known. Call it once, in `AppConfig.ready`."""
    _kinds[kind.name] = kind


def every() -> list[JobKind[Any]]:
    """The kinds there are, by name."""
    return [kind for _name, kind in sorted(_kinds.items())]


def named(name: str) -> JobKind[Any]:
    """Raises UnknownJob where there is no such kind."""
    if name not in _kinds:
        raise errors.UnknownJob(name)
    return _kinds[name]


def kind_of(job: Job) -> JobKind[Any]:
    """The kind of a job."""
    return _kinds[job.kind]
