"""Runs as a kind of job."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Concat
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from evaluation import errors
from evaluation.models import Judgment, PolicyAnswer, Response, Run, RunEndpoint, RunJudge, Vote
from evaluation.runs import queries, services, trials, work
from evaluation.runs.queries import RunProgress
from evaluation.runs.rows import cache_warming, queues, tallies
from generation.engine.task_queue import requeue_expired
from generation.jobs.kinds import JobKind, ProgressBar, Tile, Trial
from generation.jobs.live_status import endpoints_listed
from generation.models import Call, Endpoint, ProviderBatch
from generation.samples.queries import sees_held_out, visible_to
from review.common.site_pause import paused_since
from review.rules.permissions import Can


class RunKind(JobKind[Run]):
    """Runs work on responses and their judgments; requests may wait in provider batches."""

    model = Run
    rows: Mapping[str, Any] = {"responses": Response, "judgments": Judgment, "votes": Vote, "policies": PolicyAnswer}
    titles = (gettext_lazy("Run %(n)s"), gettext_lazy("Runs"))
    own_page = True
    tallied = tuple(tallies.ROWS)
    control = Can.MEASURE
    read = Can.READ_RESULTS
    unknown = errors.UnknownRun

    def visible_calls(self, job: Run, calls: QuerySet[Call], reader: object) -> QuerySet[Call]:
        if sees_held_out(reader) or not job.release.held_out_count:
            return calls
        about: dict[str, QuerySet[Any]] = {
            "response": visible_to(reader, Response.objects.filter(run=job), "sample"),
            "judgment": visible_to(reader, Judgment.objects.filter(run=job), "rubric__sample"),
            "vote": visible_to(reader, Vote.objects.filter(run=job), "judgment__rubric__sample"),
            "policyanswer": visible_to(reader, PolicyAnswer.objects.filter(run=job), "sample"),
        }
        visible = Q()
        for name, rows in about.items():
            subject = Concat(Value(f"{name}:"), Cast("pk", CharField()))
            visible |= Q(subject__in=rows.order_by().annotate(subject=subject).values("subject"))
        return calls.filter(visible)

    def provider_batches(self, job: Run, reader: object) -> QuerySet[ProviderBatch]:
        """The provider batches of a run, oldest first, with the server's `words` for `reader`."""
        words: F | Value = Value("")
        if self.shows_words(reader):
            words = F("detail")
        return queries.provider_batches_of(job).annotate(words=words)

    def is_open(self, pk: int) -> bool:
        """Whether rows are open or still missing."""
        return queues.unfilled_endpoints(pk).exists() or super().is_open(pk)

    def unsettled(self) -> list[int]:
        return [pk for pk in super().unsettled() if not queues.unfilled_endpoints(pk).exists()]

    def jobs(self) -> QuerySet[Run]:
        return super().jobs().select_related("release", "judge")

    def work(self, pk: int) -> int:
        imported = Run.objects.filter(pk=pk, origin=Run.Origin.IMPORTED).exists()
        # Imported results need no calls.
        if imported:
            ran = 0
        else:
            ran = work.work_on_run(pk)
        tallies.tally(pk)
        cache_warming.warm(pk)
        return ran

    def first_result(self, job: Run) -> str:
        sample = queries.first_sample(job)
        if sample:
            return reverse("evaluation:sample", args=[job.pk, sample.key])
        return ""

    def trials(self, job: Run) -> Iterable[Trial]:
        return trials.trials(job)

    def endpoints(self, job: Run) -> QuerySet[Endpoint]:
        return queries.endpoints_of(job)

    def with_work(self, jobs: QuerySet[Run]) -> QuerySet[Run]:
        return queues.with_work(jobs)

    def errands(self) -> list[int]:
        """Runs with due provider batches, and large finished runs without a cached report."""
        if paused_since():
            return []
        return [*queues.runs_with_due_batches(), *cache_warming.runs_to_warm()]

    def run_errand(self, pk: int) -> None:
        work.follow_batches(pk)
        tallies.tally(pk)
        cache_warming.warm(pk)

    def clean_up(self) -> None:
        requeue_expired(ProviderBatch)
        services.release_blocked_rows()
        tallies.tally_open_runs()

    def retry(self, pk: int) -> int:
        return services.retry_failed(pk)

    def repeat_settings(self, job: Run, given: Mapping[str, Any]) -> dict[str, Any]:
        return services.repeat_settings(job, given)

    def endpoint_lists(self) -> Mapping[str, Subquery]:
        return {
            "tested": endpoints_listed(RunEndpoint.objects.filter(run=OuterRef("pk"))),
            "judge": endpoints_listed(Endpoint.objects.filter(pk=OuterRef("judge")), ""),
            "judges": endpoints_listed(RunJudge.objects.filter(run=OuterRef("pk"))),
        }

    def progress(self, job: Run) -> RunProgress:
        responses, judgments, votes, policies = self.parts(job)
        missing = max(0, job.responses_total - responses.total)
        responses = replace(responses, queued=responses.queued + missing)
        return RunProgress(responses, judgments, votes, policies, job.rubrics_total)

    def list_address(self) -> str:
        return reverse("evaluation:runs")

    def bars(self, job: Run) -> Iterable[ProgressBar]:
        progress = self.progress(job)
        bars = [
            ProgressBar("responses", _("Responses"), progress.responses.ended, progress.responses.total),
            ProgressBar("judgments", _("Judgments"), progress.judgments.ended, progress.rubrics_total),
        ]
        if job.panel:
            bars.append(ProgressBar("votes", _("Votes"), progress.votes.ended, progress.votes.total))
        if policies := progress.policies.total:
            bars.append(ProgressBar("policies", _("Fixed texts and repetitions"), progress.policies.ended, policies))
        return bars

    def tiles(self, progress: RunProgress) -> Iterable[Tile]:
        return [
            Tile(_("in progress"), progress.running),
            Tile(_("queued"), progress.queued),
            Tile(_("failed responses"), progress.responses.failed),
            Tile(_("unjudged"), progress.judgments.failed),
        ]

    def cancel_warning(self, progress: RunProgress) -> str:
        return _("Existing responses and judgments are kept. Unfinished items count as not judged.")

    def page_notes(self, job: Run) -> Mapping[str, Any]:
        """Whether models of the run, and reviewers of its release, are simulated."""
        return {
            "simulated": queries.is_simulated(job),
            "simulated_reviewers": bool(job.release.simulated_samples),
        }


RUNS = RunKind()
