"""What physicians noticed before the reveal beside what models fell for: counted right, and nothing told of few or of one."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.models import Judgment, Run
from evaluation.noticed import queries
from generation.models import Release
from generation.releases import services as releases_services
from generation.samples import services as samples_services
from review.assignments import first_look
from review.models import CalibrationItem, User
from review.rules.questions import Answer, Answers, Form
from tests.api.conftest import Api, api
from tests.engine import bare_release
from tests.evaluation.test_pages import counted, judged, text_of
from tests.populations import population
from tests.review.approve import approval
from tests.review.factories import account, send
from tests.site.world import World

__all__ = ["api"]
pytestmark = pytest.mark.django_db
SAID = {20: ("yes", "yes"), 21: ("yes", "no"), 22: ("no", "no")}  # by the two reviewers of each sample


def says(form: Form, noticed: str) -> Answers:
    found = approval(form)
    return replace(
        found, questions={**found.questions, "noticed": Answer(noticed, "The drug." if noticed == "yes" else "")}
    )


@population
def made() -> tuple[World, Release, Run]:
    world = World()
    CalibrationItem.objects.update(active=False)  # nobody is handed one by chance
    world.people |= {name: account(name) for name in ("pia", "quy")}  # who hold no case
    release = second(world)
    return world, release, measured(release)


@pytest.fixture
def world(made: tuple[World, Release, Run]) -> World:
    return made[0]


@pytest.fixture
def release(made: tuple[World, Release, Run]) -> Release:
    return made[1]


@pytest.fixture
def run(made: tuple[World, Release, Run]) -> Run:
    return made[2]


def second(world: World) -> Release:
    """The world's two samples, in which nobody noticed anything, and three about which physicians said what SAID says."""
    for number, said in SAID.items():
        case = world.opens(number)
        for name, noticed in zip(("pia", "quy"), said, strict=True):
            assignment = world.takes(name, case, looks=False)
            assert assignment.token is not None
            answers = says(case.frozen.form, noticed)
            first_look.reveal(world[name], assignment.pk, assignment.token, answers)
            send(assignment, answers)
        send(world.takes("quy", case), answers)  # the secondary confirms
        case.refresh_from_db()
        assert case.state == "approved"
    samples_services.apply_outcomes()
    return releases_services.freeze_release("second", benchmark="mhb", actor=world["adela"])


def measured(release: Release) -> Run:
    """`one` fails where both physicians noticed nothing; `two` never fails."""
    made = judged(release, "one", "two", verdicts=("met",))
    keys = [sample.key for sample in queries.noticed_report(made).samples if not sample.physicians.noticed]
    hard = Judgment.objects.filter(run=made, response__endpoint__name="one", rubric__sample__key__in=keys)
    hard.update(verdict="not_met")
    return made


def test_counted_by_sample_by_group_and_by_trap(run: Run) -> None:
    report = queries.noticed_report(run)
    assert (report.asked, report.answers, report.endpoints) == (5, 10, ("one", "two"))
    assert sorted(each.physicians.noticed for each in report.samples) == [0, 0, 0, 1, 2]
    assert {each.physicians.asked for each in report.samples} == {2}
    for sample in report.samples:
        assert (sample.models.hits, sample.models.counted) == (0 if sample.physicians.noticed else 2, 4)
    groups = {group.name: group for group in report.groups}
    assert {name: (group.samples, group.answers) for name, group in groups.items()} == {
        "none": (3, 6), "some": (1, 2), "all": (1, 2),
    }  # fmt: skip
    assert [rate.value for rate in groups["none"].rates] == [1.0, 0.0]
    assert [rate.value for rate in groups["all"].rates] == [0.0, 0.0]
    assert groups["none"].rates[0].low is None, "three samples are too few for an interval"
    [trap] = report.traps
    assert (trap.code, trap.samples, trap.answers) == ("A1", 5, 10)
    assert trap.physicians == queries.PhysicianCount(3, 10)
    assert (trap.models.hits, trap.models.counted) == (6, 20)


def test_nothing_is_said_of_few(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MINIMUM", 11)
    monkeypatch.setattr(queries, "MIN_SAMPLE_ANSWERS", 3)
    report = queries.noticed_report(run)
    assert report.traps[0].physicians is None
    assert report.samples == ()
    assert {group.samples for group in report.groups} == {0}


def test_the_page_names_no_physician(run: Run, world: World) -> None:
    client = Client()
    client.force_login(world["rui"])
    text = text_of(client.get(reverse("evaluation:noticed", args=[run.pk])))
    assert "3 / 10" in text
    assert "30.0%" in text
    main = text.partition("<main")[2]
    for name in ("ana", "bo", "pia", "quy"):
        person = world[name]
        assert f">{person.username}<" not in main
        assert person.get_full_name() not in main or not person.get_full_name()
    assert reverse("evaluation:noticed", args=[run.pk]) in text_of(client.get(reverse("evaluation:run", args=[run.pk])))


def test_a_release_that_nobody_was_asked_about(db: None, rui: User) -> None:
    run = judged(bare_release(("dialogue", [["A1"]])), "one")
    client = Client()
    client.force_login(rui)
    assert "No physician was asked" in text_of(client.get(reverse("evaluation:noticed", args=[run.pk])))
    assert queries.noticed_report(run).traps == ()


def test_it_asks_as_often_however_many_models_there_are(run: Run, release: Release, world: World) -> None:
    client = Client()
    client.force_login(world["rui"])
    many = judged(release, *(f"m{number}" for number in range(9)))
    one, other = (reverse("evaluation:noticed", args=[each.pk]) for each in (run, many))
    client.get(one)
    assert counted(client, one) == counted(client, other)


def test_over_the_api(run: Run, api: Api, world: World) -> None:
    address = reverse("api:run-noticed", args=[run.pk])
    told: Any = api(world["rui"]).get(address).json()
    assert told["traps"][0]["physicians"] == {"noticed": 3, "asked": 10}
    assert [rate["endpoint"] for rate in told["groups"][0]["rates"]] == ["one", "two"]
    assert len(told["samples"]) == 5
    assert api(world["ana"]).get(address).status_code == 403
