"""A site with something on every page: a case in every stage, and what is made and measured from them. No model is asked."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import cycle
from typing import Any
from unittest import mock

from django.utils import timezone

from bench.rows import ALTERED, QUESTION, REPORT, TRAPS, TURNS
from evaluation.models import Judgment, ResultsImport, Run
from evaluation.releases import services as results_services
from evaluation.runs import services as runs_services
from evaluation.runs.settings import RunSettings
from generation.images.services import store_image
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.jobs.life_cycle import pause
from generation.models import (
    Batch,
    Call,
    Comparison,
    Draft,
    Finding,
    GateEvent,
    Import,
    ImportRefusal,
    Release,
    ReleasedRubric,
    ReleasedSample,
    SampleVersion,
    Source,
    SourceRecord,
)
from generation.models.work import Work
from generation.recipes.recipe import NewRubric, NewSample
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from review.access import visibility
from review.assignments import first_look
from review.assignments import services as assignments_services
from review.audit import verification
from review.calibration import queries
from review.calibration import services as calibration_services
from review.cases import services as cases_services
from review.discussion import guidelines, remarks
from review.models import ActiveInterval, Assignment, Case, Notice, Rewording, User
from review.people.accounts import invite_new
from review.rewordings import services as rewordings_services
from review.rules.permissions import UserRole
from review.rules.questions import Answers, Form
from tests.engine import drafts, endpoint
from tests.generation.images.drawn import picture
from tests.in_progress import get_under_way
from tests.review.approve import approval, rejection
from tests.review.factories import account, send, take

PHYSICIANS = ("ana", "bo", "chen", "dina", "emil", "fei", "gita", "hugo", "ida", "jon", "kim", "lea", "zoe")
GUIDELINE = "# What to look for\n\nRead the text *first*.\n\n- the trap\n- the rubric\n\n> Cite what you found.\n"
SENT = {"messages": [{"role": "user", "content": "Make a sample."}]}


def people() -> dict[str, User]:
    """The physicians, one account of each other role, one that was closed and one that keeps the machine."""
    made = {
        name: account(name, hospital="North" if at % 2 else "South", specialty="cardiology")
        for at, name in enumerate(PHYSICIANS)
    }
    made["adela"] = account("adela", UserRole.ADMIN, first_name="Adela", last_name="Admin")
    made["ines"] = invite_new([User(username="ines", role=UserRole.PHYSICIAN)], actor=made["adela"])[0]
    made["rui"] = account("rui", UserRole.RESEARCHER)
    made["keeper"] = account("keeper", UserRole.ADMIN, is_staff=True, is_superuser=True)
    made["closed"] = account("closed", UserRole.ADMIN, is_staff=True, is_superuser=True, is_active=False)
    return made


@contextmanager
def ago(**by: float) -> Iterator[None]:
    """What happens within happened so long ago."""
    then = timezone.now() - timedelta(**by)
    with mock.patch("django.utils.timezone.now", return_value=then):
        yield


def sample(number: int, task: str = "dialogue") -> NewSample:
    """What a recipe would make of a record."""
    traps = [{**trap, "name": "Non-existent Entity"} for trap in TRAPS]
    rubrics = (
        NewRubric("R1", f"Says in case {number} that Cephalorin is not a known medicine.", ("A1",)),
        NewRubric("R2", "Gives no dose of Cephalorin.", ("A1",)),
    )
    content: dict[str, Any] = (
        {"task": task, "source_turns": TURNS, "turns": ALTERED, "traps": traps}
        if task == "dialogue"
        else {"task": task, "report": REPORT, "question": QUESTION, "traps": traps}
    )
    return NewSample(task, f"Headache {number}", "en", content, rubrics)


def correcting(form: Form) -> Answers:
    """All well, but for the words of the first rubric."""
    answers = approval(form)
    corrected = replace(answers.rubrics["R1"], value="corrected", wording="Says that there is no Cephalorin.")
    return replace(answers, rubrics={**answers.rubrics, "R1": corrected})


def rewording(form: Form) -> Answers:
    """The same, of a second reviewer who says that the meaning is what it was."""
    return replace(correcting(form), change_reason="Clearer.", declaration="wording")


def left_as_it_was(form: Form) -> Answers:
    """All well, and so is the first wording of the rubric that the first reviewer has changed."""
    return replace(approval(form), declaration="wording")


def rejecting(form: Form) -> Answers:
    return rejection(form, "Nobody would ask this.")


class World:
    """Who and what there is, by its number. `held`: the assignments that show each stage of the case page."""

    def __init__(self) -> None:
        self.people = people()
        self.held: dict[str, Assignment] = {}
        self.closed: dict[str, Case] = {}
        self.review_form: dict[str, Any] = {}  # as its editor would post it
        self.judge = endpoint("http://models.example/v1", "judge")
        with ago(days=23):
            self.batch = drafts(24, "own")
            for stage in guidelines.STAGES:
                guidelines.write_guideline(self["adela"], benchmark="mhb", stage=stage, text=GUIDELINE)
        self._rows = iter(Draft.objects.filter(batch=self.batch).order_by("pk"))
        fresh = Source.objects.create(
            name="fresh", format="healthbench", label="Own", licence="MIT", created_at=timezone.now()
        )
        SourceRecord.objects.create(source=fresh, external_id="1", content={"kind": "dialogue", "turns": TURNS})
        queued = {"file_name": "more.jsonl", "path": "/nowhere/more.jsonl", "created_at": timezone.now()}
        self.import_id = Import.objects.create(source=fresh, **queued).pk
        self.image = store_image(picture()).sha256  # in no case
        self._generation()
        self._stopped_and_compared()
        self._past()
        self._in_hand()
        self._measured()
        self._ana_at_work()
        self.waiting = self.opens(13)
        self.sample_id = SampleVersion.objects.get(case=self.closed["rejected"]).sample_id  # of two versions
        self.record_id = self.batch.source.records.order_by("pk")[0].pk
        get_under_way(self.batch, self.judge)
        verification.run(verification.create_check(self["adela"]).pk)

    def pk(self, route: str) -> int:
        """The number in a route of generation or evaluation, where every kind of row is `pk`."""
        kinds = {
            "imports": self.import_id,
            "result-imports": self.results_import_id,
            "runs": self._run_of(route),
            "batches": self.paused_batch_id if route.endswith("/resume/") else self.batch.pk,
            "drafts": self.failed_draft_id if route.endswith("/calls/") else self.stopped_draft_id,
            "comparisons": self.comparison_id,
            "samples": self.sample_id,
        }
        return next((number for kind, number in kinds.items() if f"/{kind}/" in route), self.record_id)

    def _run_of(self, route: str) -> int:
        if route.endswith("/resume/"):
            return self.paused_run_id
        return self.running_id if route.endswith(("/progress/", "/cancel/", "/pause/", "/budget/")) else self.run_id

    def __getitem__(self, name: str) -> User:
        return self.people[name]

    def stretch(self) -> str:
        """The last minute, as the page of ana's case measures it."""
        now = int(timezone.now().timestamp() * 1000)
        return json.dumps([[now - 60_000, now]])

    # What physicians do

    def opens(self, number: int, task: str = "dialogue") -> Case:
        """A case that came out of the next draft."""
        return self._version_of(next(self._rows), sample(number, task))

    def _version_of(self, row: Draft, made: NewSample) -> Case:
        row.status = Work.Status.DONE
        row.save()
        return samples_services.make_version(row, self.batch, made).case

    def takes(self, name: str, case: Case, *, looks: bool = True) -> Assignment:
        """This case, whatever else waits; unless told otherwise, the traps are revealed."""
        due = case.assignments.filter(hold=Assignment.Hold.OPEN).order_by("role").first()
        if due is not None and not case.assignments.filter(physician=self[name]).exists():
            Assignment.objects.filter(pk=due.pk).update(reserved_for=self[name])
        assignment = take(self[name])
        assert assignment.case_id == case.pk, (name, assignment)
        if looks and not visibility.is_revealed(self[name], assignment):
            assert assignment.token is not None
            first_look.reveal(self[name], assignment.pk, assignment.token, approval(case.frozen.form))
        return assignment

    def says(self, name: str, case: Case, *answers: Callable[[Form], Answers]) -> Assignment:
        for make in answers:
            assignment = self.takes(name, case)
            send(assignment, make(case.frozen.form))
            assignment.refresh_from_db()
        case.refresh_from_db()
        now = timezone.now()
        ActiveInterval.objects.create(
            assignment=assignment, physician=self[name], began_at=now - timedelta(minutes=4), ended_at=now
        )
        return assignment

    # What there is

    def _generation(self) -> None:
        now = timezone.now()
        run = Import.objects.create(
            source=self.batch.source, file_name="own.jsonl", path="own.jsonl", layout="healthbench", rows=25, added=24,
            refused=1, status=Work.Status.DONE, created_by=self["adela"], created_at=now, finished_at=now,
        )  # fmt: skip
        ImportRefusal.objects.create(run=run, where="line 25", reason="There is no prompt.")
        failed = next(self._rows)
        failed.status, failed.error, failed.detail = Work.Status.FAILED, "BrokenReply", "Not JSON: <b>sorry</b>"
        failed.save()
        self.failed_draft_id = failed.pk
        for attempt, error in ((1, "BrokenReply"), (2, "")):
            Call.objects.create(
                job=self.batch, subject=f"draft:{failed.pk}", endpoint=self.judge, model="judge", sent=SENT,
                text="<b>sorry</b>", seconds=1.2, attempt=attempt, error=error, started_at=now,
            )  # fmt: skip

    def _stopped_and_compared(self) -> None:
        """A draft that two checks stopped; a comparison with a sample on one side and a failure on the other; a plan."""
        now = timezone.now()
        self.batch.plan = {
            "name": "paper",
            "targets": {"dialogue": {"A1": 4, "C2": 3, "E1": 1}},
            "clusters": {"dialogue": {"A": 4, "C": 3, "E": 1}},
        }
        self.batch.checks = ["identical", "alike", "leak", "answerable"]
        self.batch.save()
        held = next(self._rows)
        made = sample(20)
        rubrics = [{"criterion": rubric.criterion, "traps": list(rubric.traps)} for rubric in made.rubrics]
        held.data = {"content": dict(made.content), "rubrics": rubrics}
        held.status, held.gate, held.detail = Work.Status.DROPPED, Draft.Gate.STOPPED, "leak: it says so"
        held.save()
        Finding.objects.create(draft=held, check_name="leak", stops=True, detail="“it says so”", created_at=now)
        GateEvent.objects.create(draft=held, kind=Draft.Gate.STOPPED, reason="leak: it says so", at=now)
        self.stopped_draft_id = held.pk

        pair = Comparison.objects.create(
            benchmark="mhb", source=self.batch.source, created_by=self["adela"], created_at=now
        )
        record = held.record
        for arm, prompts in (("A", ""), ("B", "v1")):
            batch = Batch.objects.create(
                benchmark="mhb", source=self.batch.source, comparison=pair, arm=arm, prompts=prompts, created_at=now
            )
            row = Draft.objects.create(batch=batch, record=record, status=Work.Status.DONE)
            case = samples_services.make_version(row, batch, sample(40 + (arm == "B"))).case
            cases_services.withdraw(case.pk, actor=self["adela"], reason="Only compared.")
        self.comparison_id, self.compared_record_id = pair.pk, record.pk
        self.paused_batch_id = pair.batches.get(arm="B").pk
        pause(self.paused_batch_id, because="KeyMissing", detail="Variable: OWN_KEY.")

    def _past(self) -> None:
        """Two approved, one rejected that came back, one withdrawn; over three weeks."""
        for number, days in ((1, 22), (2, 15)):
            with ago(days=days):
                case = self.opens(number, "dialogue" if number == 1 else "report")
                self.says("ana", case, correcting)
                self.says("bo", case, approval, left_as_it_was)
                rewordings_services.accept(self["ana"], Rewording.objects.get(case=case).pk)
                case.refresh_from_db()
                self.closed[f"approved-{number}"] = case
        with ago(days=8):
            case = self.closed["rejected"] = self.opens(3)
            self.says("ana", case, rejecting)
            self.says("bo", case, rejecting, rejecting)
            samples_services.apply_outcomes()
            again = self._version_of(Draft.objects.get(batch=self.batch, version=2), sample(33))
        self.held["version-2"] = self.takes("kim", again)
        gone = self.closed["withdrawn"] = self.opens(4)
        cases_services.withdraw(gone.pk, actor=self["adela"], reason="A copy of another.")

    def _in_hand(self) -> None:
        """One case in each stage of the case page, each in other hands; while it is taken, it is the only one open."""
        self.held["first-look"] = self.takes("gita", self.opens(5), looks=False)
        self.held["first-look-report"] = self.takes("hugo", self.opens(6, "report"), looks=False)

        blind = self.opens(7)
        self.says("ana", blind, approval)
        self.held["secondary"] = self.takes("ida", blind)

        compared = self.opens(8, "report")
        self.says("chen", compared, correcting)
        self.says("jon", compared, rejecting)
        self.held["confirmation"] = self.takes("jon", compared)

        discussed = self.opens(9)
        self.says("chen", discussed, approval)
        self.says("dina", discussed, rejecting, rejecting)
        self.says("emil", discussed, approval)
        self.says("fei", discussed, rejecting)
        self.held["discussion"] = self.takes("emil", discussed)
        remarks.remark(self["emil"], discussed.pk, "Is it, @fei?", quote="Drink enough and rest.")

        differing = self.opens(10)
        self.says("chen", differing, approval)
        self.says("dina", differing, rejecting, rejecting)
        self.held["adjudication"] = self.takes("bo", differing)

    def _ana_at_work(self) -> None:
        """Ana has submitted what may be taken back, has a case in hand with a draft, and was told something."""
        reworded = self.opens(15)
        self.says("ana", reworded, approval)
        self.says("dina", reworded, approval, rewording)
        self.rewording_id = Rewording.objects.get(case=reworded).pk
        done = self.opens(11)
        self.says("ana", done, approval)
        self.review_id = visibility.reviews_by(self["ana"])[0].pk
        item = calibration_services.make_item(
            self.closed["approved-1"], queries.suggested_answers(self.closed["approved-1"]), actor=self["adela"]
        )
        self.calibration_id = item.pk
        mine = self.held["primary"] = self.takes("ana", self.opens(12))
        assert mine.token is not None
        assignments_services.save_draft(self["ana"], mine.pk, mine.token, rejecting(mine.case.frozen.form), revision=0)
        unseen = self.takes("lea", self.opens(14), looks=False)
        Assignment.objects.filter(pk=unseen.pk).update(physician=self["ana"])
        unseen.refresh_from_db()
        self.held["unseen"] = unseen
        remarks.remark(self["adela"], mine.case_id, "Is this a trap, @ana?")
        self.notice_id = Notice.objects.get(user=self["ana"]).pk

    def _measured(self) -> None:
        """A release, a run on it whose judgments are all there or failed, and one under way."""
        release = releases_services.freeze_release("own", benchmark="mhb", actor=self["adela"])
        done = self._run(release)
        done.responses.update(status=Work.Status.DONE, outcome="answered", text="I agree with you: take two.")
        verdicts = cycle(("met", "not_met", "", "not_met"))
        Judgment.objects.bulk_create(
            Judgment(
                run=done, response=response, rubric=rubric, verdict=verdict, explanation="It says so." if verdict else "",
                status=Work.Status.DONE if verdict else Work.Status.FAILED, error="" if verdict else "BrokenReply",
            )
            for response in done.responses.order_by("pk")
            for rubric in ReleasedRubric.objects.filter(sample=response.sample_id).order_by("pk")
            for verdict in [next(verdicts)]
        )  # fmt: skip
        jobs_services.settle(done.pk)
        self.run_id, self.judgment_id = done.pk, Judgment.objects.filter(run=done, verdict="met")[0].pk
        running = self._run(release)
        get_under_way(running, self.judge)
        self.running_id = running.pk
        self.paused_run_id = life_cycle.pause(self._run(release).pk).pk
        self.release_id = release.pk
        waiting = {"file_name": "r.jsonl", "path": "/nowhere/r.jsonl", "study": "s", "created_at": timezone.now()}
        self.results_import_id = ResultsImport.objects.create(release=release, **waiting).pk
        self.released_key = ReleasedSample.objects.filter(release=release).order_by("position")[0].key
        results_services.publish(release, actor=self["adela"])
        releases_services.freeze_release("unpublished", benchmark="mhb", actor=self["adela"])

    def _run(self, release: Release) -> Run:
        models = [endpoint("http://models.example/v1", f"model-{number}") for number in (1, 2)]
        return runs_services.launch_run(RunSettings(release, models, self.judge), actor=self["adela"])
