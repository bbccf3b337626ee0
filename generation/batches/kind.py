"""Batches as a kind of job."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from generation import errors
from generation.batches import making_together, services
from generation.endpoints import queries as endpoints_queries
from generation.jobs.kinds import JobKind, ProgressBar, Tile
from generation.jobs.live_status import Progress, endpoints_listed
from generation.models import Batch, BatchRole, Draft, Endpoint
from generation.samples.services import apply_outcomes


class BatchKind(JobKind[Batch]):
    """A batch works on drafts. Cancelling it discards the drafts that wait for regeneration."""

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

    def is_open(self, pk: int) -> bool:
        return super().is_open(pk) or making_together.waits(self.model.objects.get(pk=pk))

    def clean_up(self) -> None:
        for batch in making_together.waiting_batches():
            making_together.gather(batch)
        apply_outcomes()

    def discard_waiting(self, pk: int) -> None:
        services.discard_waiting(pk)

    def endpoint_lists(self) -> Mapping[str, Subquery]:
        return {"roles": endpoints_listed(BatchRole.objects.filter(batch=OuterRef("pk")))}

    def list_address(self) -> str:
        return reverse("generation:batches")

    def bars(self, job: Batch) -> Iterable[ProgressBar]:
        progress = self.progress(job)
        return [ProgressBar("batch", _("Drafts"), progress.ended, progress.total)]

    def tiles(self, progress: Progress) -> Iterable[Tile]:
        done, unfinished, dropped, failed = super().tiles(progress)
        to_dropped, to_failed = "#dropped" if progress.dropped else "", "#failed" if progress.failed else ""
        return [done, unfinished, replace(dropped, href=to_dropped), replace(failed, href=to_failed)]

    def cancel_warning(self, progress: Progress) -> str:
        unfinished = ngettext(
            "%(n)s draft is unfinished and will not be completed. Its record can be used by another batch.",
            "%(n)s drafts are unfinished and will not be completed. Their records can be used by another batch.",
            progress.open,
        )
        kept = _("Samples already made are kept. Samples that physicians send back are not regenerated.")
        return f"{unfinished % {'n': progress.open}} {kept}"


BATCHES = BatchKind()
