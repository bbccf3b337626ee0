"""What is withdrawn or void says nothing: no number that leaves the site depends on it.

A panel, its repeats, a validation, fixed texts, second verdicts and a comparison are counted. Then
everything that was said on withdrawn samples and void answers is changed at random, and all of it
is counted again. Whatever differs was counted.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from evaluation.claims.queries import claims_of_run
from evaluation.human_baseline.queries import noticed_report
from evaluation.interchange import bundle, power
from evaluation.interchange.comparing import compare_runs
from evaluation.interchange.programs import verify_run
from evaluation.judges import services as judges_services
from evaluation.judges.queries import validation_report
from evaluation.models import Judgment, PolicyAnswer, Response, Run, ValidationItem, VoidVerdict, Vote
from evaluation.numbers.report_numbers import Options
from evaluation.releases.leaderboard import incomplete_results, leaderboard
from evaluation.reports import formats, headlines, paper_layout, queries
from evaluation.runs import services
from evaluation.runs.settings import RunSettings
from generation.models import Release, ReleasedSample, Sample
from generation.models.work import Work
from generation.samples import errata
from review.models import Assignment, Case
from review.rules.permissions import OPERATOR
from tests.engine import endpoint
from tests.evaluation.interchange.test_report_again import JUDGES, MODELS, add_votes_and_judgments
from tests.evaluation.judges.test_validation import NOWHERE, answer_queue, create_physicians
from tests.evaluation.reports.test_counting import with_controls
from tests.populations import population

pytestmark = pytest.mark.django_db
VERDICTS, ERRORS = ("met", "not_met", "", "odd"), ("BrokenReply", "ServerError", "NoMajority")
FIXED = "agree"


def judged_run(release: Release, seed: int) -> Run:
    """A finished run with a panel of three, two answers and two judgments each, and checks."""
    judges = [endpoint(NOWHERE, name) for name in JUDGES]
    models = [endpoint(NOWHERE, name) for name in MODELS]
    panel = {"judge": judges[0], "further_judges": judges[1:], "answers": 2, "judgments": 2}
    run = services.launch_run(RunSettings(release=release, endpoints=models, seed=seed, **panel))
    add_votes_and_judgments(run)
    dice = Random(seed)
    for response in Response.objects.filter(run=run).order_by("pk"):
        ending = {"outcome": dice.choice(("answered",) * 6 + ("unknown",)), "like_reasoning": dice.random() < 0.2}
        Response.objects.filter(pk=response.pk).update(detail="It ended: halted.", **ending)
        if response.repeat == 0:
            verdicts = said_on(response.sample, dice)
            for kind in PolicyAnswer.Again.values:
                add_answer(run, response.sample, kind, verdicts, response)
    for sample in release.samples.order_by("pk"):
        add_answer(run, sample, FIXED, said_on(sample, dice), None)
    ended = {"status": Run.Status.FINISHED, "finished_at": timezone.now(), "policies": [FIXED]}
    Run.objects.filter(pk=run.pk).update(**ended)
    return Run.objects.get(pk=run.pk)


def said_on(sample: ReleasedSample, dice: Random) -> dict[str, Any]:
    return {rubric.key: {"verdict": dice.choice(VERDICTS[:2]), "error": ""} for rubric in sample.rubrics.all()}


def add_answer(run: Run, sample: ReleasedSample, policy: str, verdicts: Any, response: Response | None) -> None:
    PolicyAnswer.objects.create(
        run=run, sample=sample, policy=policy, response=response, text="Yes.", verdicts=verdicts, status="done"
    )


def change_what_was_said(run: Run, samples: list[int], dice: Random) -> None:
    """Give other answers, verdicts and votes on these samples, or none."""
    change_verdicts(Judgment.objects.filter(rubric__sample__in=samples, run=run), dice)
    for response in Response.objects.filter(run=run, sample__in=samples):
        response.outcome, response.like_reasoning = dice.choice(("answered", "unknown", "refused")), dice.random() < 0.5
        response.save()
    for answer in PolicyAnswer.objects.filter(run=run, sample__in=samples):
        answer.verdicts = said_on(answer.sample, dice)
        answer.save()
    items = ValidationItem.objects.filter(response__run=run, response__sample__in=samples[::2])
    Case.objects.filter(pk__in=items.values("case")).update(state="primary", closed_at=None, ground="")


def change_verdicts(judgments: Iterable[Judgment], dice: Random) -> None:
    for judgment in judgments:
        change(judgment, dice)
        for vote in judgment.votes.all():
            change(vote, dice)


def change(row: Judgment | Vote, dice: Random) -> None:
    row.verdict, row.error, row.status = dice.choice(VERDICTS), "", Work.Status.DONE
    if not row.verdict:
        row.error, row.status = dice.choice(ERRORS), Work.Status.FAILED
    row.save()


def numbers(run: Run, other: Run) -> dict[str, Any]:
    """All that the site says of a run, but for the rates that name withdrawn samples."""
    cache.clear()
    run, other = Run.objects.get(pk=run.pk), Run.objects.get(pk=other.pk)
    said: dict[str, Any] = {}
    for options in (Options(), Options(common=True)):
        report = queries.report(run, options)
        as_dict = json.loads(json.dumps(formats.as_dict(report), default=str))
        del as_dict["errata"]["with_withdrawn"]
        said[f"report {options.common}"] = as_dict
        for name in formats.FORMATS.keys() - {"json"}:
            write, _type = formats.FORMATS[name]
            said[f"{name} {options.common}"] = [line for line in write(report).splitlines() if "With them" not in line]
    report = queries.report(run)
    said["headline"] = headlines.headlines([run])
    said["papers"] = {name: write(report) for name, write in paper_layout.FORMATS.items()}
    said["claims"] = claims_of_run(run).as_json()
    said["validation"] = repr(validation_report(run))
    said["baseline"] = repr(noticed_report(run, OPERATOR))
    compared = compare_runs(run, other, OPERATOR)
    said["compared"] = list(map(asdict, compared.rows)), compared.shared_samples, repr(compared.first_coverage)
    board = leaderboard(run.release)
    said["board"] = list(map(asdict, board.entries)), board.left_out
    said["incomplete"] = repr([result.coverage for result in incomplete_results(run.release)])
    said["power"] = repr(power.release_power(run.release, power.Expectations(models=2)))
    return said


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The paths at which two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from differences(before.get(key), after.get(key), f"{path} / {key}")
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for place, (one, two) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, two, f"{path} / {place}")
    elif before != after:
        yield f"{path}: {before!r}, then {after!r}"


@population
def panels_judged() -> tuple[Run, Run]:
    """Two finished runs on one release, the first with a validation that physicians answered."""
    release, dice = with_controls(16, held_out=3), Random(1)
    Assignment.objects.update(hold=Assignment.Hold.DONE)
    run, other = judged_run(release, 1), judged_run(release, 2)
    judges_services.start_validation(run.pk, n=40, seed=3)
    answer_queue(create_physicians(3), lambda _who, _rubric, _role: dice.choice(("met", "not-met")))
    return run, other


def test_nothing_withdrawn_is_in_a_number(panels_judged: tuple[Run, Run], tmp_path: Path) -> None:
    run, other = panels_judged
    dice, with_them = Random(1), numbers(run, other)
    withdrawn = dice.sample(list(run.release.samples.order_by("position")), 7)
    for sample in withdrawn:
        Sample.objects.filter(pk=sample.version.sample_id).update(status=Sample.Status.APPROVED)
        errata.withdraw(sample.version.sample_id, actor=None, reason="Wrong.")
    before = numbers(run, other)
    assert list(differences(with_them, before)), "they were counted"
    bundle.export_run(Run.objects.get(pk=run.pk), tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
    change_what_was_said(run, [sample.pk for sample in withdrawn], dice)
    assert list(differences(before, numbers(run, other))) == []


def test_nothing_void_is_in_a_number(panels_judged: tuple[Run, Run]) -> None:
    run, other = panels_judged
    Run.objects.filter(pk=run.pk).update(origin=Run.Origin.IMPORTED, study="Made elsewhere")
    dice, with_them = Random(2), numbers(run, other)
    voids = []
    for judgment in dice.sample(list(run.judgments.order_by("pk")), 60):
        rubric = dice.choice((None, judgment.rubric))
        voids.append(
            VoidVerdict(run=run, response=judgment.response, rubric=rubric, reason="edited", at=run.created_at)
        )
    VoidVerdict.objects.bulk_create(voids, ignore_conflicts=True)
    before = numbers(run, other)
    assert list(differences(with_them, before)), "they were counted"
    for void in VoidVerdict.objects.filter(run=run):
        judgments = Judgment.objects.filter(response=void.response)
        if void.rubric:
            judgments = judgments.filter(rubric=void.rubric)
        change_verdicts(judgments, dice)
    assert list(differences(before, numbers(run, other))) == []
