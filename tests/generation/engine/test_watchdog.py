"""Time that a row spends outside of calls is limited, and a row that hung fails by name."""

import asyncio
from dataclasses import replace

import pytest

from generation.batches import services
from generation.engine import watchdog
from generation.engine.task_queue import finish, requeue_expired, take
from generation.engine.watchdog import calling, condemn, limit_waiting
from generation.llm.errors import TooSlow
from generation.models import Draft
from generation.models.work import Work
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Models, Step
from mhb_site.benchmarks.mhb import recipe
from tests.conftest import Clock
from tests.engine import drafts, status_counts

Status = Work.Status


@pytest.mark.plain
def test_only_time_outside_of_calls_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draft, "seconds_allowed", 0.01)
    monkeypatch.setattr(watchdog, "PATIENCE", 2)

    async def ask() -> None:
        with calling():
            await asyncio.sleep(0.1)

    async def work(*, waits: bool) -> None:
        async with limit_waiting(Draft()):
            await asyncio.gather(ask(), ask())
            await ask()
            if waits:
                await asyncio.sleep(60)

    asyncio.run(work(waits=False))
    with pytest.raises(TooSlow):
        asyncio.run(work(waits=True))


@pytest.mark.django_db
def test_a_row_that_has_ended_or_gone_on_is_not_condemned(clock: Clock) -> None:
    batch = drafts(3)
    hung, ended, other = take(batch.drafts.order_by("pk"), 3)
    finish(ended, Status.DONE)
    finish(other, Status.QUEUED, tries=0)
    clock.advance(minutes=2)
    requeue_expired(Draft)
    for row in (hung, ended, other):
        condemn(Draft, row.pk, row.token, row.tries)
    rows = list(batch.drafts.order_by("pk").values_list("status", "error"))
    assert rows == [(Status.QUEUED, "TooSlow"), (Status.DONE, ""), (Status.QUEUED, "")]


@pytest.mark.django_db(transaction=True)
def test_a_step_that_only_waits_is_cancelled_and_fails_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = drafts(3)
    first = batch.drafts.order_by("pk").values_list("record__external_id", flat=True)[0]

    async def hang(draft: DraftValue, models: Models) -> list[DraftValue]:
        if draft.record.external_id == first:
            await asyncio.sleep(60)
        return []

    monkeypatch.setattr(Draft, "seconds_allowed", 0.1)
    steps = (Step("hang", hang),)
    monkeypatch.setattr("mhb_site.benchmarks.mhb.recipe.RECIPE", replace(recipe.RECIPE, steps=steps))
    services.work_on_batch(batch.pk)
    assert status_counts(batch) == {Status.FAILED: 1, Status.DROPPED: 2}
    assert batch.drafts.get(status=Status.FAILED).error == "TooSlow"
