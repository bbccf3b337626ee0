"""Work rows: one holder at a time, no writes without a lease, and expired rows return."""

import uuid
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from generation.engine.task_queue import Claim, finish, lease, renew, requeue_expired, take
from generation.models import Batch, Draft
from generation.models.work import Work
from tests.conftest import Clock, RunConcurrently
from tests.engine import drafts

pytestmark = pytest.mark.both

Status = Work.Status


def queue(batch: Batch) -> Any:
    return Draft.objects.filter(batch=batch).order_by("pk")


@pytest.mark.django_db
def test_take_returns_no_more_rows_than_asked_for_in_queue_order() -> None:
    batch = drafts(20)  # few enough for PostgreSQL to plan a nested loop
    first = take(queue(batch), 3)
    assert [row.pk for row in first] == list(queue(batch).values_list("pk", flat=True)[:3])
    assert {row.status for row in first} == {Status.RUNNING}
    assert {row.tries for row in first} == {1}
    assert queue(batch).filter(status=Status.QUEUED).count() == 17
    assert len(take(queue(batch), 17)) == 17
    assert take(queue(batch), 5) == []


@pytest.mark.django_db
def test_a_repeated_claim_returns_the_rows_that_it_took_before() -> None:
    batch = drafts(5)
    claim = Claim()
    first = take(queue(batch), 3, claim)
    again = take(queue(batch), 3, Claim(claim.token, again=True))
    assert [row.pk for row in again] == [row.pk for row in first]
    assert {row.tries for row in again} == {1}
    assert len(take(queue(batch), 4, Claim(claim.token, again=True))) == 4, "and a free row besides"
    assert len(take(queue(batch), 9, Claim(again=True))) == 1, "but no row of another claim"


@pytest.mark.django_db
def test_rows_of_other_batches_are_not_taken() -> None:
    one, other = drafts(2, "one"), drafts(2, "other")
    assert {row.batch_id for row in take(queue(one), 10)} == {one.pk}
    assert queue(other).filter(status=Status.QUEUED).count() == 2


def test_eight_takers_never_get_the_same_row(run_concurrently: RunConcurrently) -> None:
    batch = drafts(60)

    def taker() -> list[int]:
        taken: list[int] = []
        while rows := take(queue(batch), 3):
            assert len(rows) <= 3
            taken += [row.pk for row in rows]
        return taken

    outcomes = run_concurrently([taker] * 8)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    taken = [pk for outcome in outcomes for pk in outcome]
    assert len(taken) == len(set(taken)) == 60
    assert set(queue(batch).values_list("tries", flat=True)) == {1}


@pytest.mark.django_db
def test_a_worker_that_lost_its_lease_writes_nothing(clock: Clock) -> None:
    batch = drafts(1)
    [late] = take(queue(batch), 1)
    clock.advance(seconds=lease().total_seconds() + 1)
    assert requeue_expired(Draft) == 1
    [holder] = take(queue(batch), 1)
    assert holder.tries == 2
    assert not finish(late, Status.FAILED, error="Late", data={"late": True})
    row = Draft.objects.get()
    assert (row.status, row.token, row.error, row.data) == (Status.RUNNING, holder.token, "", {})
    assert finish(holder, Status.DONE, data={"kept": True})
    assert not finish(holder, Status.FAILED), "a finished row stays finished"
    row.refresh_from_db()
    assert (row.status, row.data, row.token, row.lease_until) == (Status.DONE, {"kept": True}, None, None)


@pytest.mark.django_db
def test_only_rows_with_an_expired_lease_return_to_the_queue(clock: Clock) -> None:
    batch = drafts(3)
    take(queue(batch), 1)
    clock.advance(seconds=lease().total_seconds() - 1)
    take(queue(batch), 1)
    clock.advance(seconds=2)
    assert requeue_expired(Draft) == 1
    assert list(queue(batch).values_list("status", flat=True)) == [Status.QUEUED, Status.RUNNING, Status.QUEUED]


@pytest.mark.django_db
def test_only_the_holder_of_a_row_renews_its_lease(clock: Clock) -> None:
    batch = drafts(2)
    [late] = take(queue(batch), 1)
    clock.advance(seconds=lease().total_seconds() + 1)
    requeue_expired(Draft)
    [holder] = take(queue(batch), 1)
    held_until = Draft.objects.get(pk=holder.pk).lease_until
    clock.advance(seconds=5)
    renew(Draft, {late.token})
    assert Draft.objects.get(pk=holder.pk).lease_until == held_until
    renew(Draft, {holder.token})
    assert Draft.objects.get(pk=holder.pk).lease_until == clock.now + lease()
    assert Draft.objects.filter(status=Status.QUEUED, lease_until=None).count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": Status.RUNNING},
        {"status": Status.QUEUED, "token": uuid.uuid4()},
        {"status": Status.DONE, "lease_until": timezone.now()},
        {"status": "lost"},
    ],
    ids=["running without lease", "queued with token", "done with lease", "unknown"],
)
@pytest.mark.django_db
def test_the_database_refuses_impossible_rows(wrong: dict[str, Any]) -> None:
    batch = drafts(1)
    with pytest.raises(IntegrityError), transaction.atomic():
        queue(batch).update(**wrong)
