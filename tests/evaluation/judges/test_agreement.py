"""Agreement of judges, variance by source and self-preference, on hand-made votes."""

import json
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import registry
from evaluation.judges import summary
from evaluation.judges.summary import makers, panel_report, self_preference
from evaluation.models import Judgment, Response, Run, VoidVerdict, Vote
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from evaluation.runs import services
from evaluation.runs.rows import votes
from evaluation.runs.settings import RunSettings
from evaluation.runs.verdicts import RunVerdicts
from generation.models import BatchRole, Endpoint, Erratum, Release, Sample
from generation.models.work import Work
from review.quality.agreement import kappa, several_raters, table_interval
from review.rules.permissions import UserRole
from tests.engine import bare_release, endpoint
from tests.review.factories import account

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def release(db: None) -> Release:
    """Four samples with two criteria each."""
    return bare_release(*[("dialogue", [["A1"], ["C2"]])] * 4)


def voted_run(release: Release, fails: Any, models: list[str], judges: list[str], **options: Any) -> Run:
    """A finished run in which every vote was cast.

    `fails(judge, model, position of the criterion, answer, repeat)` says whether a vote is not met.
    """
    judge_endpoints = [endpoint(NOWHERE, name) for name in judges]
    tested = [endpoint(NOWHERE, name) for name in models]
    run = services.launch_run(
        RunSettings(
            release=release, endpoints=tested, judge=judge_endpoints[0], further_judges=judge_endpoints[1:], **options
        )
    )
    panel = votes.panel_of(run)
    Response.objects.filter(run=run).update(status=Status.DONE, outcome="answered", text="An answer.")
    rubrics = sorted(release.samples.values_list("rubrics", flat=True))
    for response in Response.objects.filter(run=run).select_related("endpoint", "sample"):
        for rubric in response.sample.rubrics.all():
            Judgment.objects.create(run=run, response=response, rubric=rubric)
    votes.queue_votes(panel, Response.objects.filter(run=run).values_list("pk", flat=True))
    for vote in Vote.objects.select_related("judge", "judgment__response__endpoint"):
        response = vote.judgment.response
        position = rubrics.index(vote.judgment.rubric_id)
        failed = fails(vote.judge.name, response.endpoint.name, position, response.repeat, vote.repeat)
        Vote.objects.filter(pk=vote.pk).update(status=Status.DONE, verdict="not_met" if failed else "met")
    votes.decide_judgments(panel, Judgment.objects.filter(run=run).values_list("pk", flat=True))
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED)
    return Run.objects.get(pk=run.pk)


def test_agreement_of_two_judges_is_as_computed_by_hand(release: Release) -> None:
    """Of 8 criteria both fail 2, neither fails 4, and each alone fails 1.

    So the raw agreement is 6/8, and kappa is (6/8 - 34/64) / (1 - 34/64) = 7/15.
    """
    table = [(True, True)] * 2 + [(True, False), (False, True)] + [(False, False)] * 4
    run = voted_run(release, lambda judge, _m, position, *_: table[position][judge == "b"], ["m-1"], ["a", "b"])
    report = panel_report(RunVerdicts(run))
    assert report is not None
    [pair] = report.pairs
    assert (pair.judges, pair.n, pair.raw) == (("a", "b"), 8, 0.75)
    assert pair.kappa == pytest.approx(7 / 15)
    assert pair.ac1 == pytest.approx((0.75 - 30 / 64) / (1 - 30 / 64))
    assert (report.decided, report.undecided, report.repeats) == (6, 2, ())
    assert (report.verdicts, report.verdicts_used) == (("met", "not_met"), 2)


def test_a_panel_counts_neither_withdrawn_samples_nor_what_a_tool_marked_as_void(release: Release) -> None:
    run = voted_run(release, lambda *_: False, ["m-1"], ["a", "b"])
    of_void = run.responses.order_by("pk").last()
    assert of_void is not None
    VoidVerdict.objects.create(run=run, response=of_void, reason="invalidated", at=timezone.now())
    report = panel_report(RunVerdicts(run)) or pytest.fail("none")
    assert (report.decided, report.undecided, report.pairs[0].n) == (6, 0, 6)
    shared = Sample.objects.get()  # all four are released of one sample
    Erratum.objects.create(sample=shared, kind="withdrawn", reason="It is wrong.", at=timezone.now())
    after = panel_report(RunVerdicts(run)) or pytest.fail("none")
    assert (after.decided, after.pairs) == (0, ())


def test_ac1_of_a_panel_takes_the_verdicts_that_its_judges_may_give() -> None:
    """Of the six words of ClinHallu, two are of answers and two of stages of the reasoning."""
    protocol = registry.protocol("clinhallu")
    assert len(protocol.known_verdicts) == 6
    assert protocol.verdicts_given(["answer"]) == ("correct", "wrong")
    assert protocol.verdicts_given(["visual", "knowledge"]) == ("supported", "hallucinated")
    assert len(protocol.verdicts_given(["answer", "reasoning"])) == 4
    assert registry.protocol("medmistake").verdicts_given(["R1"]) == ("correct", "incorrect", "refused")


def test_three_judges_have_figures_together_and_intervals_by_pair(db: None) -> None:
    """As `several_raters` and `table_interval` say of the votes, with samples as clusters."""
    release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 15)
    names = ["a", "b", "c"]

    def fails(judge: str, _model: str, position: int, *_: int) -> bool:
        return position % 3 == 0 or position % 7 == names.index(judge)

    run = voted_run(release, fails, ["m-1"], names)
    votes_of = np.array([[fails(judge, "", position, 0, 0) for judge in names] for position in range(30)])
    failed, clusters = votes_of.sum(axis=1), np.arange(30) // 2
    report = panel_report(RunVerdicts(run)) or pytest.fail("none")
    assert report.several == several_raters(np.stack([3 - failed, failed], axis=1), clusters)
    assert report.several.fleiss.low is not None
    tables = np.zeros((15, 2, 2))
    np.add.at(tables, (clusters, votes_of[:, 0].astype(int), votes_of[:, 1].astype(int)), 1)
    expected = table_interval(tables, kappa)
    pair = report.pairs[0]
    assert (pair.kappa, pair.kappa_low, pair.kappa_high) == pytest.approx(
        (expected.value, expected.low, expected.high), abs=0.02
    )
    assert f"{pair.kappa_low:.3f}–{pair.kappa_high:.3f}" in formats.as_markdown(reports_queries.report(run))


def test_repeats_of_a_judge_are_compared_with_each_other(release: Release) -> None:
    def fails(judge: str, _model: str, position: int, _answer: int, repeat: int) -> bool:
        return judge == "moody" and (position < 4) == bool(repeat)

    run = voted_run(release, fails, ["m-1"], ["moody", "mild"], judgments=2)
    report = panel_report(RunVerdicts(run))
    assert report is not None
    assert [(pair.judges, pair.n, pair.raw) for pair in report.repeats] == [
        (("moody", "moody"), 8, 0.0), (("mild", "mild"), 8, 1.0),
    ]  # fmt: skip
    mild = report.repeats[1]
    assert (mild.kappa, mild.ac1) == (None, 1.0)  # None, not 0: there is no chance agreement to correct for


def test_verdicts_that_turn_between_cold_and_warm_are_told_from_other_repeats(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turns_if_warm(_judge: str, _model: str, position: int, _answer: int, repeat: int) -> bool:
        return position < 4 and repeat == 1

    run = voted_run(release, turns_if_warm, ["m-1"], ["a", "b"], judgments=2)
    rubrics = sorted(release.samples.values_list("rubrics", flat=True))
    warm = {
        vote.pk: vote.repeat == 1 and vote.judgment.rubric_id in rubrics[:4]
        for vote in Vote.objects.filter(judge__name="a").select_related("judgment")
    }
    monkeypatch.setattr("evaluation.runs.verdicts.warm_votes", lambda _run: warm)  # b's endpoint says nothing
    report = panel_report(RunVerdicts(run)) or pytest.fail("none")
    assert [(each.judges[0], each.cache, each.n, each.raw) for each in report.repeats] == [
        ("a", "", 8, 0.5),
        ("b", "", 8, 0.5),
        ("a", "alike", 4, 1.0),
        ("a", "differs", 4, 0.0),
    ]


def test_variance_is_attributed_to_its_source(release: Release) -> None:
    by_sample = voted_run(release, lambda _j, _m, position, *_: position < 4, ["m-1"], ["a"], answers=3, judgments=2)
    [variance] = summary.repeats(RunVerdicts(by_sample))["models"]
    assert variance["sample"] == pytest.approx(1 / 3)
    assert (variance["answer"], variance["judge"]) == (0, 0)
    by_answer = voted_run(release, lambda _j, _m, _p, answer, _r: answer == 0, ["m-2"], ["a"], answers=2, judgments=2)
    [variance] = summary.repeats(RunVerdicts(by_answer))["models"]
    assert variance["answer"] == pytest.approx(0.5)
    assert (variance["sample"], variance["judge"], variance["clipped"]) == (0, 0, ("sample",))
    by_judge = voted_run(release, lambda judge, *_: judge == "a", ["m-3"], ["a", "b"])
    [variance] = summary.repeats(RunVerdicts(by_judge))["models"]
    assert variance["judge"] == pytest.approx(0.5)
    assert variance["answer"] is None  # not identifiable from one answer per sample
    assert (variance["endpoint"], variance["samples"]) == ("m-3", 4)


def test_a_judge_that_favours_its_own_family_is_found(release: Release) -> None:
    """`gpt-judge` lets its own family pass on half of the criteria that both judges should fail."""

    def fails(judge: str, model: str, position: int, *_: int) -> bool:
        lenient = judge == "gpt-judge" and model == "gpt-4o"
        return position < (2 if lenient else 4)

    run = voted_run(release, fails, ["gpt-4o", "claude-3"], ["gpt-judge", "qwen-judge"])
    result = self_preference(RunVerdicts(run))
    assert [(relation.role, relation.endpoint, relation.tested) for relation in result.kin] == [
        ("judge", "gpt-judge", ("gpt-4o",))
    ]
    [preference] = result.preferences
    assert (preference.judge, preference.own, preference.others, preference.difference) == (
        "gpt-judge",
        -0.25,
        0.0,
        -0.25,
    )
    assert (preference.own_n, preference.others_n) == (8, 8)
    preferences = summary.preference(RunVerdicts(run))
    assert [(row["family"], row["rate"]) for row in preferences["rates"]] == [("claude", 0.5), ("gpt", 0.25 / 0.75)]


def test_the_generator_is_flagged_as_well(release: Release) -> None:
    generator = endpoint(NOWHERE, "maker", name="maker", family="gpt")
    batch = release.samples.select_related("version__draft__batch")[0].version.draft.batch
    BatchRole.objects.create(batch=batch, role="generator", endpoint=generator)
    [(role, _maker)] = makers(release)
    run = voted_run(release, lambda *_: False, ["gpt-mini"], ["other", "another"])
    assert [(relation.role, relation.endpoint) for relation in self_preference(RunVerdicts(run)).kin] == [
        (role, generator.name)
    ]
    Endpoint.objects.filter(name="gpt-mini").update(family="own")
    assert self_preference(RunVerdicts(run)).kin == ()


def test_a_run_with_one_judge_and_no_repeats_has_an_empty_summary(release: Release) -> None:
    run = services.launch_run(
        RunSettings(release=release, endpoints=[endpoint(NOWHERE, "m-1")], judge=endpoint(NOWHERE, "judge"))
    )
    details = summary.as_dict(run)
    assert (details["judges"], details["validation"]) == (None, None)
    assert details["repeats"] == {"answers": 1, "judgments": 1, "models": []}
    assert details["self_preference"] == {"kin": [], "rates": [], "preferences": []}


def test_page_report_and_api_show_the_summary_of_the_judges(release: Release) -> None:
    run = voted_run(
        release,
        lambda judge, _m, position, answer, repeat: (position + answer + repeat + (judge == "gpt-judge")) % 3 == 0,
        ["gpt-4o", "claude-3"],
        ["gpt-judge", "qwen-judge", "llama-judge"],
        answers=2,
        judgments=2,
    )
    client = Client()
    client.force_login(account("rui", UserRole.RESEARCHER))
    page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    for words in (
        "Agreement between judges", "Where the variance comes from", "Same model family",
        "gpt-judge, asked twice", "qwen-judge – llama-judge", "majority of the judges",
    ):  # fmt: skip
        assert words in page
    chinese = client.get(reverse("evaluation:run", args=[run.pk]), headers={"Accept-Language": "zh-hans"})
    assert "gpt-judge（裁判模型）" in chinese.content.decode()
    api_report = client.get(reverse("api:run-report", args=[run.pk])).json()
    file_report = json.loads(formats.as_json(reports_queries.report(run)))
    for key in ("judges", "repeats", "self_preference", "validation"):
        assert api_report[key] == file_report[key]
    text = formats.as_markdown(reports_queries.report(run))
    assert "gpt-judge (judge) is of the family gpt, like gpt-4o." in text
    assert "| qwen-judge – llama-judge | " in text
    assert "judges `gpt-judge` (gpt-judge), `qwen-judge` (qwen-judge), `llama-judge` (llama-judge)" in text
    [preference] = api_report["self_preference"]["preferences"]
    assert (
        f"| gpt-judge | {preference['own']:+.3f} | {preference['others']:+.3f} | {preference['difference']:+.3f} |"
        in text
    )
    assert api_report["judges"]["judges"] == ["gpt-judge", "qwen-judge", "llama-judge"]
    body = client.get(reverse("api:run", args=[run.pk])).json()
    assert (body["further_judges"], body["panel"], body["answers"], body["judgments"]) == (
        ["qwen-judge", "llama-judge"], "majority", 2, 2,
    )  # fmt: skip
    assert body["progress"]["votes"]["done"] == 2 * 2 * 8 * 3 * 2
    row = Judgment.objects.filter(run=run)[0]
    assert client.get(reverse("evaluation:calls", args=[run.pk, row.pk])).status_code == 200
