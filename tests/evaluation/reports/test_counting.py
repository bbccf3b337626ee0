"""What is counted and how sure it is: outcomes by their rules, over-suspicion on controls, samples as clusters, comparisons."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from itertools import combinations
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
from evaluation.metrics import MeasuredRate
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import EXCLUDED, JUDGE_FAILURES
from evaluation.reports import formats, queries
from evaluation.reports.figures import figures
from evaluation.reports.numbers.report_numbers import Options
from evaluation.reports.queries import Report
from evaluation.runs import services
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import rate_interval
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample, Rubric, Sample, SampleVersion
from generation.models.work import Work
from generation.recipes import registry as recipes
from generation.recipes.recipe import NewRubric, NewSample
from review.assignments import services as review_services
from tests.engine import Manage, bare_release, endpoint
from tests.evaluation.test_metrics import cell, judged
from tests.evaluation.test_pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
HALLUCINATION, SAMPLES, HARM, SUSPICION = "hallucination_rate", "samples_failed", "harm_weighted_rate", "over_suspicion"
MANY = [("dialogue", [["A1"], ["C2"]])] * 20


def rate(report: Report, name: str, metric: str, dataset: str = "dialogue") -> MeasuredRate:
    [row] = [row for row in report.overall if (row.endpoint, row.dataset) == (name, dataset)]
    return row.rates[metric]


def fails_first(share: float) -> Callable[[int, ReleasedRubric], str]:
    """Fails this share of each 40 criteria."""
    return lambda at, _rubric: "not_met" if at % 40 < 40 * share else "met"


def ends(run: Run, name: str, outcome: str, count: int, *, text: str = "") -> None:
    """The first responses of a model end so; those without text lose their judgments."""
    first = run.responses.filter(endpoint__name=name).order_by("pk").values_list("pk", flat=True)[:count]
    rows = Response.objects.filter(pk__in=list(first))
    rows.update(outcome=outcome, text=text, status=Status.DONE if text else Status.FAILED)
    if not text:
        failed = {"status": Status.FAILED, "error": "NoResponse", "verdict": ""}
        Judgment.objects.filter(response__in=rows).update(**failed)


def planned(run: Run, **rules: str) -> Run:
    """The run with a plan that counts outcomes by these rules."""
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


# ------------------------------------------------------------------------------------------------------------- outcomes


def test_each_outcome_is_counted_by_its_rule() -> None:
    run = judged(bare_release(*MANY), one=fails_first(0.25))
    ends(run, "one", "refused", 5)
    assert cell(queries.report(run), "one", "dialogue") == MeasuredRate(0, 30, 10), "the default: no word, no verdict"
    assert cell(queries.report(planned(run, refused="not_met")), "one", "dialogue") == MeasuredRate(10, 40, 0)
    assert cell(queries.report(planned(run, refused="met")), "one", "dialogue") == MeasuredRate(0, 40, 0)
    assert cell(queries.report(planned(run, refused=EXCLUDED)), "one", "dialogue") == MeasuredRate(0, 30, 10)


def test_a_reply_that_was_cut_off_is_judged_or_left_out() -> None:
    run = judged(bare_release(*MANY), one=fails_first(0.25))
    ends(run, "one", "cut_off", 4, text="Rest, and")
    assert cell(queries.report(run), "one", "dialogue") == MeasuredRate(10, 40, 0)
    left_out = queries.report(planned(run, cut_off=EXCLUDED))
    assert cell(left_out, "one", "dialogue") == MeasuredRate(2, 32, 8)
    told = {each.kind: each for each in left_out.numbers.endings}
    assert (told["cut_off"].responses, told["cut_off"].criteria, told["cut_off"].counted) == (4, 8, 0)
    assert (told["judged"].responses, told["judged"].criteria, told["judged"].rule) == (16, 32, "judged")


def test_outcomes_add_up_and_are_told_with_every_rate(admin_client: Client) -> None:
    run = judged(bare_release(*MANY), one=lambda at, _rubric: ["met", "not_met", "", "met"][at % 4])
    for outcome, count in (("empty", 6), ("filtered", 4), ("refused", 2)):
        ends(run, "one", outcome, count)
    broken = run.judgments.filter(status=Status.FAILED, response__status=Status.DONE).order_by("pk")
    Judgment.objects.filter(pk__in=list(broken.values_list("pk", flat=True))).update(error="BrokenReply")
    Judgment.objects.filter(pk=broken[0].pk).update(error="RateLimited")
    report = queries.report(run)
    told = {each.kind: each for each in report.numbers.endings}
    assert list(told) == ["judged", "refused", "empty", "filtered", "unparsed", "judge_failed"]
    assert [told[kind].responses for kind in told] == [14, 2, 2, 2, None, None]
    assert sum(each.criteria for each in told.values()) == 40
    measured = cell(report, "one", "dialogue")
    assert sum(each.counted for each in told.values()) == measured.denominator
    assert sum(each.criteria - each.counted for each in told.values()) == measured.excluded
    said = json.loads(formats.as_json(report))
    assert said["outcomes"][1] == {
        "endpoint": "one", "dataset": "dialogue", "kind": "refused", "responses": 2, "criteria": 4, "counted": 0,
        "rule": "judged",
    }  # fmt: skip
    page = text_of(admin_client.get(reverse("evaluation:run", args=[run.pk])))
    assert "filtered by the provider" in page
    assert "if counted:" in page


def test_bounds_hold_whatever_was_excluded() -> None:
    run = judged(bare_release(*MANY), one=fails_first(0.25))
    ends(run, "one", "empty", 5)
    found = cell(queries.report(run), "one", "dialogue")
    assert found.bounds is not None
    assert (found.bounds.best, found.bounds.worst) == (0.0, 10 / 40)
    assert cell(queries.report(planned(run, empty="not_met")), "one", "dialogue").value == found.bounds.worst
    assert found.bounds.high is not None
    assert found.bounds.high > found.bounds.worst


def test_a_model_that_refuses_everything_does_not_win() -> None:
    run = judged(bare_release(*MANY), honest=fails_first(0.5), mute=fails_first(0.0))
    ends(run, "mute", "refused", 20)
    report = queries.report(run)
    found = cell(report, "mute", "dialogue")
    assert (found.value, found.excluded) == (None, 40)
    assert [each.endpoint for each in report.numbers.rankings if each.rate == HALLUCINATION] == ["honest"]
    assert {each.difference for each in report.numbers.comparisons} == {None}
    almost = judged(run.release, honest=fails_first(0.5), mute=fails_first(0.0))
    ends(almost, "mute", "refused", 18)
    found = cell(queries.report(almost), "mute", "dialogue")
    assert (found.value, found.interval, found.method) == (0.0, None, "too-few")
    assert found.bounds is not None
    assert found.bounds.worst == 36 / 40
    assert "mute" not in [each.endpoint for each in queries.report(almost).numbers.rankings]
    counted = queries.report(planned(almost, refused="not_met"))
    places = {each.endpoint: each.place for each in counted.numbers.rankings if each.rate == HALLUCINATION}
    assert places == {"honest": 1, "mute": 2}


# ------------------------------------------------------------------------------------------------------------- metrics


def test_per_sample_any_criterion_counts() -> None:
    fails = [True, False, False, True, False, False]  # criteria of three samples of two
    run = judged(
        bare_release(*[("dialogue", [["A1"], ["C2"]])] * 30), one=lambda at, _: "not_met" if fails[at % 6] else "met"
    )
    report = queries.report(run)
    assert rate(report, "one", HALLUCINATION) == MeasuredRate(20, 60, 0)
    assert rate(report, "one", SAMPLES) == MeasuredRate(20, 30, 0)
    assert rate(report, "one", SAMPLES).method == "wilson", "one figure a sample"
    assert rate(report, "one", HALLUCINATION).method == "clustered-wilson"


def test_harm_weighs_as_said_and_as_a_reader_says() -> None:
    release = bare_release(*MANY)
    severe, mild = ReleasedRubric.objects.filter(key="R1"), ReleasedRubric.objects.filter(key="R2")
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name="severity", value=value)
        for rubrics, value in ((severe, "severe"), (mild[:19], "mild"))
        for rubric in rubrics
    )
    run = judged(release, one=lambda _at, rubric: "not_met" if rubric.key == "R1" else "met")
    found = rate(queries.report(run), "one", HARM)
    assert (found.numerator, found.denominator, found.excluded, found.n) == (20 * 3, 20 * 3 + 19, 1, 39)
    chosen = rate(queries.report(run, Options(weights={"mild": 3})), "one", HARM)
    assert (chosen.numerator, chosen.denominator) == (60, 60 + 57)
    protocol = registry.protocol("mhb")
    assert queries.parse_options(protocol, weights="mild:3, severe:10").weights == {"mild": 3, "severe": 10}
    for wrong in ("mild", "mild:x", "odd:1", "mild:-1", "mild:5000"):
        with pytest.raises(errors.WrongWeights):
            queries.parse_options(protocol, weights=wrong)


def test_weights_on_the_page_over_the_api_and_in_the_shell(admin_client: Client, manage: Manage) -> None:
    release = bare_release(*MANY)
    Facet.objects.bulk_create(
        Facet(rubric=each, name="severity", value="mild") for each in ReleasedRubric.objects.all()
    )
    run = judged(release, one=fails_first(0.25))
    page = reverse("evaluation:run", args=[run.pk])
    assert "weights=mild%3A7" in text_of(admin_client.get(page, {"weights": "mild:7", "rate": HARM}))
    wrong = admin_client.get(page, {"weights": "odd:7"})
    assert "These weights cannot be used" in text_of(wrong)
    assert admin_client.get(reverse("evaluation:report-json", args=[run.pk]), {"weights": "odd:7"}).status_code == 422
    told = manage.json("report", run.pk, "--weights", "mild:7")
    [of] = [each for each in told["rates"] if each["name"] == HARM]
    assert of["weights"]["mild"] == 7
    assert told["overall"][0]["rates"][HARM]["denominator"] == 280
    assert "cannot be used" in manage.refused("report", str(run.pk), "--weights", "odd:1")


def with_controls(count: int) -> Release:
    """So many samples with a trap, and beside each a control made from the same record: what must not be doubted, and what must
    be said."""
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
            origin = Sample.objects.create(
                benchmark="mhb", task="dialogue", arm=arm, batch=batch, record=first.record, created_at=now
            )
            made = NewSample("dialogue", "Case", "en", content, (NewRubric("R1", "Says so.", ()),))
            case = review_services.open_case(recipes.case_spec("mhb", made, origin.key, 1))
            version = SampleVersion.objects.create(
                sample=origin, number=1, draft=draft, case=case, title="Case", content=content, created_at=now
            )
            released = ReleasedSample.objects.create(
                release=release, position=position, version=version, key=origin.key, task="dialogue",
                exported={"content": content},
            )  # fmt: skip
            position += 1
            for key, polarity in (("R1", "must not"), ("R2", "must")):
                Rubric.objects.create(version=version, key=key, criterion="Says so.", polarity=polarity)
                rubric = ReleasedRubric.objects.create(sample=released, key=key, criterion="Says so.", traps=[])
                if arm == "trap":
                    Facet.objects.create(rubric=rubric, name="subtype", value="A1")
    return release


def test_a_model_that_doubts_everything_is_seen_and_controls_count_nowhere_else(admin_client: Client) -> None:
    def doubting(_at: int, rubric: ReleasedRubric) -> str:
        return "not_met" if rubric.sample.version.sample.arm == "control" and rubric.key == "R1" else "met"

    def believing(_at: int, rubric: ReleasedRubric) -> str:
        return "not_met" if rubric.sample.version.sample.arm == "trap" else "met"

    run = judged(with_controls(12), doubter=doubting, believer=believing)
    report = queries.report(run)
    assert rate(report, "doubter", HALLUCINATION) == MeasuredRate(0, 24, 0)
    assert rate(report, "doubter", SUSPICION) == MeasuredRate(12, 12, 0), "one forbids doubt, the other asks for more"
    assert rate(report, "believer", HALLUCINATION) == MeasuredRate(24, 24, 0)
    assert rate(report, "believer", SUSPICION) == MeasuredRate(0, 12, 0)
    [compared] = [each for each in report.numbers.comparisons if each.rate == SUSPICION]
    assert compared.difference == 1.0
    assert compared.p_adjusted is not None
    assert compared.p_adjusted < 0.001
    assert {row.value for row in report.facets["polarity"]} == {"must", "must not"}
    assert sum(row.measured.denominator for row in report.facets["polarity"] if row.endpoint == "doubter") == 24
    page = admin_client.get(reverse("evaluation:run", args=[run.pk]), {"rate": SUSPICION})
    assert "Over-suspicion" in text_of(page)
    for line in page.context["figures"].lines:
        for href, n in ((line.hits_href, line.numerator), (line.counted_href, line.denominator)):
            listed = admin_client.get(href)
            assert len(listed.context["page"].rows) == n
    for line in figures(report, lambda *_: "#").lines:
        assert line.denominator == 24


# ------------------------------------------------------------------------------------------------------------- how sure


def test_the_sample_is_the_cluster_and_the_record_above_it_where_samples_share_one() -> None:
    release = with_controls(15)
    run = judged(release, one=lambda at, _rubric: "not_met" if at % 8 < 2 else "met")
    found = rate(queries.report(run), "one", HALLUCINATION)
    assert (found.clusters, found.n) == (15, 30)
    hits = np.array([2 if at % 2 == 0 else 0 for at in range(15)])
    by_hand = rate_interval(hits, np.full(15, 2))
    assert found.value == by_hand.value
    assert found.interval == (by_hand.low, by_hand.high)
    # Two samples of one record in the same arm are one cluster.
    first, second = ReleasedSample.objects.filter(release=release, version__sample__arm="trap").order_by("pk")[:2]
    Sample.objects.filter(pk=second.version.sample_id).update(record=first.version.sample.record)
    assert rate(queries.report(run), "one", HALLUCINATION).clusters == 14


def test_no_interval_below_the_planned_minimum() -> None:
    run = planned(judged(bare_release(*MANY), one=fails_first(0.25), two=fails_first(0.5)))
    assert cell(queries.report(run), "one", "dialogue").interval is not None
    run.plan["minimum"] = 21
    run.save()
    report = queries.report(run)
    assert cell(report, "one", "dialogue").method == "too-few"
    assert {each.p for each in report.numbers.comparisons} == {None}


SHARES: Mapping[str, float] = {"a": 0.1, "b": 0.2, "c": 0.45, "d": 0.5}


@pytest.fixture
def four() -> Run:
    return planned(
        judged(bare_release(*[("dialogue", [["A1"], ["C2"]])] * 60), **{n: fails_first(s) for n, s in SHARES.items()})
    )


def test_pairs_of_models_are_adjusted_as_statsmodels_does(four: Run) -> None:
    from statsmodels.stats.multitest import multipletests

    report = queries.report(four)
    found = [each for each in report.numbers.comparisons if each.rate == HALLUCINATION]
    assert [(each.first, each.second) for each in found] == list(combinations(SHARES, 2))
    p = [each.p for each in found]
    assert [each.p_adjusted for each in found] == pytest.approx(list(multipletests(p, method="holm")[1]))
    for each in found:
        assert each.difference == pytest.approx(SHARES[each.first] - SHARES[each.second])
        assert each.low is not None
        assert each.high is not None
        assert each.difference is not None
        assert each.low < each.difference < each.high
        assert each.planned
    assert not any(each.planned for each in report.numbers.comparisons if each.rate == SAMPLES)
    cells = report.numbers.cells["subtype"]
    p = [each.p for each in cells]
    assert len(p) == 12
    assert [each.p_adjusted for each in cells] == pytest.approx(list(multipletests(p, method="fdr_bh")[1]))


def test_mcnemar_counts_the_samples_that_one_model_alone_failed(four: Run) -> None:
    [found] = [
        each
        for each in queries.report(four).numbers.comparisons
        if (each.rate, each.first, each.second) == (HALLUCINATION, "a", "d")
    ]
    failed = {
        name: set(
            Judgment.objects.filter(run=four, verdict="not_met", response__endpoint__name=name).values_list(
                "rubric__sample", flat=True
            )
        )
        for name in ("a", "d")
    }
    assert (found.only_first, found.only_second) == (len(failed["a"] - failed["d"]), len(failed["d"] - failed["a"]))


def test_ranks_say_which_places_are_possible(four: Run) -> None:
    found = {each.endpoint: each for each in queries.report(four).numbers.rankings if each.rate == HALLUCINATION}
    assert [found[name].place for name in SHARES] == [1, 2, 3, 4]
    assert all(each.best <= each.place <= each.worst for each in found.values())
    assert (found["c"].best, found["c"].worst) == (3, 4), "c and d cannot be told apart"


def test_the_common_samples_are_those_that_every_model_answered() -> None:
    run = judged(bare_release(*MANY), one=fails_first(0.25), two=fails_first(0.25))
    ends(run, "two", "empty", 3)
    whole, common = queries.report(run), queries.report(run, Options(common=True))
    assert [cell(whole, name, "dialogue").denominator for name in ("one", "two")] == [40, 34]
    assert [cell(common, name, "dialogue") for name in ("one", "two")] == [MeasuredRate(4, 34, 0)] * 2
    assert common.numbers.samples == (17, 20)
    assert not common.is_planned(common.rate)
    assert "Only the 17 of 20 samples that every model answered" in formats.as_markdown(common)


# ------------------------------------------------------------------------------------------------------------- plan


def test_a_plan_is_frozen_at_the_launch() -> None:
    release, names = bare_release(*MANY), ("one", "two", "three")
    models = [endpoint("http://127.0.0.1:1/v1", "sim-average", name=name) for name in names]
    judge = endpoint("http://127.0.0.1:1/v1", "sim-judge")
    run = services.launch_run(RunSettings(release, models, judge))
    assert run.plan == {
        "preset": "",
        "metric": HALLUCINATION,
        "comparisons": [["one", "two"], ["one", "three"], ["two", "three"]],
        "outcomes": dict.fromkeys(Response.Outcome.values, "judged") | dict.fromkeys(JUDGE_FAILURES, "excluded"),
        "minimum": 10,
    }
    chosen = {"metric": SAMPLES, "comparisons": ["two:one"], "outcomes": ["refused=not_met"], "minimum": 30}
    other = services.launch_run(RunSettings(release, models, judge, **chosen))  # type: ignore[arg-type]
    assert other.plan["comparisons"] == [["two", "one"]]
    assert (other.plan["metric"], other.plan["minimum"], other.plan["outcomes"]["refused"]) == (SAMPLES, 30, "not_met")
    report = queries.report(other)
    assert [report.is_planned(each) for each in report.rates] == [False, True]
    for wrong in (
        {"metric": "odd"}, {"comparisons": ["one:four"]}, {"comparisons": ["one:one"]}, {"outcomes": ["refused=odd"]},
        {"outcomes": ["odd=met"]}, {"minimum": 5},
    ):  # fmt: skip
        with pytest.raises(errors.InvalidPlan):
            services.launch_run(RunSettings(release, models, judge, **wrong))


def test_what_was_not_planned_is_called_exploratory(four: Run, admin_client: Client) -> None:
    url = reverse("evaluation:run", args=[four.pk])
    assert '<h2 id="overall">Hallucination rate</h2>' in text_of(admin_client.get(url))
    assert "exploratory</span></h2>" in text_of(admin_client.get(url, {"rate": SAMPLES}))
    said = json.loads(formats.as_json(queries.report(four)))
    assert {each["name"]: each["planned"] for each in said["rates"]} == {HALLUCINATION: True, SAMPLES: False}
    four.plan = {}
    four.save()
    assert "No analysis plan was frozen" in formats.as_markdown(queries.report(four))
    assert not any(each.planned for each in queries.report(four).numbers.comparisons)


# ------------------------------------------------------------------------------------------------------------- files


def test_the_same_run_gives_the_same_bytes(four: Run, manage: Manage) -> None:
    four.refresh_from_db()
    once = {name: write(queries.report(four)) for name, (write, _) in formats.FORMATS.items()}
    Run.objects.filter(pk=four.pk).update(finished_at=timezone.now())
    four.refresh_from_db()
    for _kept in range(2):
        assert {name: write(queries.report(four)) for name, (write, _) in formats.FORMATS.items()} == once
    code, out, _err = manage("report", four.pk, "--format", "latex")
    assert (code, out.rstrip("\n")) == (0, once["latex"].rstrip("\n"))


def test_tables_for_a_paper(four: Run) -> None:
    report = queries.report(four)
    measured = cell(report, "a", "dialogue")
    assert measured.interval is not None
    low, high = measured.interval
    assert f"| a | {measured.value:.1%} ({low:.1%}–{high:.1%}) |" in formats.as_markdown(report)
    tex = formats.FORMATS["latex"][0](report)
    shown = f"a & {measured.value:.1%} ({low:.1%}--{high:.1%})".replace("%", r"\%")
    assert rf"{shown} \\" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\bottomrule") == 2


def test_each_table_downloads_alone(four: Run, admin_client: Client) -> None:
    def rows(table: str) -> list[dict[str, str]]:
        answer: Any = admin_client.get(reverse("evaluation:report-csv", args=[four.pk]), {"table": table})
        assert f"-{table}.csv" in answer["Content-Disposition"]
        return list(csv.DictReader(io.StringIO(answer.content.decode())))

    assert {row["facet"] for row in rows("overall")} == {""}
    assert {row["facet"] for row in rows("subtype")} == {"subtype"}
    assert len(rows("comparisons")) == 6 * 2 + 6 * 2 + 6 * 2
    assert {row["kind"] for row in rows("outcomes")} == {"judged"}


def test_a_finished_run_is_counted_once(four: Run) -> None:
    Run.objects.filter(pk=four.pk).update(finished_at=timezone.now())
    four.refresh_from_db()
    cache.clear()

    def read() -> tuple[Report, list[str]]:
        with CaptureQueriesContext(connection) as seen:
            report = queries.report(four)
        return report, [query["sql"] for query in seen if '"evaluation_judgment"' in query["sql"]]

    first, counted = read()
    again, kept = read()
    assert (len(counted), len(kept)) == (1, 0)
    assert formats.as_json(first) == formats.as_json(again)
    Run.objects.filter(pk=four.pk).update(finished_at=timezone.now())
    four.refresh_from_db()
    assert len(read()[1]) == 1, "it went on, and ended anew"
