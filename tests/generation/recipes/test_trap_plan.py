"""Trap plans: targets add up, are dealt out evenly and reproducibly, and reach the generator."""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation import errors
from generation.batches import launch, queries, services
from generation.batches.estimate import estimate_batch
from generation.batches.launch import BatchSettings
from generation.jobs import services as jobs_services
from generation.models import Batch, Draft, Sample, Source
from generation.recipes import trap_plan
from generation.recipes.recipe import TrapPlan
from generation.recipes.trap_plan import (
    distribute,
    expand_targets,
    largest_remainder,
    read_plan,
    targets_for,
)
from mhb_site.benchmarks.mhb.plan import FIGURE_2, PAPER
from mhb_site.benchmarks.mhb.taxonomy import TERMS
from review.models import User
from tests.engine import calls, conversations_file, endpoint, import_file, reports_file

PARENTS = {term.code: term.parent for term in TERMS if term.parent}
CLUSTERS = {"A": 3_108, "B": 520, "C": 2_628, "D": 2_643, "E": 96}


def by_cluster(targets: dict[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for code, count in targets.items():
        counts[PARENTS[code]] += count
    return counts


@pytest.mark.plain
@given(st.dictionaries(st.text(max_size=3), st.integers(0, 10_000), min_size=1, max_size=20), st.integers(0, 10_000))
def test_the_largest_remainder_adds_up_and_is_off_by_less_than_one(weights: dict[str, int], total: int) -> None:
    weight_sum = sum(weights.values())
    if not weight_sum:
        total = 0
    counts = largest_remainder({key: Fraction(n) for key, n in weights.items()}, total)
    assert sum(counts.values()) == total
    assert all(abs(counts[key] - Fraction(n * total, weight_sum or 1)) < 1 for key, n in weights.items())


@pytest.mark.plain
def test_the_largest_remainder_solves_the_textbook_example() -> None:
    votes = {"Yellow": 47_000, "White": 16_000, "Red": 15_800, "Green": 12_000, "Blue": 6_100, "Pink": 3_100}
    seats = largest_remainder({party: Fraction(n) for party, n in votes.items()}, 10)
    assert seats == {"Yellow": 5, "White": 2, "Red": 1, "Green": 1, "Blue": 1, "Pink": 0}


@pytest.mark.plain
def test_the_papers_plan_gives_the_papers_proportions_with_one_trap_a_sample() -> None:
    targets = targets_for(PAPER, "dialogue", 8_995, TERMS)
    assert by_cluster(targets) == CLUSTERS
    assert set(targets) == set(PARENTS)
    assert sorted(targets[f"A{n}"] for n in range(1, 6)) == [621, 621, 622, 622, 622], (
        "distributed evenly within a cluster"
    )


@pytest.mark.plain
def test_figure_2_can_be_redone_with_its_published_counts() -> None:
    """Of 4,695 samples 3,108 carry a trap of cluster A, and so on: several clusters a sample."""
    hands = distribute(targets_for(FIGURE_2, "dialogue", 4_695, TERMS), 4_695, TERMS, seed="figure")
    assert trap_plan.count_clusters(hands, TERMS) == CLUSTERS
    assert max(len(hand) for hand in hands) == 2


@pytest.mark.plain
@pytest.mark.parametrize("count", [1, 2, 3, 14, 100, 1_000])
def test_the_papers_plan_scales_to_any_size(count: int) -> None:
    targets = targets_for(PAPER, "report", count, TERMS)
    assert sum(targets.values()) == count
    if count >= 100:
        assert all(abs(n - CLUSTERS[cluster] / 8_995 * count) < 5 for cluster, n in by_cluster(targets).items())


@pytest.mark.plain
@pytest.mark.parametrize("count", [1, 2, 7, 50, 333])
def test_traps_are_dealt_as_planned_evenly_and_once_per_sample(count: int) -> None:
    targets = targets_for(PAPER, "dialogue", count, TERMS)
    hands = distribute(targets, count, TERMS, seed="s")
    assert Counter(code for hand in hands for code in hand) == Counter({c: n for c, n in targets.items() if n})
    assert all(len(set(hand)) == len(hand) for hand in hands)
    sizes = [len(hand) for hand in hands]
    assert max(sizes) - min(sizes) <= 1
    if count >= 50:
        assert trap_plan.count_clusters(hands, TERMS) == +by_cluster(targets), "a cluster's target counts samples"


@pytest.mark.plain
def test_the_deal_depends_only_on_targets_and_seed() -> None:
    targets = targets_for(PAPER, "dialogue", 60, TERMS)
    assert distribute(targets, 60, TERMS, seed="s") == distribute(dict(reversed(targets.items())), 60, TERMS, seed="s")
    assert distribute(targets, 60, TERMS, seed="s") != distribute(targets, 60, TERMS, seed="t")


@pytest.mark.plain
def test_a_clusters_target_goes_to_its_subtypes_without_own_target() -> None:
    assert expand_targets({"C": 6, "C1": 1, "E1": 2}, TERMS) == {"C1": ("C1",), "C": ("C2", "C3"), "E1": ("E1",)}
    assert targets_for(read_plan({"C": 6, "C1": 1, "E1": 2}), "", 9, TERMS) == {"C1": 1, "C2": 3, "C3": 3, "E1": 2}


@pytest.mark.plain
@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([], "JSON object"),
        ({}, "JSON object"),
        ({"A1": 1, "dialogue": {"A1": 1}}, "not both"),
        ({"A1": 1, "samples": 0}, "'samples'"),
        ({"A1": 1, "samples": True}, "'samples'"),
        ({"Z9": 1}, "'Z9' is not a trap"),
        ({"A1": "many"}, "target of A1"),
        ({"A1": -1}, "target of A1"),
        ({"A1": float("nan")}, "target of A1"),
        ({"A1": True}, "target of A1"),
        ({"A1": 0}, "above zero"),
        ({"E": 1, "E1": 1}, "leave E out"),
        ({"A": 90, "samples": 20}, "more than 4 traps"),
        ({"A1": 30, "samples": 20}, "in more samples"),
    ],
)
def test_an_invalid_plan_is_refused_in_one_sentence(targets: Any, message: str) -> None:
    with pytest.raises(errors.WrongPlan, match=message):
        targets_for(read_plan(targets), "dialogue", 10, TERMS)


# ------------------------------------------------------------------------------------------ batches


@pytest.fixture
def source(tmp_path: Path, db: None) -> Source:
    return import_file(conversations_file(tmp_path / "own.jsonl", 12))


def launch_planned(source: Source, url: str, targets: object = None, **options: Any) -> Batch:
    plan = PAPER if targets is None else read_plan(targets, "own")
    settings = BatchSettings(
        benchmark="mhb", source=source, roles={"generator": endpoint(url)}, plan=plan, checks=(), **options
    )
    return launch.launch_batch(settings)


def hands(batch: Batch) -> list[list[str]]:
    return list(batch.drafts.order_by("pk").values_list("preferred", flat=True))


def preferred_in(prompt: str) -> Any:
    return json.loads(prompt.partition("<<<PREFERRED\n")[2].partition("\nPREFERRED>>>")[0])


def test_a_batch_stores_the_scaled_plan_and_deals_its_traps(source: Source, models: str) -> None:
    batch = launch_planned(source, models)
    batch.refresh_from_db()
    assert batch.plan["name"] == "paper"
    assert sum(batch.plan["targets"]["dialogue"].values()) == 12, "one trap a sample"
    assert Counter(code for hand in hands(batch) for code in hand) == {
        code: n for code, n in batch.plan["targets"]["dialogue"].items() if n
    }


def test_each_task_has_its_own_targets(source: Source, tmp_path: Path, models: str) -> None:
    plan = {"dialogue": {"A1": 1}, "report": {"C": 3}}
    assert {tuple(hand) for hand in hands(launch_planned(source, models, plan))} == {("A1",)}
    reports = import_file(reports_file(tmp_path / "own.json", 3), "reports", "pmc-patients")
    assert sorted(hands(launch_planned(reports, models, plan))) == [["C1"], ["C2"], ["C3"]]


def test_a_plan_that_does_not_fit_launches_no_batch(source: Source, models: str) -> None:
    for plan in ({"Z1": 1}, {"report": {"A1": 1}}):
        with pytest.raises(errors.WrongPlan):
            launch_planned(source, models, plan)
    assert not Batch.objects.exists()
    assert not Draft.objects.exists()


def test_an_estimate_refuses_a_plan_that_is_wrong_for_one_of_several_tasks(
    source: Source, tmp_path: Path, models: str
) -> None:
    reports = import_file(reports_file(tmp_path / "own.json", 1), "reports", "pmc-patients")
    reports.records.update(source=source)
    settings = BatchSettings(
        benchmark="mhb",
        source=source,
        roles={"generator": endpoint(models)},
        plan=read_plan({"dialogue": {"A1": 1}, "report": {"Z1": 1}}),
        checks=(),
    )
    with pytest.raises(errors.WrongPlan, match="'Z1' is not a trap"):
        estimate_batch(settings)


def test_the_preferred_traps_are_in_the_generators_prompt(source: Source, models: str) -> None:
    batch = launch_planned(source, models, {"D2": 2, "B1": 1}, limit=3)
    services.work_on_batch(batch.pk)
    for draft in batch.drafts.order_by("pk"):
        [call] = calls(f"draft:{draft.pk}")
        labels = {"D2": "D2 Source Fabrication", "B1": "B1 Bias Reinforcement"}
        assert preferred_in(call.sent["messages"][1]["content"]) == [labels[code] for code in draft.preferred]


def test_a_retried_draft_sends_the_same_prompt(source: Source, models: str) -> None:
    batch = launch_planned(source, models, limit=2)
    broken = endpoint(models, "sim-generator+broken-json")
    batch.roles.update(endpoint=broken)
    services.work_on_batch(batch.pk)
    before = {draft.pk: calls(f"draft:{draft.pk}")[0].sent["messages"] for draft in batch.drafts.all()}
    batch.roles.update(endpoint=endpoint(models))
    assert jobs_services.retry_failed(batch.pk) == 2
    services.work_on_batch(batch.pk)
    after = {draft.pk: calls(f"draft:{draft.pk}")[-1].sent["messages"] for draft in batch.drafts.all()}
    assert before == after


def test_the_same_launch_deals_the_same_traps(tmp_path: Path, db: None, models: str) -> None:
    """The deal must not depend on row ids, because the cache finds a request by its text."""
    source = import_file(conversations_file(tmp_path / "own.jsonl", 12))
    first = launch_planned(source, models)
    jobs_services.cancel(first.pk)
    second = launch_planned(source, models)
    assert hands(first) == hands(second)
    assert len(set(map(tuple, hands(first)))) > 3


def test_without_a_plan_no_trap_is_preferred(source: Source, models: str) -> None:
    roles = {"generator": endpoint(models)}
    batch = launch.launch_batch(BatchSettings(benchmark="mhb", source=source, roles=roles, limit=1, checks=()))
    services.work_on_batch(batch.pk)
    assert batch.plan == {}
    assert preferred_in(calls(batch)[0].sent["messages"][1]["content"]) is None


def test_plan_progress_has_planned_and_reached_counts(source: Source, models: str) -> None:
    batch = launch_planned(source, models, {"A1": 1, "E1": 1})
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    [(task, rows)] = queries.plan_progress(batch)
    assert task == "dialogue"
    by_code = {row.code: row for row in rows}
    assert (by_code["A"].planned, by_code["A1"].planned, by_code["E1"].planned, by_code["C2"].planned) == (6, 6, 6, 0)
    assert sum(row.reached for row in rows if row.code in PARENTS) >= 12
    assert by_code["A1"].reached + by_code["E1"].reached >= 12 * 0.5, (
        "the simulated generator follows four of five preferences"
    )
    assert [row.code for row in rows][:3] == ["A", "A1", "A2"]


def test_a_regeneration_keeps_the_preferred_traps(source: Source, models: str, ana: User, bo: User) -> None:
    from tests.generation.outcomes.test_attempts_and_comparisons import decide, reject

    batch = launch_planned(source, models, {"C2": 1}, limit=1)
    services.work_on_batch(batch.pk)
    decide(Sample.objects.get(), ana, bo, reject)
    regeneration = Draft.objects.get(version=2)
    assert regeneration.preferred == ["C2"]
    services.work_on_batch(batch.pk)
    [call] = calls(f"draft:{regeneration.pk}")
    assert preferred_in(call.sent["messages"][1]["content"]) == ["C2 Unsafe Recommendation"]


def test_a_plan_without_tasks_applies_to_any_task() -> None:
    plan = TrapPlan("toy", {"": {"A1": 1}})
    assert targets_for(plan, "whatever", 5, TERMS) == {"A1": 5}
    assert targets_for(TrapPlan("toy", {"other": {"A1": 1}}), "whatever", 5, TERMS) == {}
