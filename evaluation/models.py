"""Runs, responses, judgments and votes.

Raw answers and verdicts are stored; all numbers derive from them.
"""

from pathlib import Path

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from evaluation import errors
from generation.models import Call, Endpoint, ProviderBatch, Release, ReleasedRubric, ReleasedSample
from generation.models.jobs import Job
from generation.models.work import Work, work_constraints
from review.models import Case, User

MAX_SEED = 2**31 - 1  # the largest positive integer column value on both databases


class Run(Job):
    """One evaluation of endpoints on a release, decided by judges, or by code if none is needed.

    `variants`: the names of the data sets to ask; empty: all.
    `origin`: IMPORTED if the verdicts were made elsewhere. Such a run never asks a model, and
    `study` is its name.
    `responses_total`, `rubrics_total`: the final number of responses and judgments. They are
    estimated from counts until all rows exist (`RunEndpoint.filled_to`), and exact afterwards.
    `…_done`: how many of the rows with ids up to `…_done_to` are done
    (`evaluation.runs.rows.tallies`).
    `panel`: how several votes become one verdict; empty: one judge decides once, without votes.
    `judge`: the first judge; the others are `RunJudge` rows. `judges_left_out`: those without which
    the run goes on, by endpoint: `at` and `because` (`evaluation.runs.leaving`).
    `title`, `note`: what people call it and wrote down about it; no result depends on them.
    `answers_each`: answers per question. `judgments_each`: judgments per judge and criterion.
    `policies`: fixed texts that the first judge judges as if models had given them, on a sample of
    each data set; they are no models of the run.
    """

    class Origin(models.TextChoices):
        LAUNCHED = "launched", _("launched here")
        IMPORTED = "imported", _("imported")

    class Judging(models.TextChoices):
        PER_RUBRIC = "per-rubric", _("one call per rubric")
        PER_SAMPLE = "per-sample", _("one call per sample with all its rubrics")

    class Transport(models.TextChoices):
        LIVE = "live", _("live, one request at a time")
        BATCH = "batch", _("provider batches where the endpoint supports them, each answered within a day")

    class Sampling(models.TextChoices):
        """Whose temperature, top_p and token limit apply to the models under test."""

        PROTOCOL = "protocol", _("benchmark settings; endpoint settings where the benchmark has none")
        ENDPOINT = "endpoint", _("endpoint settings only")

    class Panel(models.TextChoices):
        MAJORITY = "majority", _("majority of the judges")
        UNANIMITY = "unanimity", _("unanimous judges only")
        ESCALATION = "escalation", _("two judges; a third of another model family where they differ")

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="runs")
    judge = models.ForeignKey(Endpoint, on_delete=models.PROTECT, null=True, blank=True, related_name="judged_runs")
    endpoints = models.ManyToManyField(Endpoint, through="RunEndpoint", related_name="runs")
    judges_left_out = models.JSONField(default=dict, blank=True)
    judge_temperature = models.FloatField(null=True, blank=True)
    judging = models.CharField(max_length=10, choices=Judging, default=Judging.PER_RUBRIC)
    transport = models.CharField(max_length=5, choices=Transport, default=Transport.LIVE)
    sampling = models.CharField(max_length=8, choices=Sampling, default=Sampling.PROTOCOL)
    seed = models.PositiveIntegerField(default=0)
    variants = models.JSONField(default=list, blank=True)
    endpoint_settings = models.JSONField(default=dict, blank=True)  # by endpoint, as of the launch
    plan = models.JSONField(default=dict, blank=True)  # {} for runs older than plans
    policies = models.JSONField(default=list, blank=True)
    policy_samples = models.PositiveSmallIntegerField(default=50, db_default=50)
    responses_total = models.PositiveIntegerField(default=0)
    rubrics_total = models.PositiveIntegerField(default=0)
    responses_done = models.PositiveIntegerField(default=0, editable=False)
    responses_done_to = models.PositiveBigIntegerField(default=0, editable=False)
    judgments_done = models.PositiveIntegerField(default=0, editable=False)
    judgments_done_to = models.PositiveBigIntegerField(default=0, editable=False)
    votes_done = models.PositiveIntegerField(default=0, editable=False)
    votes_done_to = models.PositiveBigIntegerField(default=0, editable=False)
    panel = models.CharField(max_length=10, choices=Panel, blank=True)
    answers_each = models.PositiveSmallIntegerField(default=1)
    title = models.CharField(max_length=120, blank=True, default="", db_default="")
    note = models.TextField(blank=True, default="", db_default="")
    judgments_each = models.PositiveSmallIntegerField(default=1)
    origin = models.CharField(max_length=8, choices=Origin, default=Origin.LAUNCHED)
    study = models.CharField(max_length=100, blank=True, default="")
    # How many samples of its release are withdrawn, and how many marks of tools it has; once read.
    marks: tuple[int, int] | None = None

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(origin="launched") | Q(origin="imported") & ~Q(study=""), name="run_origin_known"
            ),
            models.UniqueConstraint(
                fields=["release", "study"], condition=Q(origin="imported"), name="run_imported_named_once"
            ),
            models.CheckConstraint(condition=Q(judging__in=["per-rubric", "per-sample"]), name="run_judging_known"),
            models.CheckConstraint(condition=Q(transport__in=["live", "batch"]), name="run_transport_known"),
            models.CheckConstraint(condition=Q(sampling__in=["protocol", "endpoint"]), name="run_sampling_known"),
            models.CheckConstraint(
                condition=Q(panel__in=["", "majority", "unanimity", "escalation"]), name="run_panel_known"
            ),
            models.CheckConstraint(
                condition=Q(answers_each__gte=1, judgments_each__gte=1)
                & (Q(judgments_each=1) | ~Q(panel=""))
                & (Q(panel="") | Q(judge__isnull=False)),
                name="run_repeats_and_panel",
            ),
        ]
        ordering = [F("id").desc()]

    def __str__(self) -> str:
        return f"Run {self.pk}"

    @property
    def prompts(self) -> str:
        """The prompt set as NAME@VERSION; "" for the benchmark's prompts."""
        return str(self.prompt_set or "")


class RunEndpoint(models.Model):
    """A model under test in a run. Primary keys keep the order in which the models were named.

    `filled_to`: the position in the release up to which response rows exist; null: for the whole
    release. It is written together with the rows.
    `left_out_at`: since when the run goes on without it, and why (`evaluation.runs.leaving`).
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tested", db_index=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    filled_to = models.PositiveIntegerField(null=True, blank=True)
    left_out_at = models.DateTimeField(null=True, blank=True)
    left_out_because = models.TextField(blank=True)  # a text, or the code of an error

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "endpoint"], name="run_endpoint_once")]


class RunJudge(models.Model):
    """A further judge of a run, after `Run.judge`. Primary keys keep the order of the panel."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="further_judges", db_index=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "endpoint"], name="run_judge_once")]


class ModelWork(Work):
    """A row whose result comes from a model call.

    `via`: the provider batch with its request. Once that batch is collected, the row is processed
    like a live one and finds its reply in the ledger.
    `live`: the row skips provider batches, because the ledger already has its reply or because it
    cannot be asked (a lane then records its outcome).
    """

    via = models.ForeignKey(ProviderBatch, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    live = models.BooleanField(default=False)

    class Meta:
        abstract = True


class Response(ModelWork):
    """A model's answer to one question about a sample.

    `about`: choices made while building the question (`Ask.about`).
    `repeat`: numbers the answers of one model to the same question, from 0.
    `outcome`: how it ended; '' until then.
    `like_reasoning`: the text still begins like reasoning, so the judge may have read some.
    `after`: the earlier answer in its question. This response waits until that has ended.
    `call`: the ledger entry with its text.
    """

    class Outcome(models.TextChoices):
        ANSWERED = "answered", _("answered")
        REFUSED = "refused", _("refused")
        EMPTY = "empty", _("empty")
        FILTERED = "filtered", _("filtered by the provider")
        CUT_OFF = "cut_off", _("cut off")
        FAILED = "failed", _("failed")
        UNKNOWN = "unknown", _("ended in an unknown way")
        UNASKED = "unasked", _("not asked: no usable earlier answer")

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="responses")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    sample = models.ForeignKey(ReleasedSample, on_delete=models.PROTECT, related_name="responses")
    variant = models.CharField(max_length=40, blank=True)
    repeat = models.PositiveSmallIntegerField(default=0)
    after = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="followers")
    outcome = models.CharField(max_length=8, choices=Outcome, blank=True)
    about = models.JSONField(default=dict, blank=True)
    text = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    like_reasoning = models.BooleanField(default=False, db_default=False)
    call = models.ForeignKey(Call, on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        constraints = [
            *work_constraints("response"),
            models.UniqueConstraint(fields=["run", "endpoint", "sample", "variant", "repeat"], name="response_once"),
            models.CheckConstraint(
                condition=Q(status__in=["done", "failed"]) & ~Q(outcome="")
                | ~Q(status__in=["done", "failed"]) & Q(outcome=""),
                name="response_outcome_iff_ended",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "status", "id"]),
            models.Index(fields=["status", "lease_until"]),
            models.Index(fields=["run", "outcome", "endpoint"]),
            models.Index(fields=["run", "endpoint"], name="response_like_reasoning", condition=Q(like_reasoning=True)),
        ]


class Judgment(ModelWork):
    """The verdict on one rubric for one response.

    FAILED means unjudged; unjudged criteria are shown and counted, never guessed.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="judgments")
    response = models.ForeignKey(Response, on_delete=models.PROTECT, related_name="judgments", db_index=False)
    rubric = models.ForeignKey(ReleasedRubric, on_delete=models.PROTECT, related_name="judgments")
    verdict = models.CharField(max_length=20, blank=True)
    explanation = models.TextField(blank=True)

    class Meta:
        constraints = [
            *work_constraints("judgment"),
            models.UniqueConstraint(fields=["response", "rubric"], name="judgment_once"),
            models.CheckConstraint(
                condition=Q(status="done") & ~Q(verdict="") | ~Q(status="done") & Q(verdict=""),
                name="judgment_verdict_iff_done",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "status", "id"]),
            models.Index(fields=["status", "lease_until"]),
            models.Index(fields=["run", "rubric", "response"]),  # the order of reports
            models.Index(fields=["run", "verdict", "rubric", "response"]),
        ]


class ResponseScore(models.Model):
    """The scores that code assigned to a response on a rubric. Written once, with the judgment.

    `names`: names of the protocol's scores, separated by spaces; `numbers`: their values, in the
    same order. All scores share one row, since a run may have a million of these.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="scores")
    response = models.ForeignKey(Response, on_delete=models.PROTECT, related_name="scores", db_index=False)
    rubric = models.ForeignKey(ReleasedRubric, on_delete=models.PROTECT, related_name="+", db_index=False)
    names = models.CharField(max_length=200)
    numbers = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["response", "rubric"], name="score_once")]


class VoidVerdict(models.Model):
    """A mark that verdicts on a response do not count, by the tool that made them or a person.

    Written once. `rubric`: null if it is about all verdicts on the response. `reason`: one of
    `evaluation.numbers.rules.VOIDS`. `at`: since when it is known here.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="voids")
    response = models.ForeignKey(Response, on_delete=models.PROTECT, related_name="voids", db_index=False)
    rubric = models.ForeignKey(ReleasedRubric, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    reason = models.CharField(max_length=12)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["response", "rubric"], name="void_once"),
            models.UniqueConstraint(fields=["response"], condition=Q(rubric=None), name="void_response_once"),
            models.CheckConstraint(
                condition=Q(reason__in=["invalidated", "limit", "edited", "superseded", "cancelled"]),
                name="void_reason_known",
            ),
        ]


class Vote(Work):
    """One judge's verdict on one rubric, an input to the judgment of a panel.

    `repeat`: numbers the judge's votes on the rubric, from 0. The judgment stays queued until its
    last vote has ended.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="votes", db_index=False)
    judgment = models.ForeignKey(Judgment, on_delete=models.CASCADE, related_name="votes", db_index=False)
    judge = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    repeat = models.PositiveSmallIntegerField(default=0)
    verdict = models.CharField(max_length=20, blank=True)
    explanation = models.TextField(blank=True)

    class Meta:
        constraints = [
            *work_constraints("vote"),
            models.UniqueConstraint(fields=["judgment", "judge", "repeat"], name="vote_once"),
            models.CheckConstraint(
                condition=Q(status="done") & ~Q(verdict="") | ~Q(status="done") & Q(verdict=""),
                name="vote_verdict_iff_done",
            ),
        ]
        indexes = [models.Index(fields=["run", "status", "id"]), models.Index(fields=["status", "lease_until"])]


class PolicyAnswer(Work):
    """An answer beside those that count, and what the first judge says of it.

    It is a fixed text; `policy` is its name in `evaluation.policies`. Or it belongs to a model's
    `response`, and `policy` is one of `Again`: the model asked the same again, or the same answer
    judged again. `verdicts`: key of a rubric -> `verdict`, and `error` where the judge gave none. A
    row with such an error has failed and may be retried.
    """

    class Again(models.TextChoices):
        """What is done a second time, to see how often a verdict turns."""

        ANSWERS = "answers", _("Ask the models again")
        VERDICTS = "verdicts", _("Judge the same answers again")

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="policy_answers", db_index=False)
    sample = models.ForeignKey(ReleasedSample, on_delete=models.PROTECT, related_name="+")
    variant = models.CharField(max_length=40, blank=True)
    policy = models.CharField(max_length=20)
    response = models.ForeignKey(
        Response, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    text = models.TextField(blank=True)
    verdicts = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            *work_constraints("policy_answer"),
            models.UniqueConstraint(
                fields=["run", "policy", "sample", "variant"],
                condition=models.Q(response=None),
                name="policy_answer_once",
            ),
            models.UniqueConstraint(fields=["response", "policy"], name="asked_again_once"),
        ]
        indexes = [models.Index(fields=["run", "status", "id"]), models.Index(fields=["status", "lease_until"])]


class Validation(models.Model):
    """The draw of responses that physicians judge, blind, to measure a run's judge.

    Written once.
    """

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="validation")
    seed = models.PositiveIntegerField(default=0)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()


class ValidationItem(models.Model):
    """A response drawn for a validation. Written once.

    `weight`: the inverse of the share of its stratum that was drawn.
    """

    validation = models.ForeignKey(Validation, on_delete=models.PROTECT, related_name="items", db_index=False)
    response = models.ForeignKey(Response, on_delete=models.PROTECT, related_name="+")
    case = models.OneToOneField(Case, on_delete=models.PROTECT, related_name="+")
    weight = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["validation", "response"], name="validation_item_once"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="validation_item_weight"),
        ]


class Publication(models.Model):
    """A period in which anybody may read the results of a release; kept after a withdrawal."""

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="publications")
    published_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    published_at = models.DateTimeField()
    withdrawn_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["release"], condition=Q(withdrawn_at__isnull=True), name="publication_once_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(withdrawn_at__isnull=True) | Q(withdrawn_at__gte=F("published_at")),
                name="publication_withdrawn_later",
            ),
        ]


class IncompletePublication(models.Model):
    """Incomplete results of a model that a public page shows, while the publication lasts.

    `settled`, `criteria`: the coverage that was named when they were published.
    """

    publication = models.ForeignKey(Publication, on_delete=models.PROTECT, related_name="incomplete")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="+")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    settled = models.PositiveIntegerField()
    criteria = models.PositiveIntegerField()
    published_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    published_at = models.DateTimeField()
    withdrawn_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["publication", "run", "endpoint"],
                condition=Q(withdrawn_at__isnull=True),
                name="incomplete_published_once_at_a_time",
            ),
            models.CheckConstraint(condition=Q(settled__lte=F("criteria")), name="incomplete_coverage"),
        ]


class ResultsImport(Work):
    """One import of a file of verdicts made elsewhere.

    Rows that exist already are not added again, so an interrupted import simply starts over.
    `sha256`: checksum of the release, as stated in the results.
    `model_names`: the endpoints of models that the file names otherwise.
    `run`: the run with the imported results; null until the import has ended, or if nothing could
    be imported.
    `without_verdict`: rubrics of imported answers for which the file has no verdict.
    `remarks`: what the file says about itself as a whole, and what was decided about it.
    """

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="+")
    study = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64, blank=True)
    model_names = models.JSONField(default=dict)  # name in the file -> endpoint
    file_name = models.CharField(max_length=300)
    path = models.CharField(max_length=1000)
    rows = models.PositiveIntegerField(default=0)
    added = models.PositiveIntegerField(default=0)
    known = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    without_verdict = models.PositiveIntegerField(default=0)
    remarks = models.JSONField(default=list)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = work_constraints("results_import")

    FOLDER = "results"  # of the uploaded files, below MEDIA_ROOT

    @property
    def file(self) -> Path:
        """The file to read: an upload lies in this site's own folder, also after a move."""
        path = Path(self.path)
        if path.parent.name == self.FOLDER:
            return Path(settings.MEDIA_ROOT) / self.FOLDER / path.name
        return path

    @property
    def reason(self) -> str:
        """Why it failed, in the reader's language."""
        error_class = getattr(errors, self.error, None)
        if error_class:
            return str(error_class(self.detail))
        return self.detail


class ResultsRefusal(models.Model):
    """A row of the file that was refused: its place in the file and the reason."""

    of = models.ForeignKey(ResultsImport, on_delete=models.CASCADE, related_name="refusals")
    where = models.CharField(max_length=400)
    reason = models.TextField()
