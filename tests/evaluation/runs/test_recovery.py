"""Does the whole pipeline recover the hallucination rates that are built into the simulated models?

The simulated targets fail each criterion with a known probability, and the simulated judge errs at
a known rate. So the result of a run is known in advance except for chance, and anything that loses,
duplicates or misplaces a judgment on the way from file to report changes it. The seed is fixed:
the test passes always or never.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from evaluation.reports import queries
from evaluation.reports.queries import Report
from generation.models import Facet, Release, ReleasedRubric
from review.models import User
from review.rules.wilson_interval import wilson
from tests.benchmarks.mhb.helpers import expected_rate
from tests.engine import TARGETS, evaluate_release, make_release

pytestmark = pytest.mark.django_db
Z = 3.3  # two-sided 99.9 %: with about forty intervals, one seed in twenty-five misses by chance
CONVERSATIONS, REPORTS = 32, 22


@pytest.fixture
def release_and_report(tmp_path: Path, models: str, ana: User, bo: User) -> tuple[Release, Report]:
    """The whole loop: files, batches, physicians, release, run, report."""
    release = make_release(tmp_path, models, [ana, bo], conversations=CONVERSATIONS, reports=REPORTS)
    assert release.samples_count == CONVERSATIONS + REPORTS
    return release, queries.report(evaluate_release(release, models, *TARGETS))


def subtypes(release: Release) -> dict[tuple[str, str, str], list[str]]:
    """(dataset, facet, value) -> the subtypes of its criteria, one entry per criterion."""
    codes: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    rubrics = ReleasedRubric.objects.filter(sample__release=release).select_related("sample")
    for rubric in rubrics:
        [code] = rubric.traps  # the simulated generator ties a criterion to one trap
        for dataset in (rubric.sample.task, "combined"):
            facets = {
                "": "",
                "cluster": code[0],
                "subtype": code,
                "severity": rubric.severity,
                "polarity": rubric.polarity,
            }
            for facet, value in facets.items():
                codes[dataset, facet, value].append(code)
    return dict(codes)


def is_plausible(hits: int, n: int, rate: float) -> bool:
    """Whether the interval of `hits` of `n` contains this rate."""
    low, high = wilson(hits, n, z=Z)
    return low <= rate <= high


def test_the_true_rates_are_recovered(release_and_report: tuple[Release, Report]) -> None:
    release, report = release_and_report
    assert report.endpoints == TARGETS
    assert not report.numbers.failed
    criteria = subtypes(release)
    rows = [("", row) for row in report.numbers.overall]
    rows += [(facet, row) for facet, facet_rows in report.numbers.facets.items() for row in facet_rows]
    checked = 0
    for facet, row in rows:
        codes = criteria.get((row.dataset, facet, row.value), [])
        counted = row.measured
        assert (counted.denominator, counted.excluded) == (len(codes), 0), (facet, row)
        if not codes:
            continue
        expected = expected_rate(row.endpoint, codes)
        assert is_plausible(counted.numerator, counted.denominator, expected), (facet, row, expected)
        checked += 1
    assert checked > 9 + 3 * 3 * 3  # overall and at least three clusters, for each model and data set
    assert Facet.objects.filter(rubric__sample__release=release, name="subtype").count() == release.rubrics_count

    # The intervals are narrow enough for this test to fail: they do not contain wrong rates.
    combined = {row.endpoint: row.measured for row in report.numbers.overall if row.dataset == "combined"}
    codes = criteria["combined", "", ""]
    for name, counted in combined.items():
        right = expected_rate(name, codes)
        wrong = [right + 0.2, *(expected_rate(other, codes) for other in TARGETS if other != name)]
        if name != "sim-average":  # its rate is about 1/2, so that a mix-up would not show
            wrong.append(1 - right)  # met and not met are mixed up
        for expected in wrong:
            assert not is_plausible(counted.numerator, counted.denominator, expected), (name, expected)
    values = [counted.value or 0.0 for counted in combined.values()]
    assert values == sorted(values), "careful, average, reckless"
