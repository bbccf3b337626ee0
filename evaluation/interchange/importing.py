"""Imports verdicts made elsewhere as a run, matched by the keys of samples and rubrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from evaluation import errors, registry
from evaluation.interchange import several_judges
from evaluation.interchange.files import Entry, RefusedRow, VerdictRow
from evaluation.interchange.rows import chunked
from evaluation.models import Judgment, Response, Run, RunEndpoint
from evaluation.protocol import Protocol
from evaluation.runs.queries import count_rubrics
from evaluation.runs.rows import tallies
from evaluation.runs.settings import RELEASE_HELP
from evaluation.verdicts.selection import NO_RESPONSE, NOT_JUDGED
from generation.endpoints import services as endpoints_services
from generation.jobs.settings import setting, settings_class
from generation.llm.errors import BrokenReply
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from review.models import User

Status = Work.Status
CHUNK = 5000  # rows stored together
MAX_REFUSALS = 1000  # stored; all are counted
MAX_STUDY_NAME = 100  # characters
# The errors of judgments without a verdict, by the outcome of their response.
ERROR_BY_OUTCOME = {"unparsed": BrokenReply.__name__, "refused": NOT_JUDGED, "cut_off": NOT_JUDGED}
FAILED_ELSEWHERE = "FailedElsewhere"  # the error of responses that failed where they were made

Question = tuple[int, int, int]  # endpoint, sample, repeat
Verdict = several_judges.Verdict
SOLE_JUDGE = 0  # the judge of every verdict in a study with one judge, or with none named


@dataclass(slots=True)
class ImportResult:
    """The result of an import, or its progress.

    `run`: None if nothing of a new study could be imported.
    `without_verdict`: rubrics of imported answers for which the files have no verdict.
    """

    run: Run | None
    rows: int = 0
    added: int = 0
    known: int = 0
    refused: int = 0
    without_verdict: int = 0
    refusals: list[RefusedRow] = field(default_factory=list)

    def refuse(self, where: str, reason: str) -> None:
        self.refused += 1
        if len(self.refusals) < MAX_REFUSALS:
            self.refusals.append(RefusedRow(where, reason))


@dataclass(slots=True)
class _Answer:
    """A response with its verdicts by rubric and judge.

    `pk`: None until it is stored. `new_verdicts`: from the current chunk, to be stored.
    `text_added`: whether a later row brought the text of a stored response.
    """

    outcome: str
    text: str
    pk: int | None = None
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    # rubric, judge, verdict, explanation
    new_verdicts: list[tuple[int, int, Verdict, str]] = field(default_factory=list)
    text_added: bool = False


@settings_class
class StudySettings:
    """Where verdicts made elsewhere belong."""

    release: str = setting(_("Release"), RELEASE_HELP, most=110, pattern=r"^[-\w]+(@\d{1,9})?\Z")
    study: str = setting(
        _("Study"),
        _("Files with the same release and study name become one run. Verdicts are never added twice."),
        most=100,
        option="--name",
    )
    sha256: str = setting(
        _("Checksum of the release (SHA-256)"),
        _("If you enter it, the file is refused unless the checksums match."),
        pattern=r"^[0-9a-fA-F]{64}\Z",
        default="",
    )
    models: str = setting(
        _("Names of models"),
        _(
            "One per line: the name in the file, =, and the endpoint. Only where they differ. For logged samples of "
            "lm-eval, which name no model: = and the endpoint."
        ),
        most=10_000,
        rows=3,
        default="",
    )


def check_study(release: Release, study: str, sha256: str) -> str:
    """The cleaned name of a study, if results of it can be imported for `release`.

    Raises OtherRelease, NoCriteria, WrongResults.
    """
    if sha256 and sha256.lower() != release.sha256:
        raise errors.OtherRelease(f"{sha256[:12]}…, not {release.sha256[:12]}…")
    study = study.strip()
    if not 0 < len(study) <= MAX_STUDY_NAME:
        raise errors.WrongResults("the study needs a name of at most 100 characters")
    verdict_words(registry.protocol(release.benchmark))
    return study


def model_names(lines: Iterable[str]) -> dict[str, str]:
    """Endpoints by the names that results use, from lines `NAME=ENDPOINT`.

    NAME may be empty: the model of rows without one. Raises WrongResults, which names the line.
    """
    names: dict[str, str] = {}
    for line in (line.strip() for line in lines):
        name, sign, endpoint = (part.strip() for part in line.rpartition("="))
        if line and not (sign and endpoint):
            raise errors.WrongResults(f"models: {line[:100]} is not NAME=ENDPOINT")
        if line and names.setdefault(name, endpoint) != endpoint:
            raise errors.WrongResults(f"models: {name[:100]} is named twice")
    return names


def import_results(
    entries: Iterable[Entry],
    *,
    release: Release,
    study: str,
    sha256: str = "",
    models: Mapping[str, str] = MappingProxyType({}),
    actor: User | None = None,
    on_chunk: Callable[[ImportResult], object] = lambda _progress: None,
) -> ImportResult:
    """Add verdicts to the run of `study` on `release`, which is created with the first of them.

    Verdicts that exist already are counted as known. Rows that cannot be matched, or that
    contradict others, are refused one by one.
    `sha256`: checksum of the release, as stated in the results.
    `models`: the endpoints of models and judges that the results name otherwise; '' for rows
    without a model.
    `on_chunk` gets the progress in the transaction of each chunk of rows; an exception from it
    undoes the chunk.
    Raises the errors of `check_study`, and WrongResults while `entries` are read; earlier chunks
    are then kept.
    """
    study = check_study(release, study, sha256)
    protocol = registry.protocol(release.benchmark)
    met, not_met = verdict_words(protocol)
    importer = None
    for chunk in chunked(entries, CHUNK):
        if importer is None:
            verdicts: dict[bool, Verdict] = {True: (met, ""), False: (not_met, "")}
            importer = _Importer(_run_of(release, study, actor), protocol, verdicts, models)
        importer.store(chunk, on_chunk)
    if importer is None:
        raise errors.WrongResults("it has no rows")
    importer.finish()
    return importer.result


def _run_of(release: Release, study: str, actor: User | None) -> Run:
    now = timezone.now()
    return Run.objects.get_or_create(
        release=release,
        origin=Run.Origin.IMPORTED,
        study=study,
        defaults={"status": Run.Status.FINISHED, "created_by": actor, "created_at": now, "finished_at": now},
    )[0]


def verdict_words(protocol: Protocol) -> tuple[str, str]:
    """The verdicts on a criterion that is met, and on one that is not.

    They are the two verdicts that the first rate counts, for and against a model. Raises NoCriteria
    if there is no judge, or if it does not decide between two such verdicts.
    """
    counted = set(protocol.rates[0].counted)
    failing = counted & protocol.failing_verdicts
    if protocol.judge is None or len(failing) != 1 or len(counted) != 2:
        raise errors.NoCriteria
    return (counted - failing).pop(), failing.pop()


class _Importer:
    """Stores chunks of rows, each in one transaction and with a few queries."""

    def __init__(
        self, run: Run, protocol: Protocol, verdicts: Mapping[bool, Verdict], names: Mapping[str, str]
    ) -> None:
        self.result = ImportResult(run)
        self._run, self._verdicts, self._names = run, verdicts, names
        self._variants = {dataset.task: dataset.variant for dataset in protocol.datasets}
        self._samples: dict[str, tuple[int, dict[str, int]]] = {}  # key -> sample, rubrics by key
        self._variant_of: dict[int, str] = {}  # sample -> variant in which it is asked
        # name -> endpoint, or the reason to refuse it
        self._models: dict[str, int | str] = {}
        self._judges: dict[str, int | str] = {}
        self._tested = set(run.tested.values_list("endpoint", flat=True))

    @transaction.atomic
    def store(self, chunk: list[Entry], on_chunk: Callable[[ImportResult], object]) -> None:
        # The lock admits one import into a run at a time.
        self._run = Run.objects.select_for_update(of=("self",)).get(pk=self._run.pk)
        self.result.rows += len(chunk)
        self._load_samples({entry.sample for entry in chunk if isinstance(entry, VerdictRow)})
        matched = list(self._matched(chunk))
        answers = self._load_answers({question for question, *_rest in matched})
        for question, rubric, judge, row in matched:
            # Rows before the first of the second judge belong to the first judge.
            voter = (judge or self._run.judge_id or SOLE_JUDGE) if self._run.panel else SOLE_JUDGE
            self._add(answers, question, (rubric, voter), row)
        self._insert(answers)
        self._update_run(answers)
        on_chunk(self.result)

    @transaction.atomic
    def finish(self) -> None:
        """Write the totals of the run, or delete it if it has no judgment."""
        run = Run.objects.select_for_update(of=("self",)).get(pk=self._run.pk)
        if not run.judgments.exists():
            run.tested.all().delete()
            run.delete()
            self.result.run = None
            return
        run.responses_total, run.rubrics_total = run.responses.count(), run.judgments.count()
        run.save(update_fields=["responses_total", "rubrics_total"])
        expected = count_rubrics(run) if self.result.added else run.rubrics_total
        tallies.tally(run.pk)
        self.result.without_verdict = max(0, expected - run.rubrics_total)
        self.result.run = run

    def _update_run(self, answers: Mapping[Question, _Answer]) -> None:
        """Update the run after a chunk, so that cached numbers expire even if the import stops."""
        if added := sum(len(answer.new_verdicts) for answer in answers.values()):
            self._run.rubrics_total += 0 if self._run.panel else added
            self._run.finished_at = timezone.now()
            self._run.save(update_fields=["rubrics_total", "finished_at"])

    # ------------------------------------------------------------------------------------- matching

    def _load_samples(self, keys: set[str]) -> None:
        missing = keys - self._samples.keys()
        samples = ReleasedSample.objects.filter(release=self._run.release_id, key__in=missing)
        rubrics_of: dict[int, dict[str, int]] = {}
        for pk, key, task in samples.values_list("pk", "key", "task"):
            self._samples[key] = pk, rubrics_of.setdefault(pk, {})
            self._variant_of[pk] = self._variants.get(task, "")
        rubrics = ReleasedRubric.objects.filter(sample__in=rubrics_of).values_list("sample_id", "key", "pk")
        for sample, key, pk in rubrics:
            rubrics_of[sample][key] = pk

    def _matched(self, chunk: list[Entry]) -> Iterator[tuple[Question, int, int, VerdictRow]]:
        """The rows of this release, with question, rubric and judge. Others are refused."""
        for entry in chunk:
            if isinstance(entry, RefusedRow):
                self.result.refuse(entry.where, entry.reason)
                continue
            match = self._match(entry)
            if isinstance(match, str):
                self.result.refuse(entry.where, match)
            else:
                yield *match, entry

    def _match(self, row: VerdictRow) -> tuple[Question, int, int] | str:
        """Question, rubric and judge of a row, or the reason to refuse it."""
        if row.release and row.release.lower() != self._run.release.sha256:
            return "release: not the checksum of this release"
        sample = self._samples.get(row.sample)
        if sample is None:
            return f"sample {row.sample[:100]}: not in this release"
        rubric = sample[1].get(row.rubric)
        if rubric is None:
            return f"rubric {row.rubric[:100]}: not a rubric of {row.sample[:100]}"
        endpoint = self._model(row.model)
        if isinstance(endpoint, str):
            return endpoint
        judge = self._judge(row.judge)
        return judge if isinstance(judge, str) else ((endpoint, sample[0], row.repeat), rubric, judge)

    def _model(self, name: str) -> int | str:
        """The endpoint for a model under test, or the reason to refuse it."""
        if name in self._models:
            return self._models[name]
        known_as = self._names.get(name, name)
        if not known_as:
            return "model: missing; name it when you import the file"
        endpoint = endpoints_services.get_or_create_endpoint(known_as)
        self._models[name] = endpoint if isinstance(endpoint, str) else endpoint.pk
        if not isinstance(endpoint, str) and endpoint.pk not in self._tested:
            self._tested.add(endpoint.pk)
            RunEndpoint.objects.create(run=self._run, endpoint=endpoint)
            self._run.endpoint_settings[str(endpoint.pk)] = {"model": endpoint.model}
            self._run.save(update_fields=["endpoint_settings"])
        return self._models[name]

    def _judge(self, name: str) -> int | str:
        """The endpoint for a judge, or the reason to refuse it.

        The second judge turns verdicts into votes.
        """
        if not name:
            return "judge: missing, in a study with several judges" if self._run.panel else SOLE_JUDGE
        if name in self._judges:
            return self._judges[name]
        known_as = self._names.get(name, name)
        known = several_judges.judge_named(self._run, known_as)
        judge = known or endpoints_services.get_or_create_endpoint(known_as)
        self._judges[name] = judge.replace("model", "judge", 1) if isinstance(judge, str) else judge.pk
        if isinstance(judge, Endpoint) and self._run.judge is None:
            self._run.judge = judge
            self._run.save(update_fields=["judge"])
        elif isinstance(judge, Endpoint) and several_judges.judge_named(self._run, judge.name) is None:
            several_judges.add_judge(self._run, judge)
        return self._judges[name]

    # -------------------------------------------------------------------------------------- storing

    def _load_answers(self, questions: set[Question]) -> dict[Question, _Answer]:
        answers: dict[Question, _Answer] = {}
        by_pk: dict[int, _Answer] = {}
        endpoints, samples = ({question[place] for question in questions} for place in (0, 1))
        rows = Response.objects.filter(run=self._run, endpoint__in=endpoints, sample__in=samples)
        columns = ("pk", "endpoint_id", "sample_id", "repeat", "outcome", "text")
        for pk, endpoint, sample, repeat, outcome, text in rows.values_list(*columns):
            if (endpoint, sample, repeat) in questions:
                by_pk[pk] = answers[endpoint, sample, repeat] = _Answer(outcome, text, pk)
        if self._run.panel:
            for response, rubric, judge, verdict, error in several_judges.votes_on(self._run, by_pk):
                by_pk[response].verdicts[rubric, judge] = (verdict, error)
            return answers
        judged = Judgment.objects.filter(response__in=by_pk).values_list("response_id", "rubric_id", "verdict", "error")
        for response, rubric, verdict, error in judged:
            by_pk[response].verdicts[rubric, SOLE_JUDGE] = (verdict, error)
        return answers

    def _add(
        self, answers: dict[Question, _Answer], question: Question, rubric_and_judge: tuple[int, int], row: VerdictRow
    ) -> None:
        """Add the verdict of a row to its answer, or refuse the row."""
        outcome = "answered" if row.outcome in ("judged", "unparsed") else row.outcome
        answer = answers.get(question)
        if answer is None:
            answer = answers[question] = _Answer(outcome, row.response)
        elif answer.outcome != outcome:
            self.result.refuse(
                row.where, f"outcome {row.outcome}: contradicts another row on this answer ({answer.outcome})"
            )
            return
        elif row.response and answer.text != row.response:
            if answer.text:
                self.result.refuse(row.where, "response: differs from the text in another row on this answer")
                return
            answer.text, answer.text_added = row.response, True
        no_verdict = ("", ERROR_BY_OUTCOME.get(row.outcome, NO_RESPONSE))
        verdict = no_verdict if row.met is None else self._verdicts[row.met]
        known = answer.verdicts.get(rubric_and_judge)
        if known is None:
            answer.verdicts[rubric_and_judge] = verdict
            answer.new_verdicts.append((*rubric_and_judge, verdict, row.explanation))
            self.result.added += 1
        elif known == verdict:
            self.result.known += 1
        else:
            self.result.refuse(row.where, f"met: contradicts an earlier verdict ({known[0] or known[1]})")

    def _insert(self, answers: Mapping[Question, _Answer]) -> None:
        new = [(question, answer) for question, answer in answers.items() if answer.pk is None]
        responses = Response.objects.bulk_create(self._response(*question, answer) for question, answer in new)
        for (_question, answer), response in zip(new, responses, strict=True):
            answer.pk = response.pk
        added = {answer.pk for _question, answer in new}
        with_text = [
            Response(pk=answer.pk, text=answer.text)
            for answer in answers.values()
            if answer.text_added and answer.pk not in added
        ]
        Response.objects.bulk_update(with_text, ["text"], batch_size=500)
        verdicts = ((answer.pk or 0, *verdict) for answer in answers.values() for verdict in answer.new_verdicts)
        if self._run.panel:
            several_judges.store_votes(self._run, list(verdicts))
            return
        Judgment.objects.bulk_create(
            Judgment(
                run=self._run,
                response_id=response,
                rubric_id=rubric,
                verdict=verdict,
                explanation=explanation,
                status=Status.FAILED if error else Status.DONE,
                error=error,
            )
            for response, rubric, _judge, (verdict, error), explanation in verdicts
        )

    def _response(self, endpoint: int, sample: int, repeat: int, answer: _Answer) -> Response:
        failed = answer.outcome == "failed"
        return Response(
            run=self._run,
            endpoint_id=endpoint,
            sample_id=sample,
            variant=self._variant_of[sample],
            repeat=repeat,
            outcome=answer.outcome,
            text=answer.text,
            status=Status.FAILED if failed else Status.DONE,
            error=FAILED_ELSEWHERE if failed else "",
        )
