"""A benchmark without a judge, with several variants and rates, from the launch to the report."""

import json
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from evaluation import errors
from evaluation import registry as evaluation_registry
from evaluation.answers import queries as answers_queries
from evaluation.metrics import MeasuredRate
from evaluation.models import Judgment, Response, Run
from evaluation.numbers.counting import RateRow
from evaluation.numbers.rules import NO_RESPONSE
from evaluation.protocol import Decision, Sample
from evaluation.reports import formats, headlines
from evaluation.reports import queries as reports_queries
from evaluation.runs import estimate, services, work
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.engine import apart
from generation.engine.sweeping import sweep
from generation.jobs import services as jobs_services
from generation.jobs.estimate import TOKENS_OUT
from generation.models import Call, Endpoint, Erratum, Release, ReleasedSample
from generation.models import Sample as GeneratedSample
from generation.models.work import Work
from generation.recipes import registry
from review.models import User
from tests.api.conftest import Api, api
from tests.engine import Manage, calls, endpoint
from tests.evaluation.test_pages import Links, judgment_count, query_count, text_of
from tests.evaluation.toy import SEED, claimants, level, reply_text, shown_claim, toy, toy_release
from tests.populations import population

__all__ = ["api", "claimants", "toy"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("toy")]
Page = Any
Status = Work.Status
COUNT = 24
MODELS = ("sim-careful", "sim-average")


@population
def release() -> Release:
    return toy_release(COUNT)


def launch_run(release: Release, url: str, *models: str, **options: Any) -> Run:
    tested = [endpoint(url, model) for model in models or MODELS]
    return services.launch_run(RunSettings(release=release, endpoints=tested, **{"seed": SEED, **options}))


def finished_run(release: Release, url: str, *models: str, **options: Any) -> Run:
    """Launch a run and work on it until it is finished."""
    run = launch_run(release, url, *models, **options)
    work.work_on_run(run.pk)
    return RUNS.get(run.pk)


def expected_verdict(model: str, at: int, *, hinted: bool, seed: int = SEED) -> str:
    """The verdict on a model's reply to a claim, computed independently of the toy's `read`."""
    claim = shown_claim(f"toy-{at:03}", seed)
    text = reply_text(model, at, claim, hinted=hinted)
    right = {"Yes.": "false", "no": "true"}.get(text) == claim
    return {"": "unparsed", "That depends.": "unparsed", "Unsure": "unsure"}.get(
        text, ("t" if right else "f") + ("p" if text == "Yes." else "n")
    )


def expected_counts(model: str, *, hinted: bool, of_level: str = "") -> Counter[str]:
    """How often a model should get each verdict, on all claims or on those of a level."""
    return Counter(expected_verdict(model, at, hinted=hinted) for at in range(COUNT) if of_level in ("", level(at)))


def row(report: reports_queries.Report, endpoint: str, dataset: str, value: str = "") -> RateRow:
    rows = report.numbers.facets["level"] if value else report.numbers.overall
    [match] = [row for row in rows if (row.endpoint, row.dataset, row.value) == (endpoint, dataset, value)]
    return match


# -------------------------------------------------------------------------------- answers and rates


def test_every_answer_is_read_by_code_and_no_judge_is_asked(release: Release, claimants: str) -> None:
    run = finished_run(release, claimants)
    assert (run.status, run.judge, run.judge_temperature, run.seed) == (Run.Status.FINISHED, None, None, SEED)
    assert run.variants == ["plain", "hinted"]
    assert len(calls(run)) == 2 * 2 * COUNT == run.responses.count(), "one call per response, and no others"
    assert set(Response.objects.values_list("status", flat=True)) == {Status.DONE}
    rows = Judgment.objects.filter(run=run).select_related("response__endpoint", "response__sample")
    assert len(rows) == 2 * 2 * COUNT
    for judgment in rows:
        response = judgment.response
        at, hinted = response.sample.position, response.variant == "hint"
        assert response.about == {"shown": shown_claim(response.sample.key, SEED)}
        assert response.text == reply_text(response.endpoint.name, at, response.about["shown"], hinted=hinted)
        assert judgment.status == Status.DONE
        assert judgment.verdict == expected_verdict(response.endpoint.name, at, hinted=hinted)
    assert RUNS.progress(run).percent == 100
    assert RUNS.live(run).endpoints


def test_the_report_counts_every_rate_from_the_same_verdicts(release: Release, claimants: str) -> None:
    report = reports_queries.report(finished_run(release, claimants))
    assert report.numbers.without == {"level": 0}
    assert report.datasets == (("plain", "Without a hint"), ("hinted", "With a hint")), "nothing is pooled"
    for model in MODELS:
        for dataset, hinted in (("plain", False), ("hinted", True)):
            for value in ("", "easy", "hard"):
                v, measured = expected_counts(model, hinted=hinted, of_level=value), row(report, model, dataset, value)
                answered = v["tp"] + v["fp"] + v["tn"] + v["fn"]
                assert measured.verdicts == v
                assert measured.rates == {
                    "f1": MeasuredRate(2 * v["tp"], 2 * v["tp"] + v["fp"] + v["fn"], v["unsure"] + v["unparsed"]),
                    "accuracy": MeasuredRate(v["tp"] + v["tn"], answered, v["unsure"] + v["unparsed"]),
                    "response_rate": MeasuredRate(answered, answered + v["unsure"], v["unparsed"]),
                }
    careful = row(report, "sim-careful", "plain").rates["f1"]
    assert careful.value is not None
    assert (careful.interval, careful.method, careful.clusters) == (None, "too-few", 7)
    with_hint = row(report, "sim-careful", "hinted").rates["accuracy"]
    assert (with_hint.interval is not None, with_hint.method, with_hint.clusters) == (True, "wilson", COUNT)
    assert {contrast.rate for contrast in report.numbers.contrasts} == {"f1", "accuracy", "response_rate"}
    [hint] = [
        contrast for contrast in report.numbers.contrasts if (contrast.rate, contrast.endpoint) == ("f1", "sim-careful")
    ]
    assert hint.difference == 1 - careful.value
    assert (hint.first, hint.second) == ("hinted", "plain")


def test_judgments_without_a_value_of_a_facet_are_counted(toy: None, claimants: str, admin: Client) -> None:
    run = finished_run(toy_release(COUNT, "some", without_level=[1, 2]), claimants)
    report = reports_queries.report(run)
    assert report.numbers.without == {"level": 2 * len(MODELS) * 2}, "two samples, in two variants"
    assert formats.as_dict(report)["without"] == {"level": 8}
    assert "8 judgments have no value for this breakdown" in formats.as_markdown(report)
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk])))
    assert "8 judgments have no value for this breakdown" in page


def test_an_empty_reply_is_read_and_counted(release: Release, claimants: str) -> None:
    """An empty reply is an answer. Here it is counted as 'unparsed', and nothing is guessed."""
    run = finished_run(release, claimants, "sim-careful", datasets=["plain"])
    empty = Judgment.objects.filter(response__text="")
    assert {judgment.verdict for judgment in empty} == {"unparsed"}
    assert len(empty) == COUNT / 8
    measured = row(reports_queries.report(run), "sim-careful", "plain")
    assert measured.verdicts["unparsed"] == COUNT / 4
    assert not reports_queries.report(run).numbers.failed


def test_the_sampling_settings_of_the_benchmark_are_sent(release: Release, claimants: str) -> None:
    run = finished_run(release, claimants, "sim-average", datasets=["plain"])
    for call in calls(run):
        assert (call.sent["temperature"], call.sent["max_tokens"]) == (0.25, 8)
    sample = ReleasedSample.objects.filter(release=release)[0]
    request = runs_queries.question(reports_queries.report(run).protocol, sample, SEED, "plain").request
    assert (request.temperature, request.top_p, request.max_tokens) == (0.25, 0.9, 8)


def test_a_run_may_use_the_sampling_settings_of_the_endpoints(release: Release, claimants: str, admin: Client) -> None:
    endpoint(claimants, "sim-average", temperature=1.0, max_tokens=4000)
    run = finished_run(release, claimants, "sim-average", sampling="endpoint")
    for call in calls(run):
        assert (call.sent["temperature"], call.sent["max_tokens"]) == (1.0, 4000)
        assert "top_p" not in call.sent
    [line, _hint] = estimate.estimate_run(
        RunSettings(release=release, endpoints=[call.endpoint], seed=SEED, sampling="endpoint")
    ).lines
    assert line.cached == 1
    [line, _hint] = estimate.estimate_run(RunSettings(release=release, endpoints=[call.endpoint], seed=SEED)).lines
    assert line.cached == 0
    page = text_of(admin.get(reverse("evaluation:run", args=[run.pk])))
    assert "endpoint settings only" in page
    assert "temperature=0.25" not in page
    report = reports_queries.report(run)
    assert formats.as_dict(report)["sampling"] == "endpoint"
    assert "the settings of the endpoints, not of the benchmark" in formats.as_markdown(report)
    other = finished_run(release, claimants, "sim-average")
    page = text_of(admin.get(reverse("evaluation:run", args=[other.pk])))
    assert "toy/plain@1 temperature=0.25 top_p=0.9 max_tokens=8" in page


def test_sampling_is_chosen_on_the_page_over_the_api_and_in_the_shell(
    release: Release, claimants: str, admin: Client, api: Api, adela: User, manage: Manage
) -> None:
    endpoint(claimants, "sim-average")
    url = reverse("evaluation:run-new")
    asked: Page = admin.post(url, {"release": release.pk, "endpoints": ["sim-average"], "sampling": "endpoint"})
    admin.post(url, {**dict(asked.context["carried"]), "budget_calls": "8", "confirmed": "1"})
    body = {"release": "toy", "endpoints": ["sim-average"], "sampling": "endpoint", "budget_calls": 8}
    assert api(adela).post(reverse("api:runs"), body).json()["sampling"] == "endpoint"
    launch = (
        "evaluate",
        "--release",
        "toy",
        "--endpoint",
        "sim-average",
        "--sampling",
        "endpoint",
        "--budget-calls",
        "8",
    )
    manage.json(*launch)
    assert list(Run.objects.values_list("sampling", flat=True)) == ["endpoint"] * 3


def test_a_changed_endpoint_does_not_affect_a_launched_run(release: Release, claimants: str) -> None:
    run = launch_run(release, claimants, "sim-average", sampling="endpoint")
    later = {"temperature": 0.9, "max_tokens": 7}
    Endpoint.objects.filter(name="sim-average").update(**later)
    work.work_on_run(run.pk)
    for call in Call.objects.filter(job=run):
        assert later.items() & call.sent.items() == set(), "the endpoint had no such settings at the launch"
    work.work_on_run(launch_run(release, claimants, "sim-average", sampling="endpoint", fresh=True).pk)
    assert later.items() <= Call.objects.latest("pk").sent.items()


@pytest.mark.parametrize("sampling", Run.Sampling.values)
def test_page_api_and_shell_estimate_a_launch_alike(
    release: Release, claimants: str, admin: Client, api: Api, adela: User, manage: Manage, sampling: str
) -> None:
    """Replies paid for with the endpoints' own settings are reused with those settings only."""
    endpoint(claimants, "sim-average", temperature=1.0, max_tokens=4000, price_in="1", price_out="2")
    finished_run(release, claimants, "sim-average", sampling="endpoint", datasets=["plain"])
    settings = {"endpoints": ["sim-average"], "datasets": ["plain"], "seed": SEED, "sampling": sampling}
    page: Page = admin.post(reverse("evaluation:run-new"), {"release": release.pk, **settings})
    on_page = page.context["estimate"]
    by_api = api(adela).post(reverse("api:run-estimate"), {"release": "toy", **settings}).json()
    arguments = (
        "--release",
        "toy",
        "--endpoint",
        "sim-average",
        "--datasets",
        "plain",
        "--seed",
        SEED,
        "--sampling",
        sampling,
    )
    code, out, _err = manage("evaluate", *arguments, "--json")
    by_shell = json.loads(out)
    assert code == 1
    figures = {"calls": on_page.calls, "tokens_in": on_page.tokens_in, "tokens_out": on_page.tokens_out}
    for other in (by_api, by_shell):
        assert {name: other[name] for name in figures} == figures
        assert Decimal(str(other["cost"])) == on_page.cost
        assert [line["cached"] for line in other["lines"]] == [float(sampling == "endpoint")]
    assert (on_page.calls == 0) == (sampling == "endpoint")


def test_claims_are_drawn_by_the_seed(release: Release, claimants: str) -> None:
    def claims(run: Run) -> list[tuple[str, str]]:
        rows = run.responses.order_by("pk").values_list("sample__key", "about")
        return [(key, about["shown"]) for key, about in rows]

    one, same, other = (launch_run(release, claimants, seed=seed) for seed in (1, 1, 2))
    assert claims(one) == claims(same) != claims(other)
    assert all(claim == shown_claim(key, 1) for key, claim in claims(one)), (
        "the same for all variants and endpoints of a sample"
    )
    assert {claim for _key, claim in claims(one)} == {"true", "false"}


def test_a_run_can_be_limited_to_some_data_sets(release: Release, claimants: str) -> None:
    run = finished_run(release, claimants, "sim-average", datasets=["hinted"])
    assert set(run.responses.values_list("variant", flat=True)) == {"hint"}
    assert (run.rubrics_total, run.variants) == (COUNT, ["hinted"])
    report = reports_queries.report(run)
    assert [name for name, _label in report.datasets] == ["hinted"]
    assert report.numbers.contrasts == (), "there is no other data set to compare with"
    with pytest.raises(errors.UnknownDataSet, match=r"gone; known: plain, hinted"):
        launch_run(release, claimants, datasets=["gone", "plain"])


def test_a_judge_is_refused_or_required_as_the_benchmark_says(release: Release, claimants: str) -> None:
    model = endpoint(claimants, "sim-average")
    with pytest.raises(errors.NoJudgeNeeded):
        services.launch_run(RunSettings(release=release, endpoints=[model], judge=model))
    with pytest.raises(errors.NotPerSample):
        services.launch_run(RunSettings(release=release, endpoints=[model], judging=Run.Judging.PER_SAMPLE))
    judged = Release.objects.get(name="bare")
    for ask in (services.launch_run, estimate.estimate_run):
        with pytest.raises(errors.JudgeNeeded):
            ask(RunSettings(release=judged, endpoints=[model]))
    assert not Run.objects.exists()


def test_the_answer_says_what_holds_for_all_data_sets_once_and_what_it_leaves_out(
    claimants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = reports_queries.report(finished_run(toy_release(8, "eight"), claimants))
    first, second, too_few = headlines.answer(report, report.planned_rate).sentences
    assert ("Without a hint" in first, "With a hint" in second) == (True, True)
    assert too_few.startswith("Too few samples")
    monkeypatch.setattr(headlines, "DATASETS_NAMED", 1)
    *_named, left_out = headlines.answer(report, report.planned_rate).sentences
    assert left_out == "1 more data set is shown below."


# ----------------------------------------------------------------------------------------- failures


def test_criteria_of_a_failed_response_are_unjudged_until_a_retry(release: Release, claimants: str) -> None:
    broken = endpoint(claimants, "sim-average+500", name="sim-average")
    run = finished_run(toy_release(1, "one"), claimants, "sim-average", datasets=["plain"])
    assert set(Judgment.objects.values_list("status", "error")) == {(Status.FAILED, NO_RESPONSE)}
    assert run.status == Run.Status.FINISHED
    assert row(reports_queries.report(run), "sim-average", "plain").rates["accuracy"] == MeasuredRate(0, 0, 1)
    assert reports_queries.report(run).numbers.failed == {"sim-average": 1}
    broken.model = "sim-average"
    broken.save()
    assert jobs_services.retry_failed(run.pk) == 1
    work.work_on_run(run.pk)
    assert set(Judgment.objects.values_list("status", flat=True)) == {Status.DONE}
    assert RUNS.get(run.pk).status == Run.Status.FINISHED


def test_a_fault_in_reading_one_answer_loses_no_other(
    release: Release, claimants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = registry.module("toy", "protocol")
    original = protocol.PROTOCOL.read

    def read(sample: Any, *rest: Any) -> Any:
        if sample.key == "toy-005":
            raise ZeroDivisionError
        return original(sample, *rest)

    run = launch_run(release, claimants, "sim-average", datasets=["plain"])
    monkeypatch.setattr(protocol, "PROTOCOL", replace(protocol.PROTOCOL, read=read))
    with pytest.raises(ZeroDivisionError):
        work.work_on_run(run.pk)
    unfinished = run.responses.exclude(status=Status.DONE)
    assert "toy-005" in set(unfinished.values_list("sample__key", flat=True))
    assert (
        Judgment.objects.filter(run=run, status=Status.DONE).count() == run.responses.filter(status=Status.DONE).count()
    )


def test_answers_from_provider_batches_are_read(release: Release, claimants: str, settings: Any) -> None:
    settings.MHB_BATCH_POLL_SECONDS = 0.0
    endpoint(claimants, "sim-average", batches=True)
    run = launch_run(release, claimants, "sim-average", transport=Run.Transport.BATCH)
    for _ in range(12):
        if run.pk not in sweep(RUNS):
            break
        work.work_on_run(run.pk)
    assert RUNS.get(run.pk).status == Run.Status.FINISHED
    assert runs_queries.provider_batches_of(run).exists()
    counts = Counter(Judgment.objects.filter(response__variant="plain").values_list("verdict", flat=True))
    assert counts == expected_counts("sim-average", hinted=False)


def test_batches_are_refused_where_no_endpoint_offers_them(release: Release, claimants: str) -> None:
    with pytest.raises(errors.NoBatches):
        launch_run(release, claimants, transport=Run.Transport.BATCH)


def test_an_estimate_keeps_variants_apart(release: Release, claimants: str) -> None:
    """Token counts measured with one prompt are not used for another variant or benchmark."""
    target = endpoint(claimants, "sim-average")
    run = finished_run(release, claimants, "sim-average", datasets=["plain"])
    lines = {
        line.prompt: line
        for line in estimate.estimate_run(RunSettings(release=release, endpoints=[target], seed=SEED, fresh=True)).lines
    }
    assert lines["toy/plain@1"].measured == run.calls == COUNT
    assert lines["toy/plain@1"].tokens_out < COUNT * TOKENS_OUT
    assert (lines["toy/hint@1"].measured, lines["toy/hint@1"].requests) == (0, COUNT)


def test_the_same_questions_are_paid_for_once(release: Release, claimants: str) -> None:
    finished_run(release, claimants, "sim-average")
    model = endpoint(claimants, "sim-average")
    plain, hint = estimate.estimate_run(RunSettings(release=release, endpoints=[model], seed=SEED)).lines
    for line in (plain, hint):
        assert (line.role, line.requests, line.cached, line.calls) == ("target", COUNT, 1.0, 0)
    [other] = estimate.estimate_run(
        RunSettings(release=release, endpoints=[model], seed=SEED, datasets=["plain"])
    ).lines
    assert other.requests == COUNT
    repeated = finished_run(release, claimants, "sim-average")
    assert (repeated.calls, repeated.hits) == (0, 2 * COUNT)
    jobs_services.cancel(launch_run(release, claimants, "sim-careful").pk)


# -------------------------------------------------------------------------------------------- pages


def test_every_number_of_every_rate_links_to_the_judgments_it_counts(
    release: Release, claimants: str, admin: Client
) -> None:
    run = finished_run(release, claimants)
    page: Page = admin.get(reverse("evaluation:run", args=[run.pk]))
    links = {href for href, _text in Links(text_of(page)).pairs}
    figures = page.context["figures"]
    rows = [*figures.table, *(row for section in figures.sections for row in (*section.few, *section.table))]
    assert len(rows) == 4 + 8
    for f1, accuracy, response_rate in rows:
        for line in (f1, accuracy, response_rate):
            assert judgment_count(run, line.unjudged_href) == line.measured.excluded, line
            assert {line.hits_href, line.counted_href} <= links
        for line in (accuracy, response_rate):
            assert judgment_count(run, line.hits_href) == line.measured.numerator, line
            assert judgment_count(run, line.counted_href) == line.measured.denominator, line
        assert 2 * judgment_count(run, f1.hits_href) == f1.measured.numerator, "true positives count twice in F1"
        assert judgment_count(run, f1.hits_href) + judgment_count(run, f1.counted_href) == f1.measured.denominator
    assert any(line.measured.excluded for row in rows for line in row)


def test_the_list_of_an_outcome_has_no_withdrawn_sample(release: Release, claimants: str, adela: User) -> None:
    """As the numbers that lead to it: how responses ended."""
    run = finished_run(release, claimants)
    listed = answers_queries.judgments(run, adela, outcome=Response.Outcome.ANSWERED)
    assert listed.exists()
    for sample in GeneratedSample.objects.all():
        Erratum.objects.create(sample=sample, kind=Erratum.Kind.WITHDRAWN, reason="Wrong.", at=timezone.now())
    listed = answers_queries.judgments(run, adela, outcome=Response.Outcome.ANSWERED)
    assert not listed.exists()


def test_the_reader_chooses_the_rate_that_is_shown(release: Release, claimants: str, admin: Client) -> None:
    run = finished_run(release, claimants)
    url = reverse("evaluation:run", args=[run.pk])
    first: Page = admin.get(url, {"sort": "-rate"})
    assert (first.context["figures"].rate.name, len(first.context["figures"].bars)) == ("f1", 2)
    html = text_of(first)
    assert '<option value="f1" selected>F1</option>' in html
    assert '<input type="hidden" name="sort" value="-rate">' in html
    assert "The toy&#x27;s accuracy." in html
    assert "What the hint adds" in html
    assert "95% Wilson interval over samples" in html
    labels = [mark.text for chart in first.context["figures"].bars for mark in chart.marks]
    assert labels[1] == "1.000"
    other: Page = admin.get(url, {"sort": "-rate", "rate": "accuracy"})
    shares = [line.measured.value for line in other.context["figures"].lines]
    assert shares == sorted(shares, reverse=True)
    assert all(text.endswith("%") for chart in other.context["figures"].bars for text in [chart.marks[0].text])
    assert "rate=accuracy" in text_of(other), "the links for sorting keep the chosen rate"
    unknown: Page = admin.get(url, {"rate": "odd"})
    assert unknown.context["figures"].rate.name == "f1"


def test_answers_are_listed_by_data_set_and_verdict_with_their_question(
    release: Release, claimants: str, admin: Client
) -> None:
    run = finished_run(release, claimants)
    url = reverse("evaluation:judgments", args=[run.pk])
    page: Page = admin.get(url, {"dataset": "plain", "verdict": "unparsed", "endpoint": "sim-careful"})
    rows = page.context["page"].rows
    assert len(rows) == COUNT / 4
    assert {row.response.variant for row in rows} == {"plain"}
    html = text_of(page)
    assert "The response was empty." in html
    assert "not readable" in html
    assert "shown" in html
    assert "Without a hint" in html
    sample = page.context["sample"]
    [message] = page.context["question_messages"]
    assert message.text == sample.exported["content"][shown_claim(sample.key, SEED)]
    assert not admin.get(url, {"dataset": "gone"}).context["filters"].is_valid()
    call_log = text_of(admin.get(reverse("evaluation:calls", args=[run.pk, rows[0].pk])))
    assert "No judge was used" in call_log
    right = admin.get(url, {"verdict": "tp"}).context["items"][0]
    assert (right["label"], right["state"]) == ("rightly called false", "finished")
    assert {item["state"] for item in page.context["items"]} == {"queued"}, (
        "an excluded verdict is neither right nor wrong"
    )
    [wrong, *_] = Judgment.objects.filter(verdict__in=["fp", "fn"]).values_list("verdict", flat=True)
    assert admin.get(url, {"verdict": wrong}).context["items"][0]["state"] == "failed"


def test_no_page_needs_more_queries_for_more_rows(release: Release, claimants: str, admin: Client) -> None:
    def page_queries(run: Run, *names: str) -> list[int]:
        return [query_count(admin, reverse(f"evaluation:{name}", args=[run.pk])) for name in names]

    def list_queries() -> int:
        return query_count(admin, reverse("evaluation:runs"))

    many, pages = (*MODELS, "sim-reckless"), ("run", "judgments")
    few = finished_run(release, claimants, "sim-average")
    queries_expected = [*page_queries(few, *pages), list_queries()]
    assert [*page_queries(finished_run(release, claimants, *many), *pages), list_queries()] == queries_expected
    small, large = launch_run(release, claimants, "sim-average"), launch_run(release, claimants, *many)
    assert page_queries(large, "run-progress") == page_queries(small, "run-progress")


def test_a_report_with_three_rates_needs_no_more_queries_than_with_one(
    release: Release, claimants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = registry.module("toy", "protocol")
    run = finished_run(release, claimants, "sim-average")
    with CaptureQueriesContext(connection) as three:
        _of_three = reports_queries.report(RUNS.get(run.pk)).numbers
    monkeypatch.setattr(protocol, "PROTOCOL", replace(protocol.PROTOCOL, rates=protocol.PROTOCOL.rates[:1]))
    with CaptureQueriesContext(connection) as one:
        _of_one = reports_queries.report(RUNS.get(run.pk)).numbers
    assert len(three) == len(one)


def test_a_changed_contrast_of_the_benchmark_is_counted_at_once(
    release: Release, claimants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = registry.module("toy", "protocol")
    run = RUNS.get(finished_run(release, claimants, "sim-average").pk)
    assert {contrast.label for contrast in reports_queries.report(run).numbers.contrasts} == {"What the hint adds"}
    turned = (("plain", "hinted", "What the hint costs"),)
    monkeypatch.setattr(protocol, "PROTOCOL", replace(protocol.PROTOCOL, contrasts=turned))
    assert {contrast.label for contrast in reports_queries.report(run).numbers.contrasts} == {"What the hint costs"}


# ---------------------------------------------------------------------------------------- launching


def test_the_form_has_the_fields_that_the_benchmark_uses(release: Release, claimants: str, admin: Client) -> None:
    for model in MODELS:
        endpoint(claimants, model)
    url = reverse("evaluation:run-new")
    bare = Release.objects.get(name="bare")
    assert {"datasets", "seed"} <= set(admin.get(url, {"release": release.pk}).context["form"].fields)
    assert "judge" not in admin.get(url, {"release": release.pk}).context["form"].fields
    fields = set(admin.get(url, {"release": bare.pk}).context["form"].fields)
    assert {"judge", "judge_temperature", "judging"} <= fields
    assert not {"datasets", "seed"} & fields
    data = {"endpoints": ["sim-average"], "seed": "3", "datasets": ["plain"]}
    refused: Page = admin.post(url, {**data, "release": bare.pk})
    assert refused.status_code == 422
    assert "judge" in refused.context["form"].errors, "the form that is shown again asks for a judge"
    # A browser without JavaScript sends the fields of the release chosen before.
    asked: Page = admin.post(url, {**data, "release": release.pk, "judge": "sim-careful", "judging": "per-rubric"})
    assert ("datasets", "plain") in asked.context["carried"]
    assert {line.role for line in asked.context["estimate"].lines} == {"target"}
    admin.post(url, {**data, "release": release.pk, "confirmed": "1"})
    run = Run.objects.get()
    assert (run.judge, run.seed, run.variants, run.responses.count()) == (None, 3, ["plain"], COUNT)


def test_rules_are_chosen_in_rows_and_taken_as_an_object(
    release: Release, claimants: str, admin: Client, api: Api, adela: User
) -> None:
    endpoint(claimants, "sim-average")
    url = reverse("evaluation:run-new")
    data = {"release": release.pk, "endpoints": ["sim-average"], "outcome-refused": "excluded"}
    asked: Page = admin.post(url, data)
    assert ("outcome-refused", "excluded") in asked.context["carried"]
    admin.post(url, {**dict(asked.context["carried"]), "confirmed": "1"})
    launched = Run.objects.get()
    assert (launched.plan["outcomes"]["refused"], launched.plan["outcomes"]["empty"]) == ("excluded", "judged")
    again = " ".join(admin.get(url).content.decode().split())
    assert '<option value="excluded" selected>' in again
    assert "outcome-judge_failed" not in again, "no judge can fail"
    assert admin.post(url, {**data, "outcome-refused": "odd"}).status_code == 422
    body = {"release": "toy", "endpoints": ["sim-average"], "confirmed": True}
    for outcomes in ({"refused": "excluded"}, ["refused=excluded"]):
        number = api(adela).post(reverse("api:runs"), {**body, "outcomes": outcomes}).json()["id"]
        assert Run.objects.get(pk=number).plan == launched.plan
    assert api(adela).post(reverse("api:runs"), {**body, "outcomes": {"refused": "odd"}}).status_code == 422


def test_an_invalid_release_is_refused_by_the_form(release: Release, claimants: str, admin: Client) -> None:
    endpoint(claimants, "sim-average")
    for invalid in ("x", "0", "9" * 30, ""):
        assert admin.get(reverse("evaluation:run-new"), {"release": invalid}).status_code == 200, invalid
        assert admin.post(reverse("evaluation:run-new"), {"release": invalid}).status_code == 422, invalid


def test_a_run_is_launched_and_reported_over_the_api(release: Release, claimants: str, api: Api, adela: User) -> None:
    client = api(adela)
    for model in MODELS:
        endpoint(claimants, model)
    body = {"release": "toy", "endpoints": ["sim-average"], "datasets": ["hinted"], "seed": 3}
    estimated = client.post(reverse("api:run-estimate"), body).json()
    assert [line["role"] for line in estimated["lines"]] == ["target"]
    response = client.post(reverse("api:runs"), {**body, "confirmed": True})
    assert response.status_code == 202, response.content
    run = response.json()
    assert (run["judge"], run["seed"], run["datasets"]) == (None, 3, ["hinted"])
    work.work_on_run(run["id"])
    report = client.get(reverse("api:run-report", args=[run["id"]])).json()
    assert (report["judge"], [rate["name"] for rate in report["rates"]]) == (
        None, ["f1", "accuracy", "response_rate"],
    )  # fmt: skip
    assert set(report["overall"][0]["rates"]) == {"f1", "accuracy", "response_rate"}
    [first, *_] = client.get(reverse("api:run-responses", args=[run["id"]])).json()["results"]
    assert first["about"] == {"shown": shown_claim(first["sample"], 3)}
    for invalid, status in (({"judge": "sim-careful"}, 422), ({"datasets": ["gone"]}, 422), ({"seed": -1}, 400)):
        assert client.post(reverse("api:runs"), {**body, "confirmed": True, **invalid}).status_code == status


def test_a_run_is_launched_and_reported_in_the_shell(release: Release, claimants: str, manage: Manage) -> None:
    endpoint(claimants, "sim-average")
    options = ("--release", "toy", "--endpoint", "sim-average", "--yes")
    run = manage.json("evaluate", *options, "--datasets", "hinted,plain", "--seed", "3", "--wait")
    assert (run["responses"], run["judged"], run["calls"], run["failed"]) == (2 * COUNT, 2 * COUNT, 2 * COUNT, 0)
    assert Run.objects.get().seed == 3
    assert "does not contain this data set" in manage.refusal("evaluate", *options, "--datasets", "gone")
    assert "does not use a judge" in manage.refusal("evaluate", *options, "--judge", "sim-average")
    assert "needs a judge" in manage.refusal("evaluate", "--release", "bare", *options[2:])
    code, out, _err = manage("report", run["run"], "--format", "csv")
    assert (code, len(out.splitlines())) == (0, 1 + (2 + 4) * 3)


# ------------------------------------------------------------------------------------------ reports


def test_reports_contain_all_rates(release: Release, claimants: str, admin: Client) -> None:
    run = finished_run(release, claimants)
    report = reports_queries.report(run)
    data = json.loads(formats.as_json(report))
    text, table = formats.as_markdown(report), formats.as_csv(report)
    assert "# toy v1: F1, Accuracy, Response rate" in text
    assert "responses read by code, seed 7" in text
    assert "| What the hint adds | sim-careful | F1 |" in text
    for row in data["overall"]:
        for name, rate in row["rates"].items():
            assert f"{rate['numerator']} / {rate['denominator']} | {rate['unjudged']} |" in text
            cells = ",".join(
                "" if rate[key] is None else str(rate[key])
                for key in ("rate", "low", "high", "numerator", "denominator", "unjudged")
            )
            assert f",,{row['endpoint']},{row['dataset']},{name},{cells}" in table
    download: Page = admin.get(reverse("evaluation:report-csv", args=[run.pk]))
    assert download.content.decode("utf-8-sig") == table
    assert download["Content-Disposition"].endswith('.csv"')


def test_an_answer_that_is_not_read_in_time_fails_by_name_and_the_others_go_on(
    release: Release, claimants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_protocol, first = evaluation_registry.protocol("toy"), release.samples.order_by("pk").first()

    def read(sample: Sample, *more: Any) -> Decision | None:
        if first is not None and sample.key == first.key:
            re.match("(a+)+b", "a" * 60)
        assert toy_protocol.read is not None
        return toy_protocol.read(sample, *more)

    monkeypatch.setattr(apart, "SECONDS", 0.5)
    monkeypatch.setattr(evaluation_registry, "protocol", lambda _name: replace(toy_protocol, read=read))
    run = finished_run(release, claimants, "sim-average", datasets=["plain"])
    assert run.status == Run.Status.FINISHED
    failed = Response.objects.exclude(status=Status.DONE)
    assert [(row.sample_id, row.status, row.error) for row in failed] == [
        (first and first.pk, Status.FAILED, "TooSlow")
    ]
    assert failed.get().text, "the answer is kept"
    assert Judgment.objects.filter(status=Status.DONE).count() == COUNT - 1
