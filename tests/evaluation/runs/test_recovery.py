"""The question that matters: does the whole pipeline recover the hallucination rates that are built into the models?

The simulated targets fail each criterion with a known chance, and the simulated judge errs with a known share. So what a run
measures is known beforehand, up to the luck of the dice; whatever loses, doubles or misfiles a judgment on the way from file
to report moves it. The seed is fixed, so this passes always or never.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from evaluation.reports import queries
from evaluation.reports.queries import Report
from generation.models import Facet, Release, ReleasedRubric
from mhb_site.benchmarks.mhb.simulate import expected_rate
from review.models import User
from review.rules.wilson_interval import wilson
from tests.engine import TARGETS, evaluated, frozen

pytestmark = pytest.mark.django_db
Z = 3.3  # two-sided 99.9 %: with some forty intervals, one miss by luck in twenty-five seeds
CONVERSATIONS, REPORTS = 32, 22


@pytest.fixture
def measured(tmp_path: Path, models: str, ana: User, bo: User) -> tuple[Release, Report]:
    """The whole loop: files, batches, physicians, release, run, report."""
    release = frozen(tmp_path, models, [ana, bo], conversations=CONVERSATIONS, reports=REPORTS)
    assert release.samples_count == CONVERSATIONS + REPORTS
    return release, queries.report(evaluated(release, models, *TARGETS))


def subtypes(release: Release) -> dict[tuple[str, str, str], list[str]]:
    """(dataset, facet, value) -> the subtype of each criterion in it, one entry a criterion."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
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
                found[dataset, facet, value].append(code)
    return dict(found)


def inside(hits: int, n: int, rate: float) -> bool:
    low, high = wilson(hits, n, z=Z)
    return low <= rate <= high


def test_the_true_rates_are_recovered(measured: tuple[Release, Report]) -> None:
    release, report = measured
    assert report.endpoints == TARGETS
    assert not report.responses_failed
    criteria = subtypes(release)
    rows = [("", row) for row in report.overall]
    rows += [(facet, row) for facet, found in report.facets.items() for row in found]
    checked = 0
    for facet, row in rows:
        codes = criteria.get((row.dataset, facet, row.value), [])
        counted = row.measured
        assert (counted.denominator, counted.excluded) == (len(codes), 0), (facet, row)
        if not codes:
            continue
        expected = expected_rate(row.endpoint, codes)
        assert inside(counted.numerator, counted.denominator, expected), (facet, row, expected)
        checked += 1
    assert checked > 9 + 3 * 3 * 3  # overall, and at least three clusters, for each model and data set
    assert Facet.objects.filter(rubric__sample__release=release, name="subtype").count() == release.rubrics_count

    # The same intervals are narrow enough for this test to fail: a wrong expectation is outside of them.
    combined = {row.endpoint: row.measured for row in report.overall if row.dataset == "combined"}
    codes = criteria["combined", "", ""]
    for name, counted in combined.items():
        right = expected_rate(name, codes)
        wrong = [right + 0.2, *(expected_rate(other, codes) for other in TARGETS if other != name)]
        if name != "sim-average":  # where the two are about as frequent
            wrong.append(1 - right)  # met and not met mixed up
        for expected in wrong:
            assert not inside(counted.numerator, counted.denominator, expected), (name, expected)
    values = [counted.value or 0.0 for counted in combined.values()]
    assert values == sorted(values), "careful, average, reckless"
