"""Agreement of judges, variance by source and self-preference, on votes made by hand."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.judges import summary
from evaluation.judges.agreement import panel_report
from evaluation.judges.families import makers, self_preference
from evaluation.judges.variance import variances
from evaluation.models import Judgment, Response, Run, Vote
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from evaluation.runs import services
from evaluation.runs.rows import votes
from evaluation.runs.settings import RunSettings
from generation.models import BatchRole, Endpoint, Release
from generation.models.work import Work
from review.rules.permissions import UserRole
from tests.engine import bare_release, endpoint
from tests.review.factories import account

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def release(db: None) -> Release:
    """Four samples of two criteria."""
    return bare_release(*[("dialogue", [["A1"], ["C2"]])] * 4)


def voted(release: Release, says: Any, models: list[str], judges: list[str], **options: Any) -> Run:
    """A run on which all has been voted; `says(judge, model, place of the criterion, answer, repeat)`: whether it failed."""
    made = [endpoint(NOWHERE, name) for name in judges]
    tested = [endpoint(NOWHERE, name) for name in models]
    run = services.launch_run(RunSettings(release, tested, made[0], further_judges=made[1:], **options))
    of = votes.panel_of(run)
    Response.objects.filter(run=run).update(status=Status.DONE, outcome="answered", text="An answer.")
    rubrics = sorted(release.samples.values_list("rubrics", flat=True))
    for response in Response.objects.filter(run=run).select_related("endpoint", "sample"):
        for rubric in response.sample.rubrics.all():
            Judgment.objects.create(run=run, response=response, rubric=rubric)
    votes.queue_votes(of, Response.objects.filter(run=run).values_list("pk", flat=True))
    for vote in Vote.objects.select_related("judge", "judgment__response__endpoint"):
        response = vote.judgment.response
        place = rubrics.index(vote.judgment.rubric_id)
        failed = says(vote.judge.name, response.endpoint.name, place, response.repeat, vote.repeat)
        Vote.objects.filter(pk=vote.pk).update(status=Status.DONE, verdict="not_met" if failed else "met")
    votes.decide_judgments(of, Judgment.objects.filter(run=run).values_list("pk", flat=True))
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED)
    return Run.objects.get(pk=run.pk)


def test_agreement_of_two_judges_by_hand(release: Release) -> None:
    """Of 8 criteria both fail 2, neither 4, one of them alone 1 each: raw 6/8, kappa (6/8 - 34/64) / (1 - 34/64) = 7/15."""
    table = [(True, True)] * 2 + [(True, False), (False, True)] + [(False, False)] * 4
    run = voted(release, lambda judge, _m, place, *_: table[place][judge == "b"], ["m-1"], ["a", "b"])
    found = panel_report(run)
    assert found is not None
    [pair] = found.pairs
    assert (pair.judges, pair.n, pair.raw) == (("a", "b"), 8, 0.75)
    assert pair.kappa == pytest.approx(7 / 15)
    assert pair.ac1 == pytest.approx((0.75 - 30 / 64) / (1 - 30 / 64))
    assert (found.decided, found.undecided, found.repeats) == (6, 2, ())


def test_a_judge_asked_twice_and_one_that_always_says_the_same(release: Release) -> None:
    def says(judge: str, _model: str, place: int, _answer: int, repeat: int) -> bool:
        return judge == "moody" and (place < 4) == bool(repeat)

    run = voted(release, says, ["m-1"], ["moody", "mild"], judgments=2)
    found = panel_report(run)
    assert found is not None
    assert [(each.judges, each.n, each.raw) for each in found.repeats] == [
        (("moody", "moody"), 8, 0.0), (("mild", "mild"), 8, 1.0),
    ]  # fmt: skip
    mild = found.repeats[1]
    assert (mild.kappa, mild.ac1) == (None, 1.0)  # no chance agreement to correct for: not 0


def test_the_variance_is_found_where_it_was_put(release: Release) -> None:
    by_sample = voted(release, lambda _j, _m, place, *_: place < 4, ["m-1"], ["a"], answers=3, judgments=2)
    [found] = variances(by_sample)
    assert found.components.sample == pytest.approx(1 / 3)
    assert (found.components.answer, found.components.judge) == (0, 0)
    by_answer = voted(release, lambda _j, _m, _p, answer, _r: answer == 0, ["m-2"], ["a"], answers=2, judgments=2)
    [found] = variances(by_answer)
    assert found.components.answer == pytest.approx(0.5)
    assert (found.components.sample, found.components.judge, found.components.clipped) == (0, 0, ("sample",))
    by_judge = voted(release, lambda judge, *_: judge == "a", ["m-3"], ["a", "b"])
    [found] = variances(by_judge)
    assert found.components.judge == pytest.approx(0.5)
    assert found.components.answer is None  # one answer a sample cannot tell
    told = summary.repeats(by_judge)["models"]
    assert [(each["endpoint"], each["samples"], each["answer"]) for each in told] == [("m-3", 4, None)]


def test_who_favours_the_own_family(release: Release) -> None:
    """Both judges see the same; `gpt-judge` lets its own family pass on half of what it should fail."""

    def says(judge: str, model: str, place: int, *_: int) -> bool:
        mild = judge == "gpt-judge" and model == "gpt-4o"
        return place < (2 if mild else 4)

    run = voted(release, says, ["gpt-4o", "claude-3"], ["gpt-judge", "qwen-judge"])
    found = self_preference(run)
    assert [(each.role, each.endpoint, each.tested) for each in found.kin] == [("judge", "gpt-judge", ("gpt-4o",))]
    [each] = found.preferences
    assert (each.judge, each.own, each.others, each.difference) == ("gpt-judge", -0.25, 0.0, -0.25)
    assert (each.own_n, each.others_n) == (8, 8)
    told = summary.preference(run)
    assert [(each["family"], each["rate"]) for each in told["rates"]] == [("claude", 0.5), ("gpt", 0.25 / 0.75)]


def test_the_generator_is_flagged_as_well(release: Release) -> None:
    maker = endpoint(NOWHERE, "maker", name="maker", family="gpt")
    batch = release.samples.select_related("version__draft__batch")[0].version.draft.batch
    BatchRole.objects.create(batch=batch, role="generator", endpoint=maker)
    [(role, _maker)] = makers(release)
    run = voted(release, lambda *_: False, ["gpt-mini"], ["other", "another"])
    assert [(each.role, each.endpoint) for each in self_preference(run).kin] == [(role, maker.name)]
    Endpoint.objects.filter(name="gpt-mini").update(family="own")
    assert self_preference(run).kin == ()


def test_a_plain_run_says_so_in_few_words(release: Release) -> None:
    run = services.launch_run(RunSettings(release, [endpoint(NOWHERE, "m-1")], endpoint(NOWHERE, "judge")))
    told = summary.as_dict(run)
    assert (told["judges"], told["validation"]) == (None, None)
    assert told["repeats"] == {"answers": 1, "judgments": 1, "models": []}
    assert told["self_preference"] == {"kin": [], "rates": [], "preferences": []}


def test_page_report_and_api(release: Release) -> None:
    run = voted(
        release,
        lambda judge, _m, place, answer, repeat: (place + answer + repeat + (judge == "gpt-judge")) % 3 == 0,
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
    told = client.get(reverse("api:run-report", args=[run.pk])).json()
    written = json.loads(formats.as_json(reports_queries.report(run)))
    for key in ("judges", "repeats", "self_preference", "validation"):
        assert told[key] == written[key]
    text = formats.as_markdown(reports_queries.report(run))
    assert "gpt-judge (judge) is of the family gpt, like gpt-4o." in text
    assert "| qwen-judge – llama-judge | " in text
    assert "judges `gpt-judge` (gpt-judge), `qwen-judge` (qwen-judge), `llama-judge` (llama-judge)" in text
    [own] = told["self_preference"]["preferences"]
    assert f"| gpt-judge | {own['own']:+.3f} | {own['others']:+.3f} | {own['difference']:+.3f} |" in text
    assert told["judges"]["judges"] == ["gpt-judge", "qwen-judge", "llama-judge"]
    whole = client.get(reverse("api:run", args=[run.pk])).json()
    assert (whole["further_judges"], whole["panel"], whole["answers"], whole["judgments"]) == (
        ["qwen-judge", "llama-judge"], "majority", 2, 2,
    )  # fmt: skip
    assert whole["progress"]["votes"]["done"] == 2 * 2 * 8 * 3 * 2
    row = Judgment.objects.filter(run=run)[0]
    assert client.get(reverse("evaluation:calls", args=[run.pk, row.pk])).status_code == 200
