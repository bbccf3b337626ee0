"""Makes a run of verdicts that were made elsewhere, matched by the keys of samples and rubrics."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from django.db import connection, transaction
from django.utils import timezone

from evaluation import errors, registry
from evaluation.interchange import several_judges
from evaluation.interchange.rows import Chunks, Entry, RefusedRow, VerdictRow
from evaluation.models import Judgment, Response, Run, RunEndpoint
from evaluation.protocol import Protocol
from evaluation.runs.queries import count_rubrics
from evaluation.runs.rows import tallies
from evaluation.runs.services import NO_RESPONSE, NOT_JUDGED
from generation.llm.errors import BrokenReply
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from review.common.bulk_rows import defaults, insert_rows, new_keys
from review.common.sql import rows_of
from review.models import User

Status = Work.Status
CHUNK = 5000  # rows stored together
REFUSALS_KEPT = 1000
LONGEST_STUDY = 100  # characters
WITHOUT_VERDICT = {"unparsed": BrokenReply.__name__, "refused": NOT_JUDGED, "cut_off": NOT_JUDGED}  # outcome -> error
ELSEWHERE = "FailedElsewhere"  # the error of responses that had failed where they were asked for

Question = tuple[int, int, int]  # endpoint, sample, repeat
Verdict = several_judges.Verdict
ONE = 0  # the judge of every verdict, where there is one or none is known


@dataclass(slots=True)
class Imported:
    """What an import came to. `run`: None where nothing of a new study could be imported. `without_verdict`: rubrics of
    imported answers on which the files say nothing.
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
        if len(self.refusals) < REFUSALS_KEPT:
            self.refusals.append(RefusedRow(where, reason))


@dataclass(slots=True)
class _Answer:
    """A response with the verdicts on it, by rubric and judge. `pk`: None until it is stored; `told`: what the file says."""

    outcome: str
    text: str
    pk: int | None = None
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    told: list[tuple[int, int, Verdict, str]] = field(default_factory=list)  # rubric, judge, verdict, explanation
    grew: bool = False  # its text came with a later row


def check_study(release: Release, study: str, sha256: str) -> str:
    """The name of a study that can be on `release`. Raises OtherRelease, NoCriteria, WrongResults."""
    if sha256 and sha256.lower() != release.sha256:
        raise errors.OtherRelease(f"{sha256[:12]}…, not {release.sha256[:12]}…")
    study = study.strip()
    if not 0 < len(study) <= LONGEST_STUDY:
        raise errors.WrongResults("the study needs a name of at most 100 characters")
    verdict_words(registry.protocol(release.benchmark))
    return study


def import_results(
    entries: Iterable[Entry],
    *,
    release: Release,
    study: str,
    sha256: str = "",
    actor: User | None = None,
    on_chunk: Callable[[Imported], object] = lambda _came: None,
) -> Imported:
    """Add verdicts to the run that `study` is on `release`, made with the first of them. What is there already is known.

    Rows that cannot be matched, or that contradict others, are refused one by one. `sha256`: of the release, as the results
    state it. `on_chunk` is told what it has come to, in the transaction of each chunk of rows; what it raises undoes the chunk.
    Raises what `check_study` raises, and WrongResults while `entries` are read: what came before is kept.
    """
    study = check_study(release, study, sha256)
    protocol = registry.protocol(release.benchmark)
    met, not_met = verdict_words(protocol)
    with ThreadPoolExecutor(1) as reader:
        chunks = Chunks(iter(entries), CHUNK, reader)
        work = None
        for chunk in chunks:
            if work is None:
                words: dict[bool, Verdict] = {True: (met, ""), False: (not_met, "")}
                work = _Import(_run_of(release, study, actor), protocol, words, chunks.read_on)
            work.store(chunk, on_chunk)
    if work is None:
        raise errors.WrongResults("it has no rows")
    work.done()
    return work.came


def _run_of(release: Release, study: str, actor: User | None) -> Run:
    now = timezone.now()
    return Run.objects.get_or_create(
        release=release,
        origin=Run.Origin.IMPORTED,
        study=study,
        defaults={"status": Run.Status.FINISHED, "created_by": actor, "created_at": now, "finished_at": now},
    )[0]


def verdict_words(protocol: Protocol) -> tuple[str, str]:
    """The verdicts of a met and of an unmet criterion: of those that the first rate counts, the one that speaks for a model
    and the one that speaks against it. Raises NoCriteria where a judge does not decide so."""
    counted = set(protocol.rates[0].counted)
    against = counted & protocol.failing_verdicts
    if protocol.judge is None or len(against) != 1 or len(counted) != 2:
        raise errors.NoCriteria
    return (counted - against).pop(), against.pop()


class _Import:
    """Stores chunks of rows, each in one transaction, with a few queries a chunk. `read_on` has the next one parsed."""

    def __init__(
        self, run: Run, protocol: Protocol, words: Mapping[bool, Verdict], read_on: Callable[[], object]
    ) -> None:
        self.came = Imported(run)
        self._run, self._words, self._read_on = run, words, read_on
        self._variants = {one.task: one.variant for one in protocol.datasets}
        self._samples: dict[str, tuple[int, dict[str, int]]] = {}  # key -> number, rubrics
        self._variant_of: dict[int, str] = {}  # sample -> in which variant it is asked
        self._models: dict[str, int | str] = {}  # name -> endpoint, or why it is refused
        self._judges: dict[str, int | str] = {}  # name -> endpoint, or why it is refused
        self._tested = set(run.tested.values_list("endpoint", flat=True))
        self._response_tail = defaults(Response, _RESPONSE)
        self._judgment_tail = defaults(Judgment, _JUDGMENT)

    @transaction.atomic
    def store(self, chunk: list[Entry], on_chunk: Callable[[Imported], object]) -> None:
        self._run = Run.objects.select_for_update(of=("self",)).get(pk=self._run.pk)  # one import at a time
        self.came.rows += len(chunk)
        self._look_up({entry.sample for entry in chunk if isinstance(entry, VerdictRow)})
        matched = list(self._matched(chunk))
        answers = self._stored({question for question, *_about in matched})
        for question, rubric, judge, row in matched:
            # Rows that came before the second judge are the first one's.
            self._add(
                answers, question, (rubric, (judge or self._run.judge_id or ONE) if self._run.panel else ONE), row
            )
        late = connection.vendor == "postgresql"  # which works by itself at the commit: it checks references then
        if not late:
            self._read_on()
        self._insert(answers)
        self._tell_of_growth(answers)
        on_chunk(self.came)
        if late:
            self._read_on()

    def done(self) -> None:
        """Write the totals of the run; one without a row is none."""
        run = self._run
        if not run.judgments.exists():
            run.tested.all().delete()
            run.delete()
            self.came.run = None
            return
        run.responses_total, run.rubrics_total = run.responses.count(), run.judgments.count()
        run.save(update_fields=["responses_total", "rubrics_total"])
        asked = count_rubrics(run) if self.came.added else run.rubrics_total
        tallies.tally(run.pk)
        self.came.without_verdict = max(0, asked - run.rubrics_total)
        self.came.run = run

    def _tell_of_growth(self, answers: Mapping[Question, _Answer]) -> None:
        """What is kept of the run is old with every chunk, also where the rest never comes."""
        if added := sum(len(answer.told) for answer in answers.values()):
            self._run.rubrics_total += 0 if self._run.panel else added
            self._run.finished_at = timezone.now()
            self._run.save(update_fields=["rubrics_total", "finished_at"])

    # ----------------------------------------------------------------------------------------------------- matching

    def _look_up(self, keys: set[str]) -> None:
        wanted = keys - self._samples.keys()
        found = ReleasedSample.objects.filter(release=self._run.release_id, key__in=wanted)
        by_number: dict[int, dict[str, int]] = {}
        for pk, key, task in found.values_list("pk", "key", "task"):
            self._samples[key] = pk, by_number.setdefault(pk, {})
            self._variant_of[pk] = self._variants.get(task, "")
        rubrics = ReleasedRubric.objects.filter(sample__in=by_number).values_list("sample_id", "key", "pk")
        for sample, key, pk in rubrics:
            by_number[sample][key] = pk

    def _matched(self, chunk: list[Entry]) -> Iterator[tuple[Question, int, int, VerdictRow]]:
        refuse, digest = self.came.refuse, self._run.release.sha256
        for entry in chunk:
            if isinstance(entry, RefusedRow):
                refuse(entry.where, entry.reason)
                continue
            if entry.release and entry.release.lower() != digest:
                refuse(entry.where, "release: another checksum than this release has")
                continue
            sample = self._samples.get(entry.sample)
            if sample is None:
                refuse(entry.where, f"sample {entry.sample[:100]}: not in this release")
                continue
            rubric = sample[1].get(entry.rubric)
            if rubric is None:
                refuse(entry.where, f"rubric {entry.rubric[:100]}: not a rubric of {entry.sample[:100]}")
                continue
            endpoint = self._model(entry.model)
            if isinstance(endpoint, str):
                refuse(entry.where, endpoint)
                continue
            judge = self._judge(entry.judge)
            if isinstance(judge, str):
                refuse(entry.where, judge)
                continue
            yield (endpoint, sample[0], entry.repeat), rubric, judge, entry

    def _model(self, name: str) -> int | str:
        """The endpoint that stands for a model under test, or why there is none."""
        if name not in self._models:
            found = endpoint_called(name)
            if isinstance(found, Endpoint):
                self._models[name] = found.pk
                if found.pk not in self._tested:
                    self._tested.add(found.pk)
                    RunEndpoint.objects.create(run=self._run, endpoint=found)
                    self._run.endpoint_settings[str(found.pk)] = {"model": found.model}
                    self._run.save(update_fields=["endpoint_settings"])
            else:
                self._models[name] = found
        return self._models[name]

    def _judge(self, name: str) -> int | str:
        """The endpoint that stands for a judge, or why there is none. The second judge makes verdicts votes."""
        if not name:
            return "judge: missing, in a study with several judges" if self._run.panel else ONE
        if name not in self._judges:
            found = several_judges.judge_called(self._run, name) or endpoint_called(name)
            if isinstance(found, str):
                self._judges[name] = found.replace("model", "judge", 1)
                return self._judges[name]
            self._judges[name] = found.pk
            if self._run.judge is None:
                self._run.judge = found
                self._run.save(update_fields=["judge"])
            elif several_judges.judge_called(self._run, found.name) is None:
                several_judges.add_judge(self._run, found, first=self._run.judge)
        return self._judges[name]

    # ------------------------------------------------------------------------------------------------------ storing

    def _stored(self, wanted: set[Question]) -> dict[Question, _Answer]:
        answers: dict[Question, _Answer] = {}
        by_number: dict[int, _Answer] = {}
        for pk, endpoint, sample, repeat, outcome, text in _responses(self._run, {each[:2] for each in wanted}):
            if (endpoint, sample, repeat) in wanted:
                by_number[pk] = answers[endpoint, sample, repeat] = _Answer(outcome, text, pk)
        if self._run.panel:
            for response, rubric, judge, verdict, error in several_judges.votes_on(self._run, by_number):
                by_number[response].verdicts[rubric, judge] = (verdict, error)
            return answers
        judged = Judgment.objects.filter(response__in=by_number).values_list(
            "response_id", "rubric_id", "verdict", "error"
        )
        for response, rubric, verdict, error in judged:
            by_number[response].verdicts[rubric, ONE] = (verdict, error)
        return answers

    def _add(
        self, answers: dict[Question, _Answer], question: Question, about: tuple[int, int], row: VerdictRow
    ) -> None:
        """Add the verdict on a rubric by a judge."""
        outcome = "answered" if row.outcome in ("judged", "unparsed") else row.outcome
        answer = answers.get(question)
        if answer is None:
            answer = answers[question] = _Answer(outcome, row.response)
        elif answer.outcome != outcome:
            self.came.refuse(
                row.where, f"outcome {row.outcome}: contradicts another row on this answer ({answer.outcome})"
            )
            return
        elif row.response and answer.text != row.response:
            if answer.text:
                self.came.refuse(row.where, "response: another text than in another row on this answer")
                return
            answer.text, answer.grew = row.response, True
        without = ("", WITHOUT_VERDICT.get(row.outcome, NO_RESPONSE))
        verdict = without if row.met is None else self._words[row.met]
        known = answer.verdicts.get(about)
        if known is None:
            answer.verdicts[about] = verdict
            answer.told.append((*about, verdict, row.explanation))
            self.came.added += 1
        elif known == verdict:
            self.came.known += 1
        else:
            self.came.refuse(row.where, f"met: contradicts an earlier verdict ({known[0] or known[1]})")

    def _insert(self, answers: Mapping[Question, _Answer]) -> None:
        new = [(question, answer) for question, answer in answers.items() if answer.pk is None]
        for (_question, answer), pk in zip(new, new_keys(Response, len(new)), strict=True):
            answer.pk = pk
        insert_rows(
            Response,
            (*_RESPONSE, *self._response_tail),
            (
                (
                    *(
                        answer.pk,
                        self._run.pk,
                        endpoint,
                        sample,
                        self._variant_of[sample],
                        repeat,
                        answer.outcome,
                        answer.text,
                    ),
                    *((Status.FAILED.value, ELSEWHERE) if answer.outcome == "failed" else (Status.DONE.value, "")),
                    *self._response_tail.values(),
                )
                for (endpoint, sample, repeat), answer in new
            ),
        )
        added = {answer.pk for _question, answer in new}
        grown = [
            Response(pk=each.pk, text=each.text) for each in answers.values() if each.grew and each.pk not in added
        ]
        Response.objects.bulk_update(grown, ["text"], batch_size=500)
        if self._run.panel:
            told = [(answer.pk or 0, *each) for answer in answers.values() for each in answer.told]
            several_judges.store_votes(self._run, told)
            return
        insert_rows(
            Judgment,
            (*_JUDGMENT, *self._judgment_tail),
            (
                (
                    *(self._run.pk, answer.pk, rubric, verdict, explanation),
                    *((Status.DONE.value, "") if verdict else (Status.FAILED.value, error)),
                    *self._judgment_tail.values(),
                )
                for answer in answers.values()
                for rubric, _judge, (verdict, error), explanation in answer.told
            ),
        )


_RESPONSE = (
    *("id", "run_id", "endpoint_id", "sample_id", "variant", "repeat", "outcome", "text"),
    *("status", "error"),
)
_JUDGMENT = ("run_id", "response_id", "rubric_id", "verdict", "explanation", "status", "error")


# Each pair is looked up by itself: of a table that grows, PostgreSQL does not know how much is of one run, and reads all of it.
_LOOKED_UP = """
SELECT r.id, r.endpoint_id, r.sample_id, r.repeat, r.outcome, r.text
FROM unnest(%s::bigint[], %s::bigint[]) AS asked(endpoint, sample) CROSS JOIN LATERAL (
  SELECT * FROM evaluation_response
  WHERE run_id = %s AND endpoint_id = asked.endpoint AND sample_id = asked.sample OFFSET 0
) r
"""


def _responses(run: Run, asked: Collection[tuple[int, int]]) -> Iterable[tuple[int, int, int, int, str, str]]:
    """(number, endpoint, sample, repeat, outcome, text) of the responses of these endpoints to these samples, or of more."""
    endpoints, samples = [endpoint for endpoint, _ in asked], [sample for _, sample in asked]
    if connection.vendor == "postgresql":
        return rows_of(_LOOKED_UP, endpoints, samples, run.pk)
    found = Response.objects.filter(run=run, endpoint__in=set(endpoints), sample__in=set(samples))
    return found.values_list("pk", "endpoint_id", "sample_id", "repeat", "outcome", "text")


def endpoint_called(name: str) -> Endpoint | str:
    """The endpoint of this name; else one without an address, made for a model of this name. Or why it cannot be.

    An endpoint without an address is never asked: it stands for a model that is known from imported results alone.
    """
    if found := Endpoint.objects.filter(name=name).first():
        return found
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:100]
    if not slug:
        return f"model {name}: needs a letter or digit"
    found, _made = Endpoint.objects.get_or_create(name=slug, defaults={"model": name, "url": "", "concurrency": 1})
    return found if found.model == name else f"model {name}: {slug} is the name of an endpoint with another model"
