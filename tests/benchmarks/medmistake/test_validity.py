"""The shares of mistakes and scenarios that physicians found valid, on the pages of batches and
releases."""

import pytest
from django.test import Client
from django.urls import reverse

from generation.models import Sample, SampleVersion
from generation.outcomes import services as outcomes_services
from generation.releases import services as releases_services
from generation.releases.data_card import data_card
from generation.samples.validity import Validity, validity
from review.assignments import claims, services
from review.models import User
from review.rules.questions import Answers
from review.turns.turn import turn_of
from tests.benchmarks.medmistake.test_review import rejection_of, versions_in_review
from tests.review.approve import approval_of

__all__ = ["versions_in_review"]


def valid_and_decided() -> dict[str, tuple[int, int]]:
    lines = validity("medmistake", SampleVersion.objects.filter(sample__benchmark="medmistake"))
    return {line.judgment: (line.valid, line.decided) for line in lines}


def submit_next(physician: User, answers: Answers | None = None) -> Sample:
    assignment = claims.claim_next(physician)
    assert assignment is not None
    assert assignment.token is not None
    services.submit(
        turn_of(physician, assignment.pk), assignment.token, answers or approval_of(assignment.case.frozen.form)
    )
    outcomes_services.apply_outcomes()
    return SampleVersion.objects.get(case=assignment.case_id).sample


def test_211_valid_of_299_are_shown_as_70_6_percent_with_an_interval() -> None:
    line = Validity("", "", 299, 211)
    assert line.in_words == "70.6% (65.2–75.4%)"
    assert Validity("", "", 0, 0).in_words == "–"


@pytest.mark.django_db
@pytest.mark.both
def test_mistakes_and_scenarios_are_counted_separately(
    versions_in_review: list[SampleVersion], ana: User, adela: User, client: Client
) -> None:
    assert valid_and_decided() == {}
    sent_back = submit_next(ana, rejection_of("scenario", "gives-away"))
    assert sent_back.status == Sample.Status.REGENERATING
    # Its mistake is valid, its scenario was not, and the sample has no final judgment yet.
    assert valid_and_decided() == {
        "Is the mistake valid?": (1, 1),
        "Is the scenario valid?": (0, 1),
        "All judgments": (0, 0),
    }
    assert submit_next(ana).status == Sample.Status.APPROVED
    assert valid_and_decided() == {
        "Is the mistake valid?": (2, 2),
        "Is the scenario valid?": (1, 2),
        "All judgments": (1, 1),
    }

    client.force_login(adela)
    batch_page = client.get(reverse("generation:batch", args=[sent_back.batch_id])).content.decode()
    assert "Found valid by physicians" in batch_page
    assert "50.0% (9.5–90.5%)" in batch_page
    blocks = client.get(reverse("api:batch-analysis", args=[sent_back.batch_id])).json()["blocks"]
    assert "Found valid by physicians" in {block.get("title") for block in blocks}

    release = releases_services.freeze_release("validated", benchmark="medmistake")
    release_page = client.get(reverse("generation:release", args=[release.name, release.version])).content.decode()
    assert "50.0% (9.5–90.5%)" in release_page
    assert "| Is the scenario valid? | 50.0% (9.5–90.5%) | 1 | 2 | versions |" in data_card(release)
    judgments = client.get(reverse("api:release", args=[release.name, release.version])).json()["judgments"]
    assert [(line["valid"], line["decided"]) for line in judgments] == [(2, 2), (1, 2), (1, 1)]


@pytest.mark.django_db
def test_the_scenario_of_an_invalid_mistake_is_not_counted(versions_in_review: list[SampleVersion], ana: User) -> None:
    assert submit_next(ana, rejection_of("mistake", "not-wrong")).status == Sample.Status.DISCARDED
    submit_next(ana)
    assert valid_and_decided() == {
        "Is the mistake valid?": (1, 2),
        "Is the scenario valid?": (1, 1),
        "All judgments": (1, 2),
    }
