"""Imports verdicts made elsewhere as a run, matched by the keys of samples and rubrics."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

from django.db import transaction
from django.db.models import QuerySet, Value
from django.utils import timezone
from django.utils.translation import gettext_noop as _
from pydantic import Field

from evaluation import errors, registry
from evaluation.interchange import several_judges
from evaluation.interchange.files import AboutFile, Entry, RefusedRow, VerdictRow
from evaluation.interchange.rows import chunked
from evaluation.models import Judgment, Response, Run, RunEndpoint, VoidVerdict
from evaluation.numbers.rules import FAILED, NO_RESPONSE, NOT_JUDGED
from evaluation.protocol import Protocol
from evaluation.runs import queries
from evaluation.runs.rows import tallies
from evaluation.runs.settings import RELEASE_HELP
from generation.common.chunks import insert_rows
from generation.endpoints import services as endpoints_services
from generation.jobs.settings import AskedAs, Settings
from generation.llm.errors import BrokenReply
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from review.models import User

Status = Work.Status
CHUNK = 5000  # rows stored together
MAX_REFUSALS = 1000  # stored; all are counted
MAX_REMARKS = 100
MAX_STUDY_NAME = 100  # characters
# The errors of judgments without a verdict, by the outcome of their response.
ERROR_BY_OUTCOME = {"unparsed": BrokenReply.__name__, "refused": NOT_JUDGED, "cut_off": NOT_JUDGED}
FAILED_ELSEWHERE = "FailedElsewhere"  # the error of responses that failed where they were made

Question = tuple[int, int, int]  # endpoint, sample, repeat
QUESTION = ("endpoint_id", "sample_id", "repeat")
Verdict = several_judges.Verdict
SOLE_JUDGE = 0  # the judge of every verdict in a study with one judge, or with none named


@dataclass(slots=True)
class ImportResult:
    """The result of an import, or its progress.

    `run`: None if nothing of a new study could be imported.
    `without_verdict`: rubrics of imported answers for which the files have no verdict.
    `remarks`: what the file says about itself, and what was decided about it as a whole.
    """

    run: Run | None
    rows: int = 0
    added: int = 0
    known: int = 0
    refused: int = 0
    without_verdict: int = 0
    refusals: list[RefusedRow] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def refuse(self, where: str, reason: str) -> None:
        self.refused += 1
        if len(self.refusals) < MAX_REFUSALS:
            self.refusals.append(RefusedRow(where, reason))


@dataclass(slots=True)
class _Answer:
    """A response with its verdicts by rubric and judge.

    `pk`: None until it is stored. `new_verdicts`: from the current chunk, to be stored.
    `text_added`: whether a later row brought the text of a stored response.
    `log`: of what log and its retries a failed answer is. `replaced`: whether a stored answer that
    had failed is replaced by one of this chunk. `void`: why earlier verdicts on it do not count, by
    rubric; on all of them under None.
    """

    outcome: str
    text: str
    pk: int | None = None
    log: str = ""
    replaced: bool = False
    void: dict[int | None, str] = field(default_factory=dict)
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    # rubric, judge, verdict, explanation
    new_verdicts: list[tuple[int, int, Verdict, str]] = field(default_factory=list)
    text_added: bool = False


class StudySettings(Settings):
    """Where verdicts made elsewhere belong."""

    release: str = Field(title=_("Release"), description=RELEASE_HELP, max_length=110, pattern=r"^[-\w]+(@\d{1,9})?\Z")
    study: Annotated[str, AskedAs(option="--name")] = Field(
        title=_("Study"),
        description=_("Files with the same release and study name become one run. Verdicts are never added twice."),
        max_length=100,
    )
    sha256: str = Field(
        "",
        title=_("Checksum of the release (SHA-256)"),
        description=_("If you enter it, the file is refused unless the checksums match."),
        pattern=r"^[0-9a-fA-F]{64}\Z",
    )
    models: Annotated[str, AskedAs(rows=3)] = Field(
        "",
        title=_("Names of models"),
        description=_(
            "One per line: the name in the file, =, and the endpoint. Only where they differ. For logged samples of "
            "lm-eval, which name no model: = and the endpoint."
        ),
        max_length=10_000,
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
    for whole_line in lines:
        line = whole_line.strip()
        if not line:
            continue
        before, sign, after = line.rpartition("=")
        name, endpoint = before.strip(), after.strip()
        if not (sign and endpoint):
            raise errors.WrongResults(f"models: {line[:100]} is not NAME=ENDPOINT")
        if names.setdefault(name, endpoint) != endpoint:
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


class _Refused(Exception):
    """Why a row is not imported."""


class _Importer:
    """Stores chunks of rows, each in one transaction and with a few queries."""

    def __init__(
        self, run: Run, protocol: Protocol, verdicts: Mapping[bool, Verdict], names: Mapping[str, str]
    ) -> None:
        self.result = ImportResult(run)
        self._run, self._verdicts, self._names = run, verdicts, names
        self._data_sets = protocol.first_of_task
        self._samples: dict[str, tuple[int, dict[str, int]]] = {}  # key -> sample, rubrics by key and by criterion
        self._variant_of: dict[int, str] = {}  # sample -> variant in which it is asked
        self._endpoints: dict[str, Endpoint | str] = {}  # by name; or the reason why there is none
        self._models: dict[str, int] = {}  # name in the file -> endpoint
        self._judges: dict[str, int | str] = {}  # the same; or why the name is refused
        self._tested = set(run.tested.values_list("endpoint", flat=True))
        self._replaced = self._outdated = 0  # rows of answers that failed and were asked again
        self._left_void = 0  # rows that call valid what was marked as void

    @transaction.atomic
    def store(self, chunk: list[Entry], on_chunk: Callable[[ImportResult], object]) -> None:
        # The lock admits one import into a run at a time.
        self._run = Run.objects.select_for_update(of=("self",)).get(pk=self._run.pk)
        self.result.rows += len(chunk)
        self.result.rows -= self._read_remarks(chunk)
        self._load_samples({entry.sample for entry in chunk if isinstance(entry, VerdictRow)})
        matched = list(self._matched(chunk))
        answers = self._load_answers({question for question, *_rest in matched})
        marked: list[tuple[Question, int, str]] = []
        for question, rubric, judge, row in matched:
            # Rows before the first of the second judge belong to the first judge.
            voter = SOLE_JUDGE
            if self._run.panel:
                voter = judge or self._run.judge_id or SOLE_JUDGE
            try:
                is_current = self._add(answers, question, (rubric, voter), row)
            except _Refused as reason:
                self.result.refuse(row.where, str(reason))
            else:
                if row.void and is_current:
                    marked.append((question, rubric, row.void))
        self._insert(answers)
        self._mark_void(answers, marked)
        added = sum([len(answer.new_verdicts) for answer in answers.values()])
        if added:
            # After each chunk, so that cached numbers expire even if the import stops.
            if not self._run.panel:
                self._run.rubrics_total += added
            self._run.finished_at = timezone.now()
            self._run.save(update_fields=["rubrics_total", "finished_at"])
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
        if self.result.added:
            expected = queries.count_rubrics(run)
        else:
            expected = run.rubrics_total
        tallies.tally(run.pk)
        self.result.without_verdict = max(0, expected - run.rubrics_total)
        self.result.run = run
        for judge in queries.judges_of(run):
            if judge.pk in self._tested:
                self._remark(f"{judge.name} judged its own answers")
        if self._replaced:
            self._remark(f"failed answers replaced by a retry: {self._replaced:,}")
        if self._outdated:
            self._remark(f"rows on failed answers left out, which a retry has replaced: {self._outdated:,}")
        if self._left_void:
            self._remark(f"rows on answers that were marked as void, which stay so in this study: {self._left_void:,}")

    def _remark(self, text: str) -> None:
        if text not in self.result.remarks and len(self.result.remarks) < MAX_REMARKS:
            self.result.remarks.append(text)

    def _read_remarks(self, chunk: list[Entry]) -> int:
        """Keep what the file says about itself; returns how many entries that were."""
        remarks = 0
        for entry in chunk:
            if isinstance(entry, AboutFile):
                self._remark(entry.text)
                remarks += 1
        return remarks

    # ------------------------------------------------------------------------------------- matching

    def _load_samples(self, keys: set[str]) -> None:
        missing = keys - self._samples.keys()
        samples = ReleasedSample.objects.filter(release=self._run.release_id, key__in=missing)
        rubrics_of: dict[int, dict[str, int]] = {}
        for pk, key, task in samples.values_list("pk", "key", "task"):
            self._samples[key] = pk, rubrics_of.setdefault(pk, {})
            self._variant_of[pk] = ""
            if task in self._data_sets:
                self._variant_of[pk] = self._data_sets[task].variant
        rubrics = ReleasedRubric.objects.filter(sample__in=rubrics_of).order_by("pk")
        for sample, key, criterion, pk in rubrics.values_list("sample_id", "key", "criterion", "pk"):
            rubrics_of[sample].setdefault(criterion, pk)  # tools that know no keys name it by its text
            rubrics_of[sample][key] = pk

    def _matched(self, chunk: list[Entry]) -> Iterator[tuple[Question, int, int, VerdictRow]]:
        """The rows of this release, with question, rubric and judge. Others are refused."""
        for entry in chunk:
            if isinstance(entry, RefusedRow):
                self.result.refuse(entry.where, entry.reason)
                continue
            if isinstance(entry, AboutFile):
                continue
            try:
                match = self._match(entry)
            except _Refused as reason:
                self.result.refuse(entry.where, str(reason))
            else:
                yield *match, entry

    def _match(self, row: VerdictRow) -> tuple[Question, int, int]:
        """Question, rubric and judge of a row."""
        if row.release and row.release.lower() != self._run.release.sha256:
            raise _Refused("release: not the checksum of this release")
        if row.sample not in self._samples:
            raise _Refused(f"sample {row.sample[:100]}: not in this release")
        sample, rubrics = self._samples[row.sample]
        if row.rubric not in rubrics:
            raise _Refused(f"rubric {row.rubric[:100]}: not a rubric of {row.sample[:100]}")
        return (self._model(row.model), sample, row.repeat), rubrics[row.rubric], self._judge(row.judge)

    def _endpoint(self, name: str, role: str) -> Endpoint:
        """The endpoint of a model or judge, created if there is none."""
        if name not in self._endpoints:
            self._endpoints[name] = endpoints_services.get_or_create_endpoint(name)
        endpoint = self._endpoints[name]
        if isinstance(endpoint, str):
            raise _Refused(endpoint.replace("model", role, 1))
        return endpoint

    def _model(self, name: str) -> int:
        """The endpoint for a model under test."""
        if name not in self._models:
            known_as = self._names.get(name, name)
            if not known_as:
                raise _Refused("model: missing; name it when you import the file")
            endpoint = self._endpoint(known_as, "model")
            if endpoint.pk not in self._tested:
                self._tested.add(endpoint.pk)
                RunEndpoint.objects.create(run=self._run, endpoint=endpoint)
                self._run.endpoint_settings[str(endpoint.pk)] = {"model": endpoint.model}
                self._run.save(update_fields=["endpoint_settings"])
            self._models[name] = endpoint.pk
        return self._models[name]

    def _judge(self, name: str) -> int:
        """The endpoint for a judge. The second judge turns verdicts into votes."""
        if not name and self._run.panel:
            raise _Refused("judge: missing, in a study with several judges")
        if name and name not in self._judges:
            known_as = self._names.get(name, name)
            try:
                judge = several_judges.judge_named(self._run, known_as) or self._endpoint(known_as, "judge")
            except _Refused as reason:
                self._judges[name] = str(reason)  # so that a file full of such rows asks once
                raise
            if known_as not in (judge.name, judge.model):
                self._remark(f"judge {known_as:.100} is taken for {judge.name}: only one of the names has a provider")
            if self._run.judge is None:
                self._run.judge = judge
                self._run.save(update_fields=["judge"])
            elif several_judges.judge_named(self._run, judge.name) is None:
                several_judges.add_judge(self._run, judge)
            self._judges[name] = judge.pk
        known = self._judges.get(name, SOLE_JUDGE)
        if isinstance(known, str):
            raise _Refused(known)
        return known

    # -------------------------------------------------------------------------------------- storing

    def _responses_to(self, questions: Collection[Question]) -> QuerySet[Response]:
        """The stored responses to these questions, and to some others on the same samples."""
        endpoints = {endpoint for endpoint, _sample, _repeat in questions}
        samples = {sample for _endpoint, sample, _repeat in questions}
        return Response.objects.filter(run=self._run, endpoint__in=endpoints, sample__in=samples)

    def _load_answers(self, questions: set[Question]) -> dict[Question, _Answer]:
        answers: dict[Question, _Answer] = {}
        by_pk: dict[int, _Answer] = {}
        rows = self._responses_to(questions).values_list("pk", *QUESTION, "outcome", "text", "about")
        for pk, endpoint, sample, repeat, outcome, text, about in rows:
            if (endpoint, sample, repeat) in questions:
                answer = _Answer(outcome, text, pk, about.get("log", ""))
                by_pk[pk] = answers[endpoint, sample, repeat] = answer
        voids = VoidVerdict.objects.filter(response__in=by_pk)
        for pk, rubric, reason in voids.values_list("response", "rubric", "reason"):
            by_pk[pk].void[rubric] = reason
        judgments = Judgment.objects.filter(response__in=by_pk)
        if self._run.panel:
            known = several_judges.votes_on(self._run, by_pk)
        else:
            known = judgments.values_list("response_id", "rubric_id", Value(SOLE_JUDGE), "verdict", "error")
        for response, rubric, judge, verdict, error in known:
            by_pk[response].verdicts[rubric, judge] = (verdict, error)
        return answers

    def _add(
        self, answers: dict[Question, _Answer], question: Question, rubric_and_judge: tuple[int, int], row: VerdictRow
    ) -> bool:
        """Add the verdict of a row to its answer; returns whether it is on the one that stands."""
        if row.outcome in ("judged", "unparsed"):
            outcome = "answered"
        else:
            outcome = row.outcome
        answer = answers.get(question)
        if answer is None:
            answer = answers[question] = _Answer(outcome, row.response, log=row.log)
        elif answer.outcome == FAILED != outcome and answer.log in ("", row.log):
            self._replace(answer, outcome, row.response)
        elif outcome == FAILED != answer.outcome and row.log in ("", answer.log):
            self._outdated += 1
            self.result.known += 1
            return False
        elif answer.void and row.response and answer.text != row.response:
            reasons = ", ".join(sorted(set(answer.void.values())))
            raise _Refused(f"response: replaces an answer that is void ({reasons}); import it as another study")
        elif answer.outcome != outcome:
            raise _Refused(f"outcome {row.outcome}: contradicts another row on this answer ({answer.outcome})")
        elif row.response and answer.text != row.response:
            if answer.text:
                raise _Refused("response: differs from the text in another row on this answer")
            answer.text, answer.text_added = row.response, True
        no_verdict = ("", ERROR_BY_OUTCOME.get(row.outcome, NO_RESPONSE))
        if row.met is None:
            verdict = no_verdict
        else:
            verdict = self._verdicts[row.met]
        known = answer.verdicts.get(rubric_and_judge)
        if known is None:
            answer.verdicts[rubric_and_judge] = verdict
            answer.new_verdicts.append((*rubric_and_judge, verdict, row.explanation))
            self.result.added += 1
        elif known == verdict:
            self.result.known += 1
        else:
            raise _Refused(f"met: contradicts an earlier verdict ({known[0] or known[1]})")
        if not row.void and not answer.void.keys().isdisjoint((None, rubric_and_judge[0])):
            self._left_void += 1
        return True

    def _replace(self, answer: _Answer, outcome: str, text: str) -> None:
        """Put the answer of a retry in the place of one that failed."""
        self.result.added -= len(answer.new_verdicts)
        answer.outcome, answer.text, answer.replaced = outcome, text, True
        answer.verdicts.clear()
        answer.new_verdicts.clear()
        self._replaced += 1

    def _mark_void(self, answers: Mapping[Question, _Answer], marked: Iterable[tuple[Question, int, str]]) -> None:
        """Store the marks of tools that verdicts are void; known ones stay as they are."""
        now, marks = timezone.now(), []
        for question, rubric, reason in marked:
            answer = answers[question].pk
            if answer is not None:
                marks.append(VoidVerdict(run=self._run, response_id=answer, rubric_id=rubric, reason=reason, at=now))
        VoidVerdict.objects.bulk_create(marks, ignore_conflicts=True)

    def _insert(self, answers: Mapping[Question, _Answer]) -> None:
        texts, rows = [], []
        new: dict[Question, _Answer] = {}
        for question, answer in answers.items():
            if answer.pk is None:
                new[question] = answer
                values = self._response_values(*question, answer)
                rows.append({**values, "about": json.dumps(values["about"])})
            elif answer.text_added:
                texts.append(Response(pk=answer.pk, text=answer.text))
        Response.objects.bulk_update(texts, ["text"], batch_size=500)
        self._replace_failed(answers)
        insert_rows(Response, rows)
        for pk, endpoint, sample, repeat in self._responses_to(new).values_list("pk", *QUESTION):
            if (endpoint, sample, repeat) in new:
                new[endpoint, sample, repeat].pk = pk
        verdicts: list[several_judges.VoteRow] = []
        for answer in answers.values():
            verdicts += [(answer.pk or 0, *verdict) for verdict in answer.new_verdicts]
        if self._run.panel:
            several_judges.store_votes(self._run, verdicts)
            return
        insert_rows(Judgment, (self._judgment_values(*verdict) for verdict in verdicts))

    def _replace_failed(self, answers: Mapping[Question, _Answer]) -> None:
        replaced = []
        for question, answer in answers.items():
            if answer.pk and answer.replaced:
                replaced.append(Response(pk=answer.pk, **self._response_values(*question, answer)))
        Judgment.objects.filter(response__in=replaced).delete()
        Response.objects.bulk_update(replaced, ["outcome", "text", "status", "error", "about"], batch_size=500)

    def _judgment_values(
        self, response: int, rubric: int, _judge: int, verdict: Verdict, explanation: str
    ) -> dict[str, Any]:
        word, error = verdict
        status = Status.DONE
        if error:
            status = Status.FAILED
        return {
            "run": self._run.pk,
            "response": response,
            "rubric": rubric,
            "verdict": word,
            "explanation": explanation,
            "status": status.value,
            "error": error,
        }

    def _response_values(self, endpoint: int, sample: int, repeat: int, answer: _Answer) -> dict[str, Any]:
        about = {}
        if answer.log:
            about["log"] = answer.log
        if answer.replaced:
            about["replaced"] = FAILED
        status, error = Status.DONE, ""
        if answer.outcome == FAILED:
            status, error = Status.FAILED, FAILED_ELSEWHERE
        return {
            "run_id": self._run.pk,
            "about": about,
            "endpoint_id": endpoint,
            "sample_id": sample,
            "variant": self._variant_of[sample],
            "repeat": repeat,
            "outcome": answer.outcome,
            "text": answer.text,
            "status": status.value,
            "error": error,
        }
