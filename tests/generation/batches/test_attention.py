"""The overview tells an admin what to do first, and which batches lead nowhere."""

from pathlib import Path

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from generation.batches import attention
from generation.models import Batch, Draft, Endpoint
from generation.models.work import Work
from generation.samples import services as samples_services
from review.models import Case, User
from review.rules.permissions import UserRole
from tests.engine import conversations_file, endpoint, import_file, launch_batch
from tests.review.approve import approval_of
from tests.review.factories import account, claim_and_submit
from tests.review.pages import text_of
from tests.site.world import sample

pytestmark = pytest.mark.django_db
NOWHERE = "http://localhost:9/v1"


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    cache.clear()


def _overview(client: Client, adela: User) -> str:
    client.force_login(adela)
    cache.clear()
    return text_of(client.get(reverse("review:overview")))


def _batch(folder: Path, records: int = 1) -> Batch:
    source = import_file(conversations_file(folder / "own.jsonl", records))
    return launch_batch(source, endpoint(NOWHERE))


def _finish_with_case(batch: Batch) -> Case:
    draft = Draft.objects.get(batch=batch)
    case = samples_services.make_version(draft, batch, sample(1)).case
    Draft.objects.filter(pk=draft.pk).update(status=Work.Status.DONE)
    Batch.objects.filter(pk=batch.pk).update(status=Batch.Status.FINISHED)
    return case


def test_the_first_steps_tick_themselves_and_leave(client: Client, adela: User, tmp_path: Path) -> None:
    def done() -> list[bool]:
        return [step.done for step in attention.first_steps(None)["first_steps"]]

    assert done() == [False] * 5
    assert "Add four physicians" in _overview(client, adela)
    first, *_others, last = (account(name) for name in ("ana", "bo", "chen", "dina"))
    assert done() == [True, False, False, False, False]
    User.objects.filter(role=UserRole.PHYSICIAN).update(languages=["en"])
    assert done() == [True, True, False, False, False]
    batch = _batch(tmp_path)
    assert done() == [True, True, False, True, False], "an endpoint that nobody tested is no step done"
    Endpoint.objects.update(last_test={"answered": True})
    _finish_with_case(batch)
    assert done() == []
    assert "First steps" not in _overview(client, adela)
    User.objects.filter(pk=last.pk).update(is_active=False)
    assert done() == [False, True, True, True, True]
    claim_and_submit(first, approval_of)
    assert done() == [], "a site that reviews is not new"


def test_a_finished_batch_without_a_sample_is_named(client: Client, adela: User, tmp_path: Path) -> None:
    batch = _batch(tmp_path, records=2)
    Draft.objects.filter(batch=batch).update(status=Work.Status.DROPPED)
    assert "without a sample" not in _overview(client, adela), "it is still running"
    Batch.objects.filter(pk=batch.pk).update(status=Batch.Status.FINISHED)
    assert "finished without a sample: of 2 drafts 2 were dropped and 0 failed" in _overview(client, adela)
    page = text_of(client.get(reverse("generation:batch", args=[batch.pk])))
    assert "finished without a sample: of 2 drafts 2 were dropped and 0 failed" in page


@pytest.mark.both
def test_cases_that_no_physician_can_take_are_named(client: Client, adela: User, tmp_path: Path) -> None:
    case = _finish_with_case(_batch(tmp_path))
    warning = "1 case that no physician can take"
    assert warning in _overview(client, adela)
    for fields in ({"languages": ["zh"]}, {"stages": ["secondary"]}, {"specialty": "dermatology"}):
        account(f"reads-{next(iter(fields))}", **fields)
    case.assignments.update(specialty="cardiology")
    assert warning in _overview(client, adela), "none of the three reads English, primary and cardiology"
    account("ana", languages=["en"], specialty="cardiology", stages=["primary"])
    assert warning not in _overview(client, adela)
    User.objects.filter(username="ana").update(is_active=False)
    assert warning in _overview(client, adela)
