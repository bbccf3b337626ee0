"""A whole batch with simulated models finds the planted mistakes and merges those of the same
kind."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb
from pathlib import Path

import pytest

from generation.batches import queries
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import BarrierRound, Batch, Draft, MergeEvent, Sample
from generation.models.work import Work
from mhb_site.benchmarks.medmistake import lineage, simulate, simulate_conversation
from tests.benchmarks.medmistake.conversations import DOCTORS, import_cases, launch_conversations, work_until_idle
from tests.profile import by_profile

pytestmark = pytest.mark.django_db
SEED = 11
CASES = by_profile(4, 10)


@pytest.fixture(scope="module")
def models_url() -> Iterator[str]:
    with run_in_background(make_app([simulate.SCRIPT], seed=SEED, faults=(), retry_after=0.001)) as url:
        yield url


def adjusted_rand(first: Sequence[object], second: Sequence[object]) -> float:
    """Return the index of Hubert and Arabie (1985): 1 for equal partitions, 0 on average by
    chance."""
    pairs = sum(comb(n, 2) for n in Counter(zip(first, second, strict=True)).values())
    pairs_first, pairs_second = (sum(comb(n, 2) for n in Counter(labels).values()) for labels in (first, second))
    expected = pairs_first * pairs_second / comb(len(first), 2)
    maximum = (pairs_first + pairs_second) / 2
    return 1.0 if maximum == expected else (pairs - expected) / (maximum - expected)


def test_the_adjusted_rand_index_has_known_values() -> None:
    assert adjusted_rand("aabb", "ccdd") == 1
    assert adjusted_rand("aaabbb", "aabbcc") == pytest.approx(0.24242424)


def planted_key(row: Draft) -> str:
    mistake = simulate_conversation.mistake_of(row.data["mistake"]["title"])
    return mistake.key if mistake else ""


def test_planted_mistakes_are_found_merged_and_turned_into_samples(models_url: str, tmp_path: Path) -> None:
    batch = work_until_idle(launch_conversations(import_cases(tmp_path, CASES), models_url))
    drafts = Draft.objects.filter(batch=batch)
    assert batch.status == Batch.Status.FINISHED, drafts.exclude(error="").values("step", "status", "error", "detail")
    assert not drafts.filter(status=Work.Status.FAILED).exists(), drafts.values("error", "detail")
    conversations = drafts.filter(parent=None)
    assert conversations.count() == CASES * len(DOCTORS)
    # All mistakes found were planted; those missing were overlooked by both judges.
    planted, detected = set[tuple[int, str]](), set[tuple[int, str]]()
    for conversation in conversations:
        first = conversation.data["conversation"][0]["text"]
        opportunities = simulate_conversation.opportunities(first, SEED)
        planted |= {
            (conversation.pk, opportunity.key)
            for opportunity in opportunities
            if simulate_conversation.makes_mistake(conversation.data["doctor"], first, opportunity, SEED)
        }
        assert conversation.data["ended"] == "patient"
        assert not any(conversation.data["unscored"].values())
    arrived = list(drafts.filter(onward__isnull=False).select_related("parent"))
    detected = {(row.parent_id or row.pk, planted_key(row)) for row in arrived}
    assert detected <= planted
    assert len(detected) >= 0.9 * len(planted)
    # Mistakes are merged if they were planted as the same kind.
    planted_keys = [planted_key(row) for row in arrived]
    assert adjusted_rand(planted_keys, [row.onward_id for row in arrived]) > 0.9
    assert MergeEvent.objects.filter(draft__batch=batch).count() == len(arrived) - len(set(planted_keys))
    assert BarrierRound.objects.get().status == Work.Status.DONE
    # Each merged draft continues with its members.
    for row in drafts.filter(arrivals__isnull=False).distinct():
        assert len(row.data["mistake"]["members"]) == row.arrivals.count()
    assert Sample.objects.filter(batch=batch).exists()
    assert not drafts.filter(gate="stopped").exists(), drafts.filter(gate="stopped").values("detail")
    blocks = queries.analysis(batch)
    assert blocks
    # Figure 3 also counts a mistake that no target repeated, and that became no sample.
    tested = [row for row in drafts.filter(arrivals__isnull=False).distinct() if row.data.get("attempts")]
    unrepeated = tested[0]
    for attempt in unrepeated.data["attempts"]:
        attempt["replicated"] = False
    unrepeated.status, unrepeated.error = Draft.Status.DROPPED, "Dropped"
    unrepeated.save()
    shares = lineage.shares(queries.analysed_drafts(batch))["repeated"]
    assert sum(total for _hits, total in shares.values()) == len(tested)
    assert sum(hits for hits, _total in shares.values()) == len(tested) - 1
