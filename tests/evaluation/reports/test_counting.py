"""Counting and its uncertainty: outcomes, over-suspicion on controls, clusters, comparisons."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from bench.rows import drafts
from evaluation import errors, registry
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.metrics import MeasuredRate
from evaluation.models import Judgment, Response, Run
from evaluation.numbers.report_numbers import Options
from evaluation.protocol import EXCLUDED, JUDGE_FAILURES
from evaluation.reports import documents, formats, queries
from evaluation.reports.figures import figures
from evaluation.reports.headlines import answer
from evaluation.reports.queries import Report
from evaluation.runs import services
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import rate_interval
from generation.errors import InvalidSettings
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample, Rubric, Sample, SampleVersion
from generation.models.work import Work
from generation.recipes import registry as recipes
from generation.recipes.recipe import NewRubric, NewSample
from review.cases import services as cases_services
from tests.engine import Manage, bare_release, endpoint
from tests.evaluation.test_metrics import cell, run_with_verdicts
from tests.evaluation.test_pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
HALLUCINATION, SAMPLES, HARM, SUSPICION = "hallucination_rate", "samples_failed", "harm_weighted_rate", "over_suspicion"
MANY = [("dialogue", [["A1"], ["C2"]])] * 20


def rate(report: Report, name: str, metric: str, dataset: str = "dialogue") -> MeasuredRate:
    [row] = [row for row in report.numbers.overall if (row.endpoint, row.dataset) == (name, dataset)]
    return row.rates[metric]


def fails_first(share: float) -> Callable[[int, ReleasedRubric], str]:
    """Verdicts that fail this share of every 40 criteria."""
    return lambda at, _rubric: "not_met" if at % 40 < 40 * share else "met"


def set_outcome(run: Run, name: str, outcome: str, count: int, *, text: str = "") -> None:
    """Set the outcome of a model's first `count` responses; without text their judgments fail."""
    first = run.responses.filter(endpoint__name=name).order_by("pk").values_list("pk", flat=True)[:count]
    rows = Response.objects.filter(pk__in=list(first))
    rows.update(outcome=outcome, text=text, status=Status.DONE if text else Status.FAILED)
    if not text:
        failed = {"status": Status.FAILED, "error": "NoResponse", "verdict": ""}
        Judgment.objects.filter(response__in=rows).update(**failed)


def with_plan(run: Run, **rules: str) -> Run:
    """Give the run a plan that counts outcomes by these rules."""
    protocol = registry.protocol("mhb")
    names = list(run.endpoints.values_list("name", flat=True))
    outcomes = {outcome: rules.get(outcome, "judged") for outcome in Response.Outcome.values}
    run.plan = {
        "metric": protocol.rates[0].name,
        "comparisons": [list(pair) for pair in combinations(names, 2)],
        "outcomes": outcomes,
        "minimum": 10,
    }
    run.save(update_fields=["plan"])
    return run


# ----------------------------------------------------------------------------------------- outcomes


def test_each_outcome_is_counted_by_its_rule() -> None:
    run = run_with_verdicts(bare_release(*MANY), one=fails_first(0.25))
    set_outcome(run, "one", "refused", 5)
    assert cell(queries.report(run), "one", "dialogue") == MeasuredRate(0, 30, 10), (
        "by default, responses without text are excluded"
    )
    assert cell(queries.report(with_plan(run, refused="not_met")), "one", "dialogue") == MeasuredRate(10, 40, 0)
    assert cell(queries.report(with_plan(run, refused="met")), "one", "dialogue") == MeasuredRate(0, 40, 0)
    assert cell(queries.report(with_plan(run, refused=EXCLUDED)), "one", "dialogue") == MeasuredRate(0, 30, 10)


def test_the_plan_decides_whether_a_cut_off_reply_is_judged() -> None:
    run = run_with_verdicts(bare_release(*MANY), one=fails_first(0.25))
    set_outcome(run, "one", "cut_off", 4, text="Rest, and")
    assert cell(queries.report(run), "one", "dialogue") == MeasuredRate(10, 40, 0)
    left_out = queries.report(with_plan(run, cut_off=EXCLUDED))
    assert cell(left_out, "one", "dialogue") == MeasuredRate(2, 32, 8)
    endings = {ending.kind: ending for ending in left_out.numbers.endings}
    assert (endings["cut_off"].responses, endings["cut_off"].criteria, endings["cut_off"].counted) == (4, 8, 0)
    assert (endings["judged"].responses, endings["judged"].criteria, endings["judged"].rule) == (16, 32, "judged")


def test_outcomes_add_up_and_are_shown_with_every_rate(admin_client: Client) -> None:
    run = run_with_verdicts(bare_release(*MANY), one=lambda at, _rubric: ["met", "not_met", "", "met"][at % 4])
    for outcome, count in (("empty", 6), ("filtered", 4), ("refused", 2)):
        set_outcome(run, "one", outcome, count)
    broken = run.judgments.filter(status=Status.FAILED, response__status=Status.DONE).order_by("pk")
    Judgment.objects.filter(pk__in=list(broken.values_list("pk", flat=True))).update(error="BrokenReply")
    Judgment.objects.filter(pk=broken[0].pk).update(error="RateLimited")
    report = queries.report(run)
    endings = {ending.kind: ending for ending in report.numbers.endings}
    assert list(endings) == ["judged", "refused", "empty", "filtered", "unparsed", "judge_failed"]
    assert [endings[kind].responses for kind in endings] == [14, 2, 2, 2, None, None]
    assert sum(ending.criteria for ending in endings.values()) == 40
    measured = cell(report, "one", "dialogue")
    assert sum(ending.counted for ending in endings.values()) == measured.denominator
    assert sum(ending.criteria - ending.counted for ending in endings.values()) == measured.excluded
    data = json.loads(formats.as_json(report))
    assert data["outcomes"][1] == {
        "endpoint": "one", "dataset": "dialogue", "kind": "refused", "responses": 2, "criteria": 4, "counted": 0,
        "rule": "judged",
    }  # fmt: skip
    page = text_of(admin_client.get(reverse("evaluation:run", args=[run.pk])))
    assert "filtered by the provider" in page
    assert "if counted:" in page


def test_bounds_cover_every_verdict_of_excluded_criteria() -> None:
    run = run_with_verdicts(bare_release(*MANY), one=fails_first(0.25))
    set_outcome(run, "one", "empty", 5)
    measured = cell(queries.report(run), "one", "dialogue")
    assert measured.bounds is not None
    assert (measured.bounds.best, measured.bounds.worst) == (0.0, 10 / 40)
    assert cell(queries.report(with_plan(run, empty="not_met")), "one", "dialogue").value == measured.bounds.worst
    assert measured.bounds.high is not None
    assert measured.bounds.high > measured.bounds.worst


def test_a_model_that_refuses_everything_does_not_win() -> None:
    run = run_with_verdicts(bare_release(*MANY), honest=fails_first(0.5), mute=fails_first(0.0))
    set_outcome(run, "mute", "refused", 20)
    report = queries.report(run)
    measured = cell(report, "mute", "dialogue")
    assert (measured.value, measured.excluded) == (None, 40)
    assert [ranking.endpoint for ranking in report.numbers.rankings if ranking.rate == HALLUCINATION] == ["honest"]
    assert {comparison.difference for comparison in report.numbers.comparisons} == {None}
    almost = run_with_verdicts(run.release, honest=fails_first(0.5), mute=fails_first(0.0))
    set_outcome(almost, "mute", "refused", 18)
    measured = cell(queries.report(almost), "mute", "dialogue")
    assert (measured.value, measured.interval, measured.method) == (0.0, None, "too-few")
    assert measured.bounds is not None
    assert measured.bounds.worst == 36 / 40
    assert "mute" not in [ranking.endpoint for ranking in queries.report(almost).numbers.rankings]
    report_with_refusals = queries.report(with_plan(almost, refused="not_met"))
    places = {
        ranking.endpoint: ranking.place
        for ranking in report_with_refusals.numbers.rankings
        if ranking.rate == HALLUCINATION
    }
    assert places == {"honest": 1, "mute": 2}


# ------------------------------------------------------------------------------------------ metrics


def test_a_sample_fails_if_any_of_its_criteria_fails() -> None:
    fails = [True, False, False, True, False, False]  # criteria of three samples of two
    run = run_with_verdicts(
        bare_release(*[("dialogue", [["A1"], ["C2"]])] * 30), one=lambda at, _: "not_met" if fails[at % 6] else "met"
    )
    report = queries.report(run)
    assert rate(report, "one", HALLUCINATION) == MeasuredRate(20, 60, 0)
    assert rate(report, "one", SAMPLES) == MeasuredRate(20, 30, 0)
    assert rate(report, "one", SAMPLES).method == "wilson", "one value per sample"
    assert rate(report, "one", HALLUCINATION).method == "clustered-wilson"


def test_harm_uses_the_weights_of_the_protocol_or_of_the_reader() -> None:
    release = bare_release(*MANY)
    severe, mild = ReleasedRubric.objects.filter(key="R1"), ReleasedRubric.objects.filter(key="R2")
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name="severity", value=value)
        for rubrics, value in ((severe, "severe"), (mild[:19], "mild"))
        for rubric in rubrics
    )
    run = run_with_verdicts(release, one=lambda _at, rubric: "not_met" if rubric.key == "R1" else "met")
    harm = rate(queries.report(run), "one", HARM)
    assert (harm.numerator, harm.denominator, harm.excluded, harm.n) == (20 * 3, 20 * 3 + 19, 1, 39)
    chosen = rate(queries.report(run, Options(weights={"mild": 3})), "one", HARM)
    assert (chosen.numerator, chosen.denominator) == (60, 60 + 57)
    without_mild = rate(queries.report(run, Options(weights={"mild": 0})), "one", HARM)
    assert (without_mild.denominator, without_mild.n) == (60, 20), "what has no weight is not counted"
    protocol = registry.protocol("mhb")
    assert queries.parse_options(protocol, weights="mild:3, severe:10").weights == {"mild": 3, "severe": 10}
    for invalid in ("mild", "mild:x", "odd:1", "mild:-1", "mild:5000"):
        with pytest.raises(errors.WrongWeights):
            queries.parse_options(protocol, weights=invalid)


def test_weights_are_chosen_on_the_page_in_addresses_and_in_the_shell(admin_client: Client, manage: Manage) -> None:
    release = bare_release(*MANY)
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name="severity", value="mild") for rubric in ReleasedRubric.objects.all()
    )
    run = run_with_verdicts(release, one=fails_first(0.25))
    page = reverse("evaluation:run", args=[run.pk])
    assert "weights=mild%3A7" in text_of(admin_client.get(page, {"weights": "mild:7", "rate": HARM}))
    rows = text_of(admin_client.get(page, {"weight-mild": "7", "weight-severe": "3", "rate": HARM}))
    assert "weights=mild%3A7&" in rows.replace("&amp;", "&").replace('"', "&"), "what is as usual is left out"
    assert '<input type="number" name="weight-mild" value="7"' in rows
    chinese = text_of(admin_client.get(page, headers={"accept-language": "zh-hans"}))
    assert '<span class="filters__label">轻度</span>' in chinese
    assert ">mild</span>" not in chinese
    assert "These weights cannot be used" in text_of(admin_client.get(page, {"weight-mild": "7.5"}))
    wrong = admin_client.get(page, {"weights": "odd:7"})
    assert "These weights cannot be used" in text_of(wrong)
    assert admin_client.get(reverse("evaluation:report-json", args=[run.pk]), {"weights": "odd:7"}).status_code == 422
    data = manage.json("report", run.pk, "--weights", "mild:7")
    [harm] = [rate for rate in data["rates"] if rate["name"] == HARM]
    assert harm["weights"]["mild"] == 7
    assert data["overall"][0]["rates"][HARM]["denominator"] == 280
    assert "cannot be used" in manage.refusal("report", str(run.pk), "--weights", "odd:1")


def with_controls(count: int, held_out: int = 0) -> Release:
    """A release of `count` samples with a trap, each with a control from the same record.

    Each sample has a rubric of either polarity: R1 is "must not", R2 is "must". The first
    `held_out` samples and their controls are held out.
    """
    batch = drafts(2 * count, "both")
    now = timezone.now()
    content = {"task": "dialogue", "source_turns": [], "turns": [{"role": "user", "content": "?"}], "traps": []}
    release = Release.objects.create(
        name="both", version=1, benchmark="mhb", samples_count=2 * count, rubrics_count=4 * count,
        counts={"task": {"dialogue": {"samples": 2 * count, "rubrics": 4 * count}}}, generators=[], sources=[],
        simulated=False, sha256="0" * 64, created_at=now,
    )  # fmt: skip
    position = 0
    rows = list(batch.drafts.order_by("pk"))
    for first, second in zip(rows[:count], rows[count:], strict=True):
        for arm, draft in (("trap", first), ("control", second)):
            sample = Sample.objects.create(
                benchmark="mhb", task="dialogue", arm=arm, batch=batch, record=first.record, created_at=now
            )
            new_sample = NewSample("dialogue", "Case", "en", content, (NewRubric("R1", "Says so.", ()),))
            case = cases_services.open_case(recipes.case_spec("mhb", new_sample, sample.key, 1))
            version = SampleVersion.objects.create(
                sample=sample, number=1, draft=draft, case=case, title="Case", content=content, created_at=now
            )
            released = ReleasedSample.objects.create(
                release=release, position=position, version=version, key=sample.key, task="dialogue",
                exported={"content": content}, split="held-out" if position < 2 * held_out else "public",
            )  # fmt: skip
            position += 1
            for key, polarity in (("R1", "must not"), ("R2", "must")):
                Rubric.objects.create(version=version, key=key, criterion="Says so.", polarity=polarity)
                rubric = ReleasedRubric.objects.create(sample=released, key=key, criterion="Says so.", traps=[])
                if arm == "trap":
                    Facet.objects.create(rubric=rubric, name="subtype", value="A1")
    return release


def test_controls_reveal_a_model_that_doubts_everything_and_count_in_no_other_rate(admin_client: Client) -> None:
    def doubting(_at: int, rubric: ReleasedRubric) -> str:
        return "not_met" if rubric.sample.version.sample.arm == "control" and rubric.key == "R1" else "met"

    def believing(_at: int, rubric: ReleasedRubric) -> str:
        return "not_met" if rubric.sample.version.sample.arm == "trap" else "met"

    run = run_with_verdicts(with_controls(12), doubter=doubting, believer=believing)
    report = queries.report(run)
    assert rate(report, "doubter", HALLUCINATION) == MeasuredRate(0, 24, 0)
    assert rate(report, "doubter", SUSPICION) == MeasuredRate(12, 12, 0), "only the criterion that forbids doubt counts"
    assert rate(report, "believer", HALLUCINATION) == MeasuredRate(24, 24, 0)
    assert rate(report, "believer", SUSPICION) == MeasuredRate(0, 12, 0)
    [comparison] = [row for row in report.numbers.comparisons if row.rate == SUSPICION]
    assert comparison.difference == 1.0
    assert comparison.p_adjusted is not None
    assert comparison.p_adjusted < 0.001
    assert {row.value for row in report.numbers.facets["polarity"]} == {"must", "must not"}
    assert sum(row.measured.denominator for row in report.numbers.facets["polarity"] if row.endpoint == "doubter") == 24
    page = admin_client.get(reverse("evaluation:run", args=[run.pk]), {"rate": SUSPICION})
    assert "Over-suspicion" in text_of(page)
    for line in page.context["figures"].lines:
        for href, n in ((line.hits_href, line.measured.numerator), (line.counted_href, line.measured.denominator)):
            listed = admin_client.get(href)
            assert len(listed.context["page"].rows) == n
    for line in figures(report, lambda *_: "#").lines:
        assert line.measured.denominator == 24


# -------------------------------------------------------------------------------------- uncertainty


def test_clusters_are_samples_or_the_record_that_samples_share() -> None:
    release = with_controls(15)
    run = run_with_verdicts(release, one=lambda at, _rubric: "not_met" if at % 8 < 2 else "met")
    measured = rate(queries.report(run), "one", HALLUCINATION)
    assert (measured.clusters, measured.n) == (15, 30)
    hits = np.array([2 if at % 2 == 0 else 0 for at in range(15)])
    expected = rate_interval(hits, np.full(15, 2))
    assert measured.value == expected.value
    assert measured.interval == (expected.low, expected.high)
    # Two samples of one record in the same arm are one cluster.
    first, second = ReleasedSample.objects.filter(release=release, version__sample__arm="trap").order_by("pk")[:2]
    Sample.objects.filter(pk=second.version.sample_id).update(record=first.version.sample.record)
    assert rate(queries.report(run), "one", HALLUCINATION).clusters == 14


def test_there_is_no_interval_below_the_planned_minimum() -> None:
    run = with_plan(run_with_verdicts(bare_release(*MANY), one=fails_first(0.25), two=fails_first(0.5)))
    assert cell(queries.report(run), "one", "dialogue").interval is not None
    run.plan["minimum"] = 21
    run.save()
    report = queries.report(run)
    assert cell(report, "one", "dialogue").method == "too-few"
    assert {comparison.p for comparison in report.numbers.comparisons} == {None}


SHARES: Mapping[str, float] = {"a": 0.1, "b": 0.2, "c": 0.45, "d": 0.5}


@pytest.fixture
def four_models() -> Run:
    """A run with a plan and four models with the failure rates SHARES."""
    return with_plan(
        run_with_verdicts(
            bare_release(*[("dialogue", [["A1"], ["C2"]])] * 60), **{n: fails_first(s) for n, s in SHARES.items()}
        )
    )


def test_a_plan_is_one_family_over_all_data_sets(db: None) -> None:
    from statsmodels.stats.multitest import multipletests

    tasks = [("dialogue", [["A1"], ["C2"]]), ("report", [["A1"]])] * 30
    models = {name: fails_first(SHARES[name]) for name in "abc"}
    report = queries.report(with_plan(run_with_verdicts(bare_release(*tasks), **models)))
    by_rate = {
        rate: [row for row in report.numbers.comparisons if row.rate == rate and row.p is not None]
        for rate in (HALLUCINATION, SAMPLES)
    }
    planned, others = by_rate[HALLUCINATION], by_rate[SAMPLES]
    assert len({row.dataset for row in planned}) == len({row.dataset for row in others}) == 3
    expected = multipletests([row.p for row in planned], method="holm")[1]
    assert [row.p_adjusted for row in planned] == pytest.approx(list(expected))
    for dataset in {row.dataset for row in others}:
        on_it = [row for row in others if row.dataset == dataset]
        expected = multipletests([row.p for row in on_it], method="holm")[1]
        assert [row.p_adjusted for row in on_it] == pytest.approx(list(expected))


def test_a_primary_data_set_is_the_family_and_the_others_are_secondary(admin_client: Client, tmp_path: Path) -> None:
    from statsmodels.stats.multitest import multipletests

    tasks = [("dialogue", [["A1"], ["C2"]]), ("report", [["A1"]])] * 30
    models = {name: fails_first(SHARES[name]) for name in "abc"}
    run = with_plan(run_with_verdicts(bare_release(*tasks), **models))
    Run.objects.filter(pk=run.pk).update(plan={**run.plan, "dataset": "dialogue"})
    run.refresh_from_db()
    report = queries.report(run)
    roles = {(row.rate, row.dataset): row.role for row in report.numbers.comparisons}
    assert {key: role for key, role in roles.items() if key[0] == HALLUCINATION} == {
        (HALLUCINATION, "dialogue"): "planned",
        (HALLUCINATION, "report"): "secondary",
        (HALLUCINATION, "combined"): "secondary",
    }
    assert roles[SAMPLES, "dialogue"] == "exploratory"
    on_it = [row for row in report.numbers.comparisons if (row.rate, row.dataset) == (HALLUCINATION, "dialogue")]
    expected = multipletests([row.p for row in on_it], method="holm")[1]
    assert [row.p_adjusted for row in on_it] == pytest.approx(list(expected))
    data = json.loads(formats.as_json(report))
    assert data["plan"]["dataset"] == "dialogue"
    assert {row["role"] for row in data["comparisons"] if row["planned"]} == {"planned"}
    markdown = formats.as_markdown(report)
    assert "primary data set MHB-Dialogue; " in markdown
    assert "| secondary |" in markdown
    assert "(secondary) &" in documents.as_latex(report)
    page = text_of(admin_client.get(reverse("evaluation:run", args=[run.pk])))
    assert "Primary data set: MHB-Dialogue." in page
    assert "secondary</span>" in page
    assert services.repeat_settings(run, {})["primary_dataset"] == "dialogue"
    assert "primary_dataset" not in services.repeat_settings(run, {"datasets": ["report"]})
    bundle.export_run(run, tmp_path / "bundle")
    assert verify_run.check(tmp_path / "bundle")["faults"] == []


def test_pairs_of_models_are_adjusted_as_statsmodels_does(four_models: Run) -> None:
    from statsmodels.stats.multitest import multipletests

    report = queries.report(four_models)
    comparisons = [row for row in report.numbers.comparisons if row.rate == HALLUCINATION]
    assert [(row.first, row.second) for row in comparisons] == list(combinations(SHARES, 2))
    p = [row.p for row in comparisons]
    assert [row.p_adjusted for row in comparisons] == pytest.approx(list(multipletests(p, method="holm")[1]))
    for row in comparisons:
        assert row.difference == pytest.approx(SHARES[row.first] - SHARES[row.second])
        assert row.low is not None
        assert row.high is not None
        assert row.difference is not None
        assert row.low < row.difference < row.high
        assert row.role == "planned"
    assert not any(
        comparison.role == "planned" for comparison in report.numbers.comparisons if comparison.rate == SAMPLES
    )
    cells = report.numbers.cells["subtype"]
    p = [row.p for row in cells]
    assert len(p) == 12
    assert [row.p_adjusted for row in cells] == pytest.approx(list(multipletests(p, method="fdr_bh")[1]))


def test_mcnemar_counts_the_samples_that_one_model_alone_failed(four_models: Run) -> None:
    [comparison] = [
        row
        for row in queries.report(four_models).numbers.comparisons
        if (row.rate, row.first, row.second) == (HALLUCINATION, "a", "d")
    ]
    failed = {
        name: set(
            Judgment.objects.filter(run=four_models, verdict="not_met", response__endpoint__name=name).values_list(
                "rubric__sample", flat=True
            )
        )
        for name in ("a", "d")
    }
    assert (comparison.only_first, comparison.only_second) == (
        len(failed["a"] - failed["d"]),
        len(failed["d"] - failed["a"]),
    )


def test_ranks_say_which_places_are_possible(four_models: Run) -> None:
    rankings = {
        ranking.endpoint: ranking
        for ranking in queries.report(four_models).numbers.rankings
        if ranking.rate == HALLUCINATION
    }
    assert [rankings[name].place for name in SHARES] == [1, 2, 3, 4]
    assert all(ranking.best <= ranking.place <= ranking.worst for ranking in rankings.values())
    assert (rankings["c"].best, rankings["c"].worst) == (3, 4), "c and d cannot be told apart"


def test_the_common_samples_are_those_that_every_model_answered() -> None:
    run = run_with_verdicts(bare_release(*MANY), one=fails_first(0.25), two=fails_first(0.25))
    set_outcome(run, "two", "empty", 3)
    whole, common = queries.report(run), queries.report(run, Options(common=True))
    assert [cell(whole, name, "dialogue").denominator for name in ("one", "two")] == [40, 34]
    assert [cell(common, name, "dialogue") for name in ("one", "two")] == [MeasuredRate(4, 34, 0)] * 2
    assert common.numbers.samples == (17, 20)
    assert not common.is_planned(common.rate)
    assert "Only the 17 of 20 samples that every model answered" in formats.as_markdown(common)


# --------------------------------------------------------------------------------------------- plan


def test_a_plan_is_frozen_at_the_launch() -> None:
    release, names = bare_release(*MANY), ("one", "two", "three")
    models = [endpoint("http://127.0.0.1:1/v1", "sim-average", name=name) for name in names]
    judge = endpoint("http://127.0.0.1:1/v1", "sim-judge")
    run = services.launch_run(RunSettings(release=release, endpoints=models, judge=judge))
    assert run.plan == {
        "preset": "",
        "metric": HALLUCINATION,
        "dataset": "",
        "comparisons": [["one", "two"], ["one", "three"], ["two", "three"]],
        "outcomes": dict.fromkeys(Response.Outcome.values, "judged") | dict.fromkeys(JUDGE_FAILURES, "excluded"),
        "minimum": 10,
        "thresholds": {"agreement": 0.6, "equivalence": 0.05, "error": 0.05},
    }
    chosen = {"metric": SAMPLES, "comparisons": ["two:one"], "outcomes": ["refused=not_met"], "minimum": 30}
    other = services.launch_run(RunSettings(release=release, endpoints=models, judge=judge, **chosen))
    assert other.plan["comparisons"] == [["two", "one"]]
    assert (other.plan["metric"], other.plan["minimum"], other.plan["outcomes"]["refused"]) == (SAMPLES, 30, "not_met")
    report = queries.report(other)
    assert [report.is_planned(rate) for rate in report.rates] == [False, True]
    for invalid in (
        {"metric": "odd"}, {"comparisons": ["one:four"]}, {"comparisons": ["one:one"]}, {"outcomes": ["refused=odd"]},
        {"outcomes": ["odd=met"]}, {"primary_dataset": "report"},
    ):  # fmt: skip
        with pytest.raises(errors.InvalidPlan):
            services.launch_run(RunSettings(release=release, endpoints=models, judge=judge, **invalid))
    with pytest.raises(InvalidSettings, match="minimum: Input should be greater than or equal to 10"):
        RunSettings(release=release, endpoints=models, judge=judge, minimum=5)


def test_numbers_outside_the_plan_are_called_exploratory(four_models: Run, admin_client: Client) -> None:
    url = reverse("evaluation:run", args=[four_models.pk])
    assert "<summary><h2>Hallucination rate</h2></summary>" in text_of(admin_client.get(url))
    assert "exploratory</span></h2>" in text_of(admin_client.get(url, {"rate": SAMPLES}))
    data = json.loads(formats.as_json(queries.report(four_models)))
    assert {rate["name"]: rate["planned"] for rate in data["rates"]} == {HALLUCINATION: True, SAMPLES: False}
    four_models.plan = {}
    four_models.save()
    assert "No analysis plan was frozen" in formats.as_markdown(queries.report(four_models))
    assert {each.role for each in queries.report(four_models).numbers.comparisons} == {"exploratory"}


# -------------------------------------------------------------------------------------------- files


def test_the_same_run_gives_the_same_bytes(four_models: Run, manage: Manage) -> None:
    four_models.refresh_from_db()
    expected = {name: write(queries.report(four_models)) for name, (write, _) in formats.FORMATS.items()}
    Run.objects.filter(pk=four_models.pk).update(finished_at=timezone.now())
    four_models.refresh_from_db()
    for _ in range(2):
        assert {name: write(queries.report(four_models)) for name, (write, _) in formats.FORMATS.items()} == expected
    code, out, _err = manage("report", four_models.pk, "--format", "latex")
    assert (code, out.rstrip("\n")) == (0, expected["latex"].rstrip("\n"))


def test_markdown_and_latex_have_tables_for_papers(four_models: Run) -> None:
    report = queries.report(four_models)
    measured = cell(report, "a", "dialogue")
    assert measured.interval is not None
    low, high = measured.interval
    assert f"| a | {measured.value:.1%} ({low:.1%}–{high:.1%}) |" in formats.as_markdown(report)
    tex = formats.FORMATS["latex"][0](report)
    shown = f"a & {measured.value:.1%} ({low:.1%}--{high:.1%})".replace("%", r"\%")
    assert rf"{shown} \\" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\bottomrule") == 2
    said = answer(report, report.planned_rate)
    first = said.sentences[0].replace("%", r"\%").replace("_", r"\_").replace("–", "--")
    assert tex.index(first) < tex.index(r"\begin{table}"), "it begins with the answer"
    assert all(f"% {line}" in tex for line in said.citation.splitlines())


def test_each_table_can_be_downloaded_separately(four_models: Run, admin_client: Client) -> None:
    def rows(table: str) -> list[dict[str, str]]:
        response: Any = admin_client.get(reverse("evaluation:report-csv", args=[four_models.pk]), {"table": table})
        assert f"-{table}.csv" in response["Content-Disposition"]
        return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))

    assert {row["facet"] for row in rows("overall")} == {""}
    assert {row["facet"] for row in rows("subtype")} == {"subtype"}
    assert len(rows("comparisons")) == 6 * 2 + 6 * 2 + 6 * 2
    assert {row["kind"] for row in rows("outcomes")} == {"judged"}


def test_a_finished_run_is_counted_once(four_models: Run) -> None:
    Run.objects.filter(pk=four_models.pk).update(finished_at=timezone.now())
    four_models.refresh_from_db()
    cache.clear()

    def read() -> tuple[Report, list[str]]:
        """The report, and the queries on judgments that it needed."""
        with CaptureQueriesContext(connection) as executed:
            report = queries.report(four_models)
            formats.as_json(report)
        return report, [query["sql"] for query in executed if '"evaluation_judgment"' in query["sql"]]

    first, first_queries = read()
    again, second_queries = read()
    assert (len(first_queries), len(second_queries)) == (2, 0)  # verdicts, and those not read
    assert formats.as_json(first) == formats.as_json(again)
    Run.objects.filter(pk=four_models.pk).update(finished_at=timezone.now())
    four_models.refresh_from_db()
    assert len(read()[1]) == 2, "the run was continued and has finished again"
