"""Traps that physicians noticed before the reveal, beside those that models fell for.

The counts are right, and nothing is published about small groups or single physicians.
"""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.human_baseline import queries
from evaluation.models import Judgment, Run
from generation.models import Release
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.samples import errata
from review.assignments import first_look
from review.models import CalibrationItem, User
from review.rules.permissions import OPERATOR
from review.rules.questions import Answer, Answers, Form
from review.turns.turn import turn_of
from tests.api.conftest import Api, api
from tests.engine import bare_release
from tests.evaluation.test_pages import judged_run, query_count, text_of
from tests.populations import population
from tests.review.approve import approval_of
from tests.review.factories import account, submit
from tests.site.world import World

__all__ = ["api"]
pytestmark = pytest.mark.django_db
# Number of a case -> what its two reviewers answered to "noticed".
NOTICED = {20: ("yes", "yes"), 21: ("yes", "no"), 22: ("no", "no")}


def answers_with(form: Form, noticed: str) -> Answers:
    """Answers that approve, with this answer to the question "noticed"."""
    answers = approval_of(form)
    return replace(
        answers, questions={**answers.questions, "noticed": Answer(noticed, "The drug." if noticed == "yes" else "")}
    )


@population
def evaluated_world() -> tuple[World, Release, Run]:
    world = World()
    CalibrationItem.objects.update(active=False)  # so that nobody is handed a calibration case by chance
    world.people |= {name: account(name) for name in ("pia", "quy")}  # they hold no case yet
    release = freeze_second_release(world)
    return world, release, run_that_falls_for_hard_samples(release)


@pytest.fixture
def world(evaluated_world: tuple[World, Release, Run]) -> World:
    return evaluated_world[0]


@pytest.fixture
def release(evaluated_world: tuple[World, Release, Run]) -> Release:
    return evaluated_world[1]


@pytest.fixture
def run(evaluated_world: tuple[World, Release, Run]) -> Run:
    return evaluated_world[2]


def freeze_second_release(world: World) -> Release:
    """Freeze the samples of the world, in which nobody noticed anything, and those of NOTICED."""
    for number, reviewers_noticed in NOTICED.items():
        case = world.open_case(number)
        for name, noticed in zip(("pia", "quy"), reviewers_noticed, strict=True):
            assignment = world.claim(name, case, reveal=False)
            assert assignment.token is not None
            answers = answers_with(case.frozen.form, noticed)
            first_look.reveal(turn_of(world[name], assignment.pk), assignment.token, answers)
            submit(assignment, answers)
        submit(world.claim("quy", case), answers)  # the secondary confirms
        case.refresh_from_db()
        assert case.state == "approved"
    outcomes_services.apply_outcomes()
    return releases_services.freeze_release("second", benchmark="mhb", actor=world["adela"])


def run_that_falls_for_hard_samples(release: Release) -> Run:
    """`one` fails where both physicians noticed nothing; `two` never fails."""
    run = judged_run(release, "one", "two", verdicts=("met",))
    keys = [sample.key for sample in queries.noticed_report(run, OPERATOR).samples if not sample.physicians.noticed]
    hard = Judgment.objects.filter(run=run, response__endpoint__name="one", rubric__sample__key__in=keys)
    hard.update(verdict="not_met")
    return run


def test_physicians_and_models_are_counted_by_sample_group_and_trap(run: Run) -> None:
    report = queries.noticed_report(run, OPERATOR)
    assert (report.asked, report.answers, report.endpoints) == (5, 10, ("one", "two"))
    assert sorted(sample.physicians.noticed for sample in report.samples) == [0, 0, 0, 1, 2]
    assert {sample.physicians.asked for sample in report.samples} == {2}
    for sample in report.samples:
        assert (sample.models.hits, sample.models.counted) == (0 if sample.physicians.noticed else 2, 4)
    groups = {group.name: group for group in report.groups}
    assert {name: (group.samples, group.answers) for name, group in groups.items()} == {
        "none": (3, 6), "some": (1, 2), "all": (1, 2),
    }  # fmt: skip
    assert [model.value for model in groups["none"].rates] == [1.0, 0.0]
    assert [model.value for model in groups["all"].rates] == [0.0, 0.0]
    assert groups["none"].rates[0].low is None, "three samples are too few for an interval"
    [trap] = report.traps
    assert (trap.code, trap.samples, trap.answers) == ("A1", 5, 10)
    assert trap.physicians == queries.PhysicianCount(3, 10)
    assert (trap.models.hits, trap.models.counted) == (6, 20)


def test_what_physicians_noticed_in_a_withdrawn_sample_does_not_count(run: Run) -> None:
    seen = next(sample for sample in queries.noticed_report(run, OPERATOR).samples if sample.physicians.noticed == 2)
    released = run.release.samples.get(key=seen.key)
    errata.withdraw(released.version.sample_id, actor=None, reason="Wrong.")
    report = queries.noticed_report(run, OPERATOR)
    assert (report.asked, report.answers) == (4, 8)
    [trap] = report.traps
    assert (trap.samples, trap.answers) == (4, 8)


def test_a_sample_without_a_verdict_on_a_model_is_in_no_number(run: Run) -> None:
    """As for the models, so for the physicians: both are compared on the same samples."""
    seen = next(sample for sample in queries.noticed_report(run, OPERATOR).samples if sample.physicians.noticed == 2)
    Judgment.objects.filter(run=run, rubric__sample__key=seen.key).update(verdict="", status="failed")
    report = queries.noticed_report(run, OPERATOR)
    assert (report.asked, report.answers, len(report.samples)) == (4, 8, 4)
    [trap] = report.traps
    assert (trap.samples, trap.answers, trap.physicians) == (4, 8, None)
    assert {group.name: group.samples for group in report.groups} == {"none": 3, "some": 1, "all": 0}


def test_nothing_is_reported_on_small_groups(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MINIMUM", 11)
    monkeypatch.setattr(queries, "MIN_SAMPLE_ANSWERS", 3)
    report = queries.noticed_report(run, OPERATOR)
    assert report.traps[0].physicians is None
    assert report.samples == ()
    assert {group.samples for group in report.groups} == {0}


def test_the_page_names_no_physician(run: Run, world: World) -> None:
    client = Client()
    client.force_login(world["rui"])
    text = text_of(client.get(reverse("evaluation:human-baseline", args=[run.pk])))
    assert "3 / 10" in text
    assert "30.0%" in text
    main = text.partition("<main")[2]
    for name in ("ana", "bo", "pia", "quy"):
        person = world[name]
        assert f">{person.username}<" not in main
        assert person.get_full_name() not in main or not person.get_full_name()
    assert reverse("evaluation:human-baseline", args=[run.pk]) in text_of(
        client.get(reverse("evaluation:run", args=[run.pk]))
    )


def test_the_report_is_empty_when_no_physician_was_asked(db: None, rui: User) -> None:
    run = judged_run(bare_release(("dialogue", [["A1"]])), "one")
    client = Client()
    client.force_login(rui)
    assert "No sample has both" in text_of(client.get(reverse("evaluation:human-baseline", args=[run.pk])))
    assert queries.noticed_report(run, OPERATOR).traps == ()


def test_the_number_of_queries_does_not_grow_with_the_models(run: Run, release: Release, world: World) -> None:
    client = Client()
    client.force_login(world["rui"])
    many = judged_run(release, *(f"m{number}" for number in range(9)))
    small, large = (reverse("evaluation:human-baseline", args=[counted_run.pk]) for counted_run in (run, many))
    client.get(small)
    assert query_count(client, small) == query_count(client, large)


def test_the_api_gives_the_report_to_researchers_only(run: Run, api: Api, world: World) -> None:
    address = reverse("api:run-human-baseline", args=[run.pk])
    report: Any = api(world["rui"]).get(address).json()
    assert report["traps"][0]["physicians"] == {"noticed": 3, "asked": 10}
    assert [rate["endpoint"] for rate in report["groups"][0]["rates"]] == ["one", "two"]
    assert len(report["samples"]) == 5
    assert api(world["ana"]).get(address).status_code == 403
