"""A report begins with its answer; the list of runs and comparisons say the same."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.models import Run
from evaluation.reports import queries, services
from evaluation.reports.headlines import answer, headlines
from evaluation.runs.rows import result_cache
from generation.models import Erratum, Release, WorkerBeat
from tests.engine import bare_release
from tests.evaluation.test_metrics import run_with_verdicts

pytestmark = pytest.mark.django_db


@pytest.fixture
def release() -> Release:
    return bare_release(*[("dialogue", [["A1"]])] * 30)


def finished(release: Release) -> Run:
    """A run in which one model fails 3 of 30 samples, and the other 18."""
    run = run_with_verdicts(
        release,
        careful=lambda position, _rubric: "not_met" if position < 3 else "met",
        reckless=lambda position, _rubric: "not_met" if position < 18 else "met",
    )
    Run.objects.filter(pk=run.pk).update(finished_at=timezone.now(), rubrics_total=60)
    run.refresh_from_db()
    return run


def test_the_answer_comes_first_with_intervals_and_the_release(release: Release, admin_client: Client) -> None:
    run = finished(release)
    report = queries.report(run)
    said = answer(report, report.planned_rate)
    rates, difference = said.sentences
    measured = {row.endpoint: row.rates[report.planned_rate.name] for row in report.numbers.overall}
    low, high = measured["careful"].interval or (0.0, 0.0)
    assert f"careful 10.0% (3 of 30, 95% CI {low:.1%}–{high:.1%}, 30 clusters); reckless 60.0%" in rates
    assert difference.startswith("reckless is 50.0 pp above careful (95% CI +")
    assert said.citation.startswith(f"@misc{{{release.name}-v{release.version},")
    assert release.sha256 in said.citation
    page = admin_client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert page.index(rates) < page.index("<table")
    for ending in ("json", "md"):
        assert rates in admin_client.get(f"/evaluation/runs/{run.pk}/report.{ending}").content.decode()


def test_too_few_samples_are_said_once(admin_client: Client) -> None:
    run = run_with_verdicts(bare_release(("dialogue", [["A1"]])), one=lambda *_: "met", two=lambda *_: "not_met")
    report = queries.report(run)
    rates, difference = answer(report, report.planned_rate).sentences
    assert "one 0.0% (0 of 1, 1 cluster); two 100.0% (1 of 1, 1 cluster)" in rates
    assert difference.startswith("Too few samples")
    page = admin_client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "1 pair has too few samples for an interval" in page


def test_a_rate_of_several_criteria_a_sample_names_both_numbers() -> None:
    run = run_with_verdicts(
        bare_release(*[("dialogue", [["A1"], ["A1"], ["A2"]])] * 20),
        one=lambda at, _rubric: "not_met" if at < 9 else "met",
        two=lambda at, _rubric: "not_met" if at >= 51 else "met",
    )
    report = queries.report(run)
    rates, difference = answer(report, report.planned_rate).sentences
    assert "one 15.0% (9 of 60, 95% CI" in rates
    assert ", 20 clusters)" in rates
    assert "one and two are 0.0 pp apart (95% CI" in difference
    assert "above" not in difference


def test_a_paused_run_says_why_first_and_compares_only_models_with_verdicts(
    release: Release, admin_client: Client
) -> None:
    run = run_with_verdicts(release, careful=lambda *_: "met", dead=lambda *_: "")
    Run.objects.filter(pk=run.pk).update(status=Run.Status.PAUSED, paused_because="AllFailing")
    report = queries.report(run)
    assert len(answer(report, report.planned_rate).sentences) == 1, "nothing to compare with"
    page = admin_client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert page.index('id="paused"') < page.index('id="answer"')


def test_the_list_of_runs_has_rates_and_compares_those_ticked(release: Release, admin_client: Client) -> None:
    runs = [finished(release) for _ in range(3)]
    keys = [run.pk for run in runs]
    listed = admin_client.get(reverse("evaluation:runs")).content.decode()
    assert listed.count("10.0%–60.0% ") == listed.count('name="rows"') == 3
    assert set(headlines(runs)) == set(keys)
    ticked = admin_client.get(reverse("evaluation:runs"), {"rows": list(map(str, keys)), "compare": ["1"]})
    page = admin_client.get(ticked["Location"]).content.decode()
    for other in keys[:2]:
        assert f"Run {keys[2]} compared with run {other}" in page
    assert 'class="forest"' in page
    one = admin_client.get(reverse("evaluation:runs"), {"rows": [str(keys[0])], "compare": ["1"]}).content.decode()
    assert "Select two or more runs to compare." in one


def test_a_list_counts_few_runs_at_once(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.reports.headlines.COUNTED_AT_ONCE", 1)
    monkeypatch.setattr(result_cache, "VERSION", -1)
    runs = [finished(release) for _ in range(2)]
    first, second = (run.pk for run in runs)
    assert headlines(runs)[first].startswith("10.0%–60.0% ")
    monkeypatch.setattr("evaluation.reports.headlines.COUNTED_AT_ONCE", 0)
    assert headlines(runs)[second] == "not counted yet"
    monkeypatch.setattr("evaluation.reports.headlines.COUNTED_AT_ONCE", 1)
    assert headlines(runs)[second].startswith("10.0%–60.0% "), "counted when the list is read again"


def test_a_worker_counts_the_runs_of_a_list(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """A web process would answer nobody else for seconds."""
    monkeypatch.setattr(result_cache, "VERSION", -2)
    run, asked = finished(release), []
    WorkerBeat.objects.create(name="w", seen_at=timezone.now(), runs_tasks=True)
    monkeypatch.setattr(services, "wake", lambda task, *args: asked.append((task, *args)))
    assert headlines([run]) == {run.pk: "being counted"}
    assert headlines([run]) == {run.pk: "being counted"}
    [(task, *args)] = asked
    task(*args)
    assert headlines([run])[run.pk].startswith("10.0%–60.0% ")


def test_numbers_of_a_withdrawal_that_their_key_does_not_know_are_not_kept(release: Release) -> None:
    """Withdrawn while the report is read: another reader, who began before, gets none of them."""
    run = finished(release)
    early, other = queries.report(run), queries.report(run)
    sample = release.samples.order_by("position")[0].version.sample
    Erratum.objects.create(sample=sample, kind=Erratum.Kind.WITHDRAWN, reason="It is wrong.", at=timezone.now())
    assert early.numbers.samples == (0, 0), "all are of this sample"
    assert not result_cache.is_cached(early.numbers_key)
    assert early.numbers_key == other.numbers_key != queries.report(Run.objects.get(pk=run.pk)).numbers_key
    counted = queries.report(Run.objects.get(pk=run.pk))
    assert counted.numbers.samples == (0, 0)
    assert result_cache.is_cached(counted.numbers_key)
