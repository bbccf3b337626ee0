"""The numbers: known answers for the interval, undefined said as such, and the published micro-averages (MHB-12)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isclose, sqrt
from random import Random

import numpy as np
import pytest
from django.utils import timezone

from evaluation.metrics import EMPTY_RATE, MeasuredRate, Totals, measure, pool
from evaluation.models import Judgment, Response, Run, RunEndpoint
from evaluation.protocol import Rate
from evaluation.reports import queries
from evaluation.reports.queries import Report
from evaluation.statistics.bootstrap import DRAWS
from generation.models import Endpoint, Release, ReleasedRubric
from generation.models.work import Work
from mhb_site.benchmarks.mhb.protocol import PROTOCOL
from review.rules.wilson_interval import wilson
from tests.engine import bare_release, endpoint

plain = pytest.mark.plain
Status = Work.Status

# Published rates, dialogue and report, and their micro-average (MHB-12); about 30 % of the criteria are dialogue's.
PUBLISHED = {
    "claude": (0.165, 0.346, 0.291),
    "gemini": (0.357, 0.323, 0.333),
    "deepseek": (0.454, 0.360, 0.388),
    "qwen": (0.513, 0.624, 0.590),
}
DIALOGUE, REPORT = 760, 1740  # criteria: .304 of them dialogue's


def counted(rate: Rate, verdicts: Mapping[str, int]) -> MeasuredRate:
    """A rate of so many samples of each verdict, of one criterion each."""
    kinds = [
        (rate.hits.get(verdict, 0), rate.counted.get(verdict, 0), verdict not in rate.scope_verdicts, n)
        for verdict, n in verdicts.items()
    ]
    number = np.array([n for *_, n in kinds], dtype=np.int64)
    hits, weights, outside = (
        np.repeat(np.array([kind[at] for kind in kinds], dtype=np.int64), number) for at in range(3)
    )
    return measure(rate, Totals(hits, weights, (weights > 0).astype(np.int64), outside))


# ------------------------------------------------------------------------------------------------------- arithmetic


@plain
@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [  # Newcombe, Statistics in Medicine 17 (1998), Table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_textbook_values(hits: int, n: int, low: float, high: float) -> None:
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


@plain
def test_wilson_mirrors_narrows_and_widens() -> None:
    low, high = wilson(30, 100)
    assert wilson(70, 100) == pytest.approx((1 - high, 1 - low))
    assert low < 0.3 < high
    closer = wilson(300, 1000)
    assert low < closer[0] < 0.3 < closer[1] < high
    assert wilson(30, 100, z=3.3)[0] < low
    assert wilson(5, 5)[1] == 1.0
    assert wilson(0, 1)[0] == 0.0


@plain
@pytest.mark.parametrize(("hits", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_of_no_proportion(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="no proportion"):
        wilson(hits, n)


@plain
def test_an_undefined_rate_is_none_and_not_zero() -> None:
    assert EMPTY_RATE.value is None
    assert EMPTY_RATE.interval is None
    only_unjudged = counted(PROTOCOL.rates[0], {"unjudged": 4})
    assert (only_unjudged.value, only_unjudged.excluded) == (None, 4)
    assert MeasuredRate(0, 3, 0).value == 0.0


@plain
def test_what_is_counted_is_what_the_rate_says() -> None:
    verdicts = {"met": 6, "not_met": 2, "unjudged": 3}
    assert counted(PROTOCOL.rates[0], verdicts) == MeasuredRate(2, 8, 3)
    other = Rate("accuracy", "Accuracy", "", hits={"met": 1}, counted={"met": 1, "not_met": 1, "unjudged": 1})
    assert counted(other, verdicts) == MeasuredRate(6, 11, 0)
    assert counted(PROTOCOL.rates[0], {}) == EMPTY_RATE


@plain
def test_pooling_adds_before_it_divides() -> None:
    assert pool([MeasuredRate(1, 10, 2), MeasuredRate(45, 90, 0)]) == MeasuredRate(46, 100, 2)
    assert pool([]) == EMPTY_RATE


@plain
@pytest.mark.parametrize("model", PUBLISHED)
def test_published_micro_averages_by_pooling(model: str) -> None:
    dialogue, report, combined = PUBLISHED[model]
    parts = [MeasuredRate(round(dialogue * DIALOGUE), DIALOGUE, 0), MeasuredRate(round(report * REPORT), REPORT, 0)]
    value = pool(parts).value
    assert value == pytest.approx(combined, abs=0.001)
    macro = (dialogue + report) / 2
    assert not isclose(macro, combined, abs_tol=0.001), "the mean of the two rates is not what was published"


F1 = Rate(
    "f1",
    "F1",
    "",
    {"tp": 2},
    {"tp": 2, "fp": 1, "fn": 1},
    frozenset({"tp", "fp", "tn", "fn"}),
    "bootstrap",
    percent=False,
)


@plain
def test_weights_make_f1() -> None:
    verdicts = {"tp": 30, "fp": 10, "fn": 20, "tn": 40, "unsure": 7, "unjudged": 3}
    found = counted(F1, verdicts)
    precision, recall = 30 / 40, 30 / 50
    assert found.value == pytest.approx(2 * precision * recall / (precision + recall))
    assert found == MeasuredRate(60, 90, 10), "a true negative is in scope: it is counted nowhere, and not left out"
    assert counted(F1, {"tn": 5}).value is None


@plain
@pytest.mark.parametrize(
    "verdicts",
    [
        {"tp": 30, "fp": 10, "fn": 20, "tn": 40},
        {"tp": 12, "fp": 9, "fn": 3, "tn": 6, "unsure": 20},
        {"tp": 160, "fp": 70, "fn": 30, "tn": 140},
    ],
)
def test_the_bootstrap_is_that_over_samples(verdicts: dict[str, int]) -> None:
    """Resampling the samples themselves, one by one and with other dice, finds the same interval."""
    dice, samples = Random(3), [verdict for verdict, n in verdicts.items() for _ in range(n)]
    rates = sorted(
        value
        for _ in range(DRAWS)
        if (value := counted(F1, Counter(dice.choices(samples, k=len(samples)))).value) is not None
    )
    by_hand = rates[round(0.025 * len(rates))], rates[round(0.975 * len(rates))]
    assert counted(F1, verdicts).interval == pytest.approx(by_hand, abs=0.015)


@plain
def test_the_bootstrap_of_a_proportion_is_near_the_textbook() -> None:
    share = replace(F1, hits={"yes": 1}, counted={"yes": 1, "no": 1}, scope=frozenset())
    low, high = counted(share, {"yes": 300, "no": 700}).interval or (0, 0)
    error = 1.96 * sqrt(0.3 * 0.7 / 1000)
    assert (low, high) == pytest.approx((0.3 - error, 0.3 + error), abs=0.003)


@plain
def test_the_bootstrap_says_the_same_every_time() -> None:
    verdicts = {"tp": 5, "fp": 3, "fn": 2, "tn": 9}
    twice = {verdict: 2 * n for verdict, n in verdicts.items()}
    once = counted(F1, verdicts).interval
    assert counted(F1, verdicts).interval == once != counted(F1, twice).interval
    assert pool([counted(F1, verdicts)] * 2) == counted(F1, twice)


@plain
def test_draws_in_which_nothing_is_counted() -> None:
    few = counted(F1, {"tp": 1, "fn": 1, "tn": 30})
    assert few.value is not None
    assert few.interval is None, "in one draw of eight there is neither: too little to give an interval"
    assert few.undefined_draws == pytest.approx(DRAWS * (1 - 2 / 32) ** 32, rel=0.15)
    some = counted(F1, {"tp": 4, "fn": 1, "tn": 30})
    assert 0 < some.undefined_draws < 0.05 * DRAWS
    assert some.interval is None, "five samples are too few, whatever is drawn of them"
    assert (EMPTY_RATE.undefined_draws, counted(F1, {}).interval) == (0, None)
    assert counted(F1, {"tp": 12}).interval == (1.0, 1.0)
    assert (counted(F1, {"tp": 9}).interval, counted(F1, {"tp": 9}).method) == (None, "too-few")


# ------------------------------------------------------------------------------------------- the way through the rows


def judged(release: Release, **verdict: Callable[[int, ReleasedRubric], str]) -> Run:
    """A finished run in which each endpoint got, for the nth criterion of a data set, what its function says ('' =
    unjudged)."""
    models = {name: endpoint("http://127.0.0.1:1/v1", "sim-average", name=name) for name in verdict}
    judge = endpoint("http://127.0.0.1:1/v1", "sim-judge")
    run = Run.objects.create(release=release, judge=judge, status=Run.Status.FINISHED, created_at=timezone.now())
    RunEndpoint.objects.bulk_create(RunEndpoint(run=run, endpoint=model) for model in models.values())
    rubrics = list(ReleasedRubric.objects.filter(sample__release=release).select_related("sample").order_by("pk"))
    for name, model in models.items():
        _judge(run, model, rubrics, verdict[name])
    return run


def _judge(
    run: Run, model: Endpoint, rubrics: list[ReleasedRubric], says: Callable[[int, ReleasedRubric], str]
) -> None:
    samples = {rubric.sample_id: rubric.sample for rubric in rubrics}
    made = Response.objects.bulk_create(
        Response(run=run, endpoint=model, sample=sample, status=Status.DONE, outcome="answered", text="-")
        for sample in samples.values()
    )
    response_to = {response.sample_id: response for response in made}
    seen: dict[str, int] = {}
    rows = []
    for rubric in rubrics:
        at = seen.get(rubric.sample.task, 0)
        seen[rubric.sample.task] = at + 1
        verdict = says(at, rubric)
        status = Status.DONE if verdict else Status.FAILED
        rows.append(
            Judgment(run=run, response=response_to[rubric.sample_id], rubric=rubric, status=status, verdict=verdict)
        )
    Judgment.objects.bulk_create(rows, batch_size=1000)


def cell(report: Report, name: str, dataset: str, facet: str = "", value: str = "") -> MeasuredRate:
    rows = report.facets[facet] if facet else report.overall
    [found] = [row for row in rows if (row.endpoint, row.dataset, row.value) == (name, dataset, value)]
    return found.measured


def first(share: float, n: int) -> Callable[[int], bool]:
    """Whether the nth of a data set is among the `share` of `n`."""
    return lambda at: at < round(share * n)


@pytest.mark.django_db
def test_published_micro_averages_through_the_report() -> None:
    """As many criteria as a release of a fifth of MHB's size would have, in many samples of different length."""
    dialogue = [("dialogue", [["A1"]] * 4)] * (DIALOGUE // 4)
    report = [("report", [["C2"]] * 5)] * (REPORT // 5)
    release = bare_release(*dialogue, *report)

    def as_published(name: str) -> Callable[[int, ReleasedRubric], str]:
        falls = {
            "dialogue": first(PUBLISHED[name][0], DIALOGUE),
            "report": first(PUBLISHED[name][1], REPORT),
        }
        return lambda at, rubric: "not_met" if falls[rubric.sample.task](at) else "met"

    found = queries.report(judged(release, **{name: as_published(name) for name in PUBLISHED}))
    assert found.endpoints == tuple(PUBLISHED)
    assert [name for name, _label in found.datasets] == ["dialogue", "report", "combined"]
    for name, (on_dialogue, on_report, combined) in PUBLISHED.items():
        assert cell(found, name, "dialogue").value == pytest.approx(on_dialogue, abs=0.001)
        assert cell(found, name, "report").value == pytest.approx(on_report, abs=0.001)
        assert cell(found, name, "combined").value == pytest.approx(combined, abs=0.001)
        assert cell(found, name, "combined").denominator == DIALOGUE + REPORT
        assert cell(found, name, "combined", "cluster", "A") == cell(found, name, "dialogue")


@pytest.mark.django_db
def test_a_criterion_of_two_clusters_counts_once_overall_and_once_in_each() -> None:
    release = bare_release(("dialogue", [["A1", "C2"], ["A1", "A3"]]), ("report", [["C2"]]))
    found = queries.report(judged(release, one=lambda at, rubric: "not_met" if rubric.key == "R1" else "met"))
    assert cell(found, "one", "combined") == MeasuredRate(2, 3, 0)
    assert cell(found, "one", "dialogue") == MeasuredRate(1, 2, 0)
    assert cell(found, "one", "dialogue", "cluster", "A") == MeasuredRate(1, 2, 0), "A1 and A3 are one cluster"
    assert cell(found, "one", "dialogue", "cluster", "C") == MeasuredRate(1, 1, 0)
    assert cell(found, "one", "combined", "cluster", "C") == MeasuredRate(2, 2, 0)
    assert cell(found, "one", "combined", "subtype", "A1") == MeasuredRate(1, 2, 0)
    assert cell(found, "one", "combined", "subtype", "A3") == MeasuredRate(0, 1, 0)
    assert cell(found, "one", "report", "subtype", "A3") == EMPTY_RATE


@pytest.mark.django_db
def test_unjudged_is_counted_beside_the_rate_and_never_in_it() -> None:
    release = bare_release(("dialogue", [["A1"]] * 10))
    verdicts = ["not_met"] * 3 + ["met"] * 3 + [""] * 4
    found = queries.report(judged(release, one=lambda at, _rubric: verdicts[at], mute=lambda _at, _rubric: ""))
    assert cell(found, "one", "dialogue") == MeasuredRate(3, 6, 4)
    assert cell(found, "one", "dialogue", "cluster", "A") == MeasuredRate(3, 6, 4)
    assert cell(found, "mute", "dialogue") == MeasuredRate(0, 0, 10)
    assert cell(found, "mute", "dialogue").value is None
    assert [name for name, _label in found.datasets] == ["dialogue"], "nothing to combine"


@pytest.mark.django_db
def test_the_judgments_behind_a_number_are_as_many_as_it_says() -> None:
    release = bare_release(("dialogue", [["A1", "C2"], ["A3"], ["C2"]]), ("report", [["A1"], ["E1"]]))
    run = judged(release, one=lambda at, _rubric: ["not_met", "met", ""][at % 3], two=lambda at, _rubric: "met")
    found = queries.report(run)
    for facet, rows in {"": found.overall, **found.facets}.items():
        for row in rows:
            about = {"endpoint": row.endpoint, "dataset": row.dataset, "facet": facet, "value": row.value}
            assert queries.judgments(run, verdict="not_met", **about).count() == row.measured.numerator
            assert queries.judgments(run, verdict="met,not_met", **about).count() == row.measured.denominator
            assert queries.judgments(run, verdict="unjudged", **about).count() == row.measured.excluded


@pytest.mark.django_db
def test_another_run_on_the_same_release_is_another_report() -> None:
    release = bare_release(("dialogue", [["A1"]] * 4))
    first_run = judged(release, one=lambda at, _rubric: "met")
    second_run = judged(release, one=lambda at, _rubric: "not_met")
    assert cell(queries.report(first_run), "one", "dialogue") == MeasuredRate(0, 4, 0)
    assert cell(queries.report(second_run), "one", "dialogue") == MeasuredRate(4, 4, 0)
