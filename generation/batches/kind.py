"""Batches as a kind of job."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from generation import errors
from generation.batches import services
from generation.endpoints import queries as endpoints_queries
from generation.jobs.kinds import JobKind, ProgressBar, Tile
from generation.jobs.live_status import Progress, endpoints_listed
from generation.models import Batch, BatchRole, Draft, Endpoint
from generation.samples.services import handle_outcomes


class BatchKind(JobKind[Batch]):
    """A batch works on drafts; cancelled, it discards what waits to be made again."""

    model = Batch
    rows: Mapping[str, Any] = {"drafts": Draft}
    titles = (gettext_lazy("Batch %(n)s"), gettext_lazy("Batches"))
    plural = "batches"
    own_page = True
    unknown = errors.UnknownBatch

    def jobs(self) -> QuerySet[Batch]:
        return super().jobs().select_related("source")

    def work(self, pk: int) -> int:
        return services.work_on_batch(pk)

    def endpoints(self, job: Batch) -> QuerySet[Endpoint]:
        return endpoints_queries.endpoints_of(job)

    def tidy(self) -> None:
        handle_outcomes()

    def cancelled(self, pk: int) -> None:
        services.discard_waiting(pk)

    def asks(self) -> Mapping[str, Subquery]:
        return {"roles": endpoints_listed(BatchRole.objects.filter(batch=OuterRef("pk")))}

    def list_address(self) -> str:
        return reverse("generation:batches")

    def bars(self, job: Batch) -> Iterable[ProgressBar]:
        progress = self.progress(job)
        return [ProgressBar("batch", _("Drafts"), progress.ended, progress.total)]

    def tiles(self, progress: Progress) -> Iterable[Tile]:
        done, still_open, dropped, failed = super().tiles(progress)
        to_dropped, to_failed = "#dropped" if progress.dropped else "", "#failed" if progress.failed else ""
        return [done, still_open, replace(dropped, href=to_dropped), replace(failed, href=to_failed)]

    def lost(self, progress: Progress) -> str:
        still_open = ngettext(
            "%(n)s draft is still open and will not be made; its record is free for another batch.",
            "%(n)s drafts are still open and will not be made; their records are free for another batch.",
            progress.open,
        )
        stays = _("What was made stays; what physicians send back is not made again.")
        return f"{still_open % {'n': progress.open}} {stays}"


BATCHES = BatchKind()
