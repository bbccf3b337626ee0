"""A whole batch with simulated models: the planted mistakes are found, and merged as they were planted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb
from pathlib import Path

import pytest

from generation.batches import queries
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import BarrierRound, Batch, Draft, MergeEvent, Sample
from generation.models.work import Work
from mhb_site.benchmarks.medmistake import simulate, simulate_conversation
from tests.benchmarks.medmistake.conversations import DOCTORS, launched, source, worked
from tests.profile import far

pytestmark = pytest.mark.django_db
SEED = 11
CASES = far(4, 10)


@pytest.fixture(scope="module")
def talkers() -> Iterator[str]:
    with run_in_background(make_app([simulate.SCRIPT], seed=SEED, faults=(), retry_after=0.001)) as url:
        yield url


def adjusted_rand(one: Sequence[object], other: Sequence[object]) -> float:
    """Hubert and Arabie 1985: 1 for the same partition, 0 on average by chance."""
    pairs = sum(comb(n, 2) for n in Counter(zip(one, other, strict=True)).values())
    ones, others = (sum(comb(n, 2) for n in Counter(some).values()) for some in (one, other))
    expected = ones * others / comb(len(one), 2)
    most = (ones + others) / 2
    return 1.0 if most == expected else (pairs - expected) / (most - expected)


def test_the_adjusted_rand_index_has_its_known_values() -> None:
    assert adjusted_rand("aabb", "ccdd") == 1
    assert adjusted_rand("aaabbb", "aabbcc") == pytest.approx(0.24242424)


def test_planted_mistakes_are_found_merged_and_replayed(talkers: str, tmp_path: Path) -> None:
    batch = worked(launched(source(tmp_path, CASES), talkers))
    drafts = Draft.objects.filter(batch=batch)
    assert batch.status == Batch.Status.FINISHED, drafts.exclude(error="").values("step", "status", "error", "detail")
    assert not drafts.filter(status=Work.Status.FAILED).exists(), drafts.values("error", "detail")
    talks = drafts.filter(parent=None)
    assert talks.count() == CASES * len(DOCTORS)
    # What was found is what was planted, but for what both judges overlooked.
    made, found = set[tuple[int, str]](), set[tuple[int, str]]()
    for talk in talks:
        first = talk.data["conversation"][0]["text"]
        there = simulate_conversation.opportunities(first, SEED)
        made |= {
            (talk.pk, each.key)
            for each in there
            if simulate_conversation.makes_mistake(talk.data["doctor"], first, each, SEED)
        }
        assert talk.data["ended"] == "patient"
        assert not any(talk.data["unscored"].values())
    arrived = list(drafts.filter(onward__isnull=False).select_related("parent"))
    found = {(row.parent_id or row.pk, simulate_conversation.key_of(row.data["mistake"]["title"])) for row in arrived}
    assert found <= made
    assert len(found) >= 0.9 * len(made)
    # They are merged as they were planted.
    truth = [simulate_conversation.key_of(row.data["mistake"]["title"]) for row in arrived]
    assert adjusted_rand(truth, [row.onward_id for row in arrived]) > 0.9
    assert MergeEvent.objects.filter(draft__batch=batch).count() == len(arrived) - len(set(truth))
    assert BarrierRound.objects.get().status == Work.Status.DONE
    # Each goes on with its members.
    for row in drafts.filter(arrivals__isnull=False).distinct():
        assert len(row.data["mistake"]["members"]) == row.arrivals.count()
    assert Sample.objects.filter(batch=batch).exists()
    assert not drafts.filter(gate="stopped").exists(), drafts.filter(gate="stopped").values("detail")
    blocks = queries.analysis(batch)
    assert blocks
