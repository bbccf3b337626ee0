"""Batches as a kind of job."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from generation import errors
from generation.batches import bulk_samples, launch, queries, rounds, services
from generation.endpoints import queries as endpoints_queries
from generation.engine.task_queue import requeue_expired
from generation.jobs.kinds import JobKind, ProgressBar, Tile, Trial
from generation.jobs.life_cycle import OVER
from generation.jobs.live_status import Progress, endpoints_listed
from generation.models import BarrierRound, Batch, BatchRole, Draft, Endpoint, SampleVersion, Source
from generation.models.work import Work
from generation.recipes import registry


class BatchKind(JobKind[Batch]):
    """A batch works on drafts. Cancelling it discards the samples that wait for regeneration."""

    model = Batch
    rows: Mapping[str, Any] = {"drafts": Draft}
    titles = (gettext_lazy("Batch %(n)s"), gettext_lazy("Batches"))
    plural = "batches"
    own_page = True
    unknown = errors.UnknownBatch

    def first_result(self, job: Batch) -> str:
        of_first = SampleVersion.objects.filter(draft__batch=job, draft__record=queries.first_record(job))
        sample = of_first.order_by("pk").values_list("sample", flat=True).first()
        draft = Draft.objects.filter(batch=job, record=queries.first_record(job)).order_by("-pk").first()
        if sample is None:
            if draft:
                return reverse("generation:draft", args=[draft.pk])
            return ""
        return reverse("generation:sample", args=[sample])

    def trials(self, job: Batch) -> Iterable[Trial]:
        return queries.trials(job)

    def jobs(self) -> QuerySet[Batch]:
        return super().jobs().select_related("source")

    def work(self, pk: int) -> int:
        return services.work_on_batch(pk)

    def with_work(self, jobs: QuerySet[Batch]) -> QuerySet[Batch]:
        """Batches with a draft to take, with a round, or for which a round can be opened.

        A draft that waits at a barrier is not work by itself.
        """
        drafts = Draft.objects.filter(batch=OuterRef("pk"), status=Work.Status.QUEUED)
        open_rounds = BarrierRound.objects.filter(batch=OuterRef("pk"), status=Work.Status.QUEUED)
        at_barrier = Exists(drafts.filter(at_barrier=True, round=None))
        waiting = jobs.filter(at_barrier, status=Batch.Status.RUNNING).values_list("pk", flat=True)
        ready = [pk for pk in waiting if rounds.waiting_drafts(pk).exists()]
        return jobs.filter(Exists(drafts.filter(at_barrier=False)) | Exists(open_rounds) | Q(pk__in=ready))

    def retry(self, pk: int) -> int:
        """Queue the failed drafts again; those that failed at a barrier get a new round.

        Drafts whose record a later batch has used stay failed, so that no record is used twice.
        """
        batch = Batch.objects.get(pk=pk)
        Source.objects.select_for_update().get(pk=batch.source_id)  # keeps launches from taking these records
        failed = Draft.objects.filter(batch=pk, status=Work.Status.FAILED)
        superseded = list(queries.superseded_failures(batch).values_list("pk", flat=True))
        count = failed.exclude(pk__in=superseded).update(status=Work.Status.QUEUED, error="", detail="", tries=0)
        Draft.objects.filter(batch=pk, status=Work.Status.QUEUED, round__status=Work.Status.FAILED).update(round=None)
        return count

    def endpoints(self, job: Batch) -> QuerySet[Endpoint]:
        return endpoints_queries.endpoints_of(job)

    def is_open(self, pk: int) -> bool:
        return super().is_open(pk) or bulk_samples.has_waiting_drafts(self.model.objects.get(pk=pk))

    def clean_up(self) -> None:
        """Also make samples of the drafts that a worker left without one."""
        for batch in Batch.objects.filter(benchmark__in=registry.names()).exclude(status__in=OVER):
            bulk_samples.make_waiting_samples(batch)
        requeue_expired(BarrierRound)

    def discard_waiting(self, pk: int) -> None:
        services.discard_waiting(pk)

    def endpoint_lists(self) -> Mapping[str, Subquery]:
        return {"roles": endpoints_listed(BatchRole.objects.filter(batch=OuterRef("pk")))}

    def repeat_settings(self, job: Batch, given: Mapping[str, Any]) -> dict[str, Any]:
        return launch.repeat_settings(job, given)

    def list_address(self) -> str:
        return reverse("generation:batches")

    def bars(self, job: Batch) -> Iterable[ProgressBar]:
        progress = self.progress(job)
        return [ProgressBar("batch", _("Drafts"), progress.ended, progress.total)]

    def tiles(self, progress: Progress) -> Iterable[Tile]:
        done, unfinished, dropped, failed = super().tiles(progress)
        if progress.dropped:
            dropped = replace(dropped, href="#dropped")
        if progress.failed:
            failed = replace(failed, href="#failed")
        return [done, unfinished, dropped, failed]

    def cancel_warning(self, progress: Progress) -> str:
        unfinished = ngettext(
            "%(n)s draft is unfinished and will not be completed. Its record can be used by another batch.",
            "%(n)s drafts are unfinished and will not be completed. Their records can be used by another batch.",
            progress.open,
        )
        kept = _("Samples already made are kept. Samples that physicians send back are not regenerated.")
        return f"{unfinished % {'n': progress.open}} {kept}"


BATCHES = BatchKind()
