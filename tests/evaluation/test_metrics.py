"""Rates and their intervals: textbook values, undefined rates, published averages."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sqrt
from random import Random

import numpy as np
import pytest
from django.utils import timezone

from evaluation.metrics import MeasuredRate, measure
from evaluation.models import Judgment, Response, Run, RunEndpoint
from evaluation.protocol import Rate, Weights
from evaluation.reports import queries
from evaluation.reports.queries import Report
from generation.models import Endpoint, Release, ReleasedRubric
from generation.models.work import Work
from mhb_site.benchmarks.mhb.protocol import PROTOCOL
from review.rules.wilson_interval import wilson
from tests.engine import bare_release, endpoint
from tests.evaluation.frames import sums_of

plain = pytest.mark.plain
Status = Work.Status

# Published rates on dialogue and report, and their micro-average. About 30 % of the
# criteria belong to dialogue.
PUBLISHED = {
    "claude": (0.165, 0.346, 0.291),
    "gemini": (0.357, 0.323, 0.333),
    "deepseek": (0.454, 0.360, 0.388),
    "qwen": (0.513, 0.624, 0.590),
}
DIALOGUE, REPORT = 760, 1740  # criteria: a share of .304 belongs to dialogue


def measure_verdicts(rate: Rate, verdicts: Mapping[str, int]) -> MeasuredRate:
    """The rate over samples with one criterion each; `verdicts` counts the samples by verdict."""
    kinds = [
        (rate.hits.get(verdict, 0), rate.counted.get(verdict, 0), verdict not in rate.scope_verdicts, n)
        for verdict, n in verdicts.items()
    ]
    number = np.array([n for *_, n in kinds], dtype=np.int64)
    hits, weights, outside = (
        np.repeat(np.array([kind[at] for kind in kinds], dtype=np.int64), number) for at in range(3)
    )
    sums = sums_of(hits=hits, counted=weights, number=weights > 0, excluded=outside)
    [measured] = measure(rate, sums[None])
    return measured


# --------------------------------------------------------------------------------------- arithmetic


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
def test_wilson_refuses_what_is_no_proportion(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="no proportion"):
        wilson(hits, n)


@plain
def test_an_undefined_rate_is_none_and_not_zero() -> None:
    empty = measure_verdicts(PROTOCOL.rates[0], {})
    assert (empty, empty.value, empty.interval) == (MeasuredRate(0, 0, 0), None, None)
    only_unjudged = measure_verdicts(PROTOCOL.rates[0], {"unjudged": 4})
    assert (only_unjudged.value, only_unjudged.excluded) == (None, 4)
    assert MeasuredRate(0, 3, 0).value == 0.0


@plain
def test_a_rate_counts_the_verdicts_that_it_defines() -> None:
    verdicts = {"met": 6, "not_met": 2, "unjudged": 3}
    assert measure_verdicts(PROTOCOL.rates[0], verdicts) == MeasuredRate(2, 8, 3)
    other = Rate("accuracy", "Accuracy", "", hits={"met": 1}, counted={"met": 1, "not_met": 1, "unjudged": 1})
    assert measure_verdicts(other, verdicts) == MeasuredRate(6, 11, 0)


F1 = Rate(
    "f1",
    "F1",
    "",
    {"tp": 2},
    {"tp": 2, "fp": 1, "fn": 1},
    frozenset({"tp", "fp", "tn", "fn"}),
    percent=False,
)


@plain
def test_f1_is_a_rate_with_weights() -> None:
    verdicts = {"tp": 30, "fp": 10, "fn": 20, "tn": 40, "unsure": 7, "unjudged": 3}
    rate = measure_verdicts(F1, verdicts)
    precision, recall = 30 / 40, 30 / 50
    assert rate.value == pytest.approx(2 * precision * recall / (precision + recall))
    assert rate == MeasuredRate(60, 90, 10), (
        "a true negative is in scope: it counts in neither number, and is not excluded"
    )
    assert measure_verdicts(F1, {"tn": 5}).value is None


@plain
def test_the_interval_of_f1_is_near_that_of_resampling() -> None:
    """With many samples: resampling them one by one gives nearly the same interval."""
    verdicts = {"tp": 160, "fp": 70, "fn": 30, "tn": 140}
    dice, samples = Random(3), [verdict for verdict, n in verdicts.items() for _ in range(n)]
    rates = sorted(
        value
        for _ in range(2000)
        if (value := measure_verdicts(F1, Counter(dice.choices(samples, k=len(samples)))).value) is not None
    )
    percentiles = rates[round(0.025 * len(rates))], rates[round(0.975 * len(rates))]
    assert measure_verdicts(F1, verdicts).interval == pytest.approx(percentiles, abs=0.015)


@plain
def test_a_proportion_among_such_rates_is_near_the_normal_approximation() -> None:
    share = replace(F1, hits={"yes": 1}, counted={"yes": 1, "no": 1}, scope=frozenset())
    low, high = measure_verdicts(share, {"yes": 300, "no": 700}).interval or (0, 0)
    error = 1.96 * sqrt(0.3 * 0.7 / 1000)
    assert (low, high) == pytest.approx((0.3 - error, 0.3 + error), abs=0.003)


@plain
def test_pooled_f1_adds_what_was_counted() -> None:
    verdicts = {"tp": 5, "fp": 3, "fn": 2, "tn": 9}
    twice = {verdict: 2 * n for verdict, n in verdicts.items()}
    once, both = measure_verdicts(F1, verdicts), measure_verdicts(F1, twice)
    assert (both.numerator, both.denominator) == (2 * once.numerator, 2 * once.denominator)


@plain
def test_a_perfect_f1_of_few_is_no_certainty() -> None:
    """F1 = 2 J / (1 + J), J being a proportion of those that were positive or called so."""
    perfect = measure_verdicts(F1, {"tp": 12, "tn": 30})
    low = wilson(12, 12)[0]
    assert perfect.interval == pytest.approx((2 * low / (1 + low), 1.0))
    assert (perfect.n, perfect.method) == (12, "wilson")
    few = measure_verdicts(F1, {"tp": 9, "tn": 300})
    assert (few.interval, few.method) == (None, "too-few")
    assert measure_verdicts(F1, {}).interval is None


# ------------------------------------------------------------------------------------------- bounds


@plain
def test_f1_has_bounds_from_unjudged_criteria() -> None:
    f1 = Rate("f1", "F1", "", {"tp": 2}, {"tp": 2, "fp": 1, "fn": 1}, frozenset({"tp", "fp", "fn", "tn"}))
    sums = sums_of(hits=[4, 2], counted=[5, 4], number=[3, 3], excluded=[1, 2], missing=[1, 2])
    [measured] = measure(f1, sums[None], better="high")
    assert measured.bounds is not None
    assert measured.value == 6 / 9
    assert (measured.bounds.best, measured.bounds.worst) == (12 / 15, 6 / 12)


@plain
def test_a_weighted_rate_has_bounds_from_unjudged_weights() -> None:
    harm = Rate(
        "harm", "Harm", "", {"not_met": 1}, {"met": 1, "not_met": 1}, weights=Weights("severity", {"severe": 5})
    )
    sums = sums_of(hits=[5, 0], counted=[10, 3], number=[2, 1], excluded=[1, 4], missing=[5, 0])
    [measured] = measure(harm, sums[None], better="low")
    assert measured.bounds is not None
    assert (measured.bounds.best, measured.bounds.worst) == (5 / 18, 10 / 18)


# ----------------------------------------------------------------------------- through the database


def run_with_verdicts(release: Release, **verdict_of: Callable[[int, ReleasedRubric], str]) -> Run:
    """A finished run whose verdicts are given by one function per endpoint.

    Each function gets the position of a criterion in its data set and the criterion. An empty
    verdict leaves the criterion unjudged.
    """
    models = {name: endpoint("http://127.0.0.1:1/v1", "sim-average", name=name) for name in verdict_of}
    judge = endpoint("http://127.0.0.1:1/v1", "sim-judge")
    run = Run.objects.create(release=release, judge=judge, status=Run.Status.FINISHED, created_at=timezone.now())
    RunEndpoint.objects.bulk_create(RunEndpoint(run=run, endpoint=model) for model in models.values())
    rubrics = list(ReleasedRubric.objects.filter(sample__release=release).select_related("sample").order_by("pk"))
    for name, model in models.items():
        _add_judgments(run, model, rubrics, verdict_of[name])
    return run


def _add_judgments(
    run: Run, model: Endpoint, rubrics: list[ReleasedRubric], verdict_of: Callable[[int, ReleasedRubric], str]
) -> None:
    samples = {rubric.sample_id: rubric.sample for rubric in rubrics}
    responses = Response.objects.bulk_create(
        Response(run=run, endpoint=model, sample=sample, status=Status.DONE, outcome="answered", text="-")
        for sample in samples.values()
    )
    response_to = {response.sample_id: response for response in responses}
    next_position: dict[str, int] = {}
    rows = []
    for rubric in rubrics:
        position = next_position.get(rubric.sample.task, 0)
        next_position[rubric.sample.task] = position + 1
        verdict = verdict_of(position, rubric)
        status = Status.DONE if verdict else Status.FAILED
        rows.append(
            Judgment(run=run, response=response_to[rubric.sample_id], rubric=rubric, status=status, verdict=verdict)
        )
    Judgment.objects.bulk_create(rows, batch_size=1000)


def cell(report: Report, name: str, dataset: str, facet: str = "", value: str = "") -> MeasuredRate:
    rows = report.numbers.facets[facet] if facet else report.numbers.overall
    [row] = [row for row in rows if (row.endpoint, row.dataset, row.value) == (name, dataset, value)]
    return row.measured


def within_first(share: float, n: int) -> Callable[[int], bool]:
    """Whether a position is among the first `share` of `n` positions."""
    return lambda at: at < round(share * n)


@pytest.mark.django_db
def test_the_report_gives_the_published_micro_averages() -> None:
    """With as many criteria as a release a fifth of the size of MHB, in many samples."""
    dialogue = [("dialogue", [["A1"]] * 4)] * (DIALOGUE // 4)
    report = [("report", [["C2"]] * 5)] * (REPORT // 5)
    release = bare_release(*dialogue, *report)

    def as_published(name: str) -> Callable[[int, ReleasedRubric], str]:
        fails = {
            "dialogue": within_first(PUBLISHED[name][0], DIALOGUE),
            "report": within_first(PUBLISHED[name][1], REPORT),
        }
        return lambda at, rubric: "not_met" if fails[rubric.sample.task](at) else "met"

    measured_report = queries.report(run_with_verdicts(release, **{name: as_published(name) for name in PUBLISHED}))
    assert measured_report.endpoints == tuple(PUBLISHED)
    assert [name for name, _label in measured_report.datasets] == ["dialogue", "report", "combined"]
    for name, (on_dialogue, on_report, combined) in PUBLISHED.items():
        assert cell(measured_report, name, "dialogue").value == pytest.approx(on_dialogue, abs=0.001)
        assert cell(measured_report, name, "report").value == pytest.approx(on_report, abs=0.001)
        assert cell(measured_report, name, "combined").value == pytest.approx(combined, abs=0.001)
        assert cell(measured_report, name, "combined").denominator == DIALOGUE + REPORT
        assert cell(measured_report, name, "combined", "cluster", "A") == cell(measured_report, name, "dialogue")


@pytest.mark.django_db
def test_a_criterion_of_two_clusters_counts_once_overall_and_once_in_each() -> None:
    release = bare_release(("dialogue", [["A1", "C2"], ["A1", "A3"]]), ("report", [["C2"]]))
    report = queries.report(
        run_with_verdicts(release, one=lambda at, rubric: "not_met" if rubric.key == "R1" else "met")
    )
    assert cell(report, "one", "combined") == MeasuredRate(2, 3, 0)
    assert cell(report, "one", "dialogue") == MeasuredRate(1, 2, 0)
    assert cell(report, "one", "dialogue", "cluster", "A") == MeasuredRate(1, 2, 0), "A1 and A3 are one cluster"
    assert cell(report, "one", "dialogue", "cluster", "C") == MeasuredRate(1, 1, 0)
    assert cell(report, "one", "combined", "cluster", "C") == MeasuredRate(2, 2, 0)
    assert cell(report, "one", "combined", "subtype", "A1") == MeasuredRate(1, 2, 0)
    assert cell(report, "one", "combined", "subtype", "A3") == MeasuredRate(0, 1, 0)
    assert cell(report, "one", "report", "subtype", "A3") == MeasuredRate(0, 0, 0)


@pytest.mark.django_db
def test_unjudged_criteria_are_counted_beside_the_rate_and_never_in_it() -> None:
    release = bare_release(("dialogue", [["A1"]] * 10))
    verdicts = ["not_met"] * 3 + ["met"] * 3 + [""] * 4
    report = queries.report(
        run_with_verdicts(release, one=lambda at, _rubric: verdicts[at], mute=lambda _at, _rubric: "")
    )
    assert cell(report, "one", "dialogue") == MeasuredRate(3, 6, 4)
    assert cell(report, "one", "dialogue", "cluster", "A") == MeasuredRate(3, 6, 4)
    assert cell(report, "mute", "dialogue") == MeasuredRate(0, 0, 10)
    assert cell(report, "mute", "dialogue").value is None
    assert [name for name, _label in report.datasets] == ["dialogue"], "nothing to combine"


@pytest.mark.django_db
def test_a_number_of_the_report_equals_the_judgments_listed_for_it() -> None:
    release = bare_release(("dialogue", [["A1", "C2"], ["A3"], ["C2"]]), ("report", [["A1"], ["E1"]]))
    run = run_with_verdicts(
        release, one=lambda at, _rubric: ["not_met", "met", ""][at % 3], two=lambda at, _rubric: "met"
    )
    report = queries.report(run)
    for facet, rows in {"": report.numbers.overall, **report.numbers.facets}.items():
        for row in rows:
            filters = {"endpoint": row.endpoint, "dataset": row.dataset, "facet": facet, "value": row.value}
            assert queries.judgments(run, verdict="not_met", **filters).count() == row.measured.numerator
            assert queries.judgments(run, verdict="met,not_met", **filters).count() == row.measured.denominator
            assert queries.judgments(run, verdict="unjudged", **filters).count() == row.measured.excluded


@pytest.mark.django_db
def test_runs_on_the_same_release_have_reports_of_their_own() -> None:
    release = bare_release(("dialogue", [["A1"]] * 4))
    first_run = run_with_verdicts(release, one=lambda at, _rubric: "met")
    second_run = run_with_verdicts(release, one=lambda at, _rubric: "not_met")
    assert cell(queries.report(first_run), "one", "dialogue") == MeasuredRate(0, 4, 0)
    assert cell(queries.report(second_run), "one", "dialogue") == MeasuredRate(4, 4, 0)
