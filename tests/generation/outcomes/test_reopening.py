"""Approved samples of a careless physician are reviewed again; releases do not change."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from generation.models import Sample, SampleVersion
from generation.outcomes import reopening
from generation.outcomes.services import apply_outcomes
from generation.releases import services as releases_services
from generation.samples import errata
from review.access import visibility
from review.assignments import retraction
from review.audit import cases as audit_cases
from review.models import Case, Event, User
from review.people import accounts
from tests.api.conftest import Api, api
from tests.conftest import PHYSICIANS, Beside, accounts_of
from tests.engine import Manage, approve_samples, conversations_file, import_file
from tests.populations import population
from tests.review.approve import approve_everything

pytestmark = pytest.mark.django_db
__all__ = ["api"]
REASON = "Two seconds a case."


@population
def approved_samples(folder: Path, models: str) -> list[Sample]:
    source = import_file(conversations_file(folder / "own.jsonl", 2))
    return approve_samples(source, models, accounts_of(*PHYSICIANS[:2]))


def states(samples: Sequence[Sample]) -> set[tuple[str, str, str]]:
    """(sample, version, case): their states."""
    versions = SampleVersion.objects.filter(sample__in=samples).select_related("sample", "case")
    return {(version.sample.status, version.status, version.case.state) for version in versions}


@pytest.mark.parametrize("role", ["primary", "secondary"])
def test_cases_are_reviewed_again_by_others(approved_samples: list[Sample], adela: User, role: str) -> None:
    case = approved_samples[0].versions.get().case
    careless = case.assignments.get(role=role).physician
    assert careless is not None
    accounts.set_paused(careless.pk, True, actor=adela)
    errata.report(approved_samples[0].pk, actor=adela, reason="False.")
    result = reopening.reopen(careless.pk, actor=adela, reason=REASON)
    assert list(errata._undecided()) == [], "nobody could decide on it"
    assert (result.cases, result.kept, result.released) == (2, 0, ())
    case.refresh_from_db()
    assert case.state == role, "of the secondary's case, the primary's review stays"
    assert {(sample, version) for sample, version, _case in states(approved_samples)} == {("in-review", "in-review")}
    assert not SampleVersion.objects.exclude(rubrics__approved="").exists()
    assert not visibility.counted_reviews().filter(physician=careless).exists()
    events = Event.objects.filter(case=case, actor=adela).order_by("id").values_list("kind", flat=True)
    assert list(events)[-1] == "moved"
    assert "retracted" in events
    approve_everything(accounts_of(*PHYSICIANS))
    apply_outcomes()
    assert states(approved_samples) == {("approved", "approved", "approved")}
    assert careless not in [review.physician for review in visibility.counted_reviews().filter(case=case)]
    assert audit_cases.mismatches(list(Case.objects.values_list("pk", flat=True))) == []
    errata.dismiss(approved_samples[0].pk, actor=adela, reason="Others found it right.")
    assert releases_services.freeze_release("own", benchmark="mhb").samples_count == 2


def test_a_secondarys_reviews_can_be_restored(approved_samples: list[Sample], adela: User) -> None:
    careless = approved_samples[0].versions.get().case.assignments.get(role="secondary").physician
    assert careless is not None
    reopening.reopen(careless.pk, actor=adela, reason=REASON)
    assert retraction.restore(careless.pk, actor=adela).cases == 2
    apply_outcomes()
    assert ("approved", "approved", "approved") in states(approved_samples)
    assert audit_cases.mismatches(list(Case.objects.values_list("pk", flat=True))) == []


def test_released_samples_stay_and_are_named(approved_samples: list[Sample], adela: User, api: Api) -> None:
    careless = approved_samples[0].versions.get().case.assignments.get(role="primary").physician
    assert careless is not None
    release = releases_services.freeze_release("own", benchmark="mhb")
    assert retraction.set_aside(careless.pk, actor=adela, reason=REASON).closed == 2
    sent = api(adela).post(f"/api/v1/reviewers/{careless.pk}/reopen/", {"reason": REASON}).json()
    assert sent == {"cases": 0, "kept": 0, "released": [sample.pk for sample in approved_samples]}
    assert states(approved_samples) == {("approved", "approved", "approved")}
    assert release.samples.count() == 2


def test_the_command_reopens(approved_samples: list[Sample], adela: User, manage: Manage) -> None:
    careless = approved_samples[0].versions.get().case.assignments.get(role="primary").physician
    assert careless is not None
    assert "no physician" in manage.refusal("reopen_samples", adela.username, "--reason", REASON)
    answer = manage.json("reopen_samples", careless.username, "--reason", REASON)
    assert answer == {"cases": 2, "kept": 0, "released": []}
    assert audit_cases.mismatches(list(Case.objects.values_list("pk", flat=True))) == []


def test_the_page_of_a_careless_physician_offers_it(
    approved_samples: list[Sample], adela: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = approved_samples[0].versions.get().case.assignments.get(role="primary").physician
    assert careless is not None
    monkeypatch.setattr(retraction, "is_set_aside", lambda _person: True)
    client.force_login(adela)
    address = reverse("review:reviewer", args=[careless.pk])
    assert "Have 2 approved samples reviewed again" in client.get(address).content.decode()
    reopen = reverse("generation:reopen", args=[careless.pk])
    done = client.post(reopen, {"reason": REASON}, follow=True).content.decode()
    assert "Cases that others will review again: 2." in done
    assert "approved samples reviewed again" not in done


def test_apply_outcomes_leaves_a_locked_sample_to_the_next_sweep(beside: Beside, tmp_path: Path, models: str) -> None:
    """A merge that withdraws a sample locks it before its versions."""
    source = import_file(conversations_file(tmp_path / "own.jsonl", 2))
    samples = approve_samples(source, models, accounts_of(*PHYSICIANS))
    SampleVersion.objects.update(status=SampleVersion.Status.IN_REVIEW)
    with transaction.atomic():
        Sample.objects.select_for_update(no_key=True).get(pk=samples[0].pk)
        if connection.vendor == "postgresql":  # SQLite has one writer at a time
            assert beside(apply_outcomes) == 1
    assert apply_outcomes() >= 1
    assert states(samples) == {("approved", "approved", "approved")}
