"""Leaderboards of releases, and the public page of published results."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation import errors
from evaluation.interchange import files, importing
from evaluation.models import IncompletePublication, Judgment, Publication, Run
from evaluation.releases import queries, services
from evaluation.releases.leaderboard import LeaderboardEntry, Standing, leaderboard
from evaluation.reports import queries as reports_queries
from generation.models import Erratum, Release, Sample
from generation.models.work import Work
from review.errors import NotAllowed
from review.models import User
from review.rules.permissions import OPERATOR
from tests.api.conftest import Api, api
from tests.engine import bare_release
from tests.evaluation.test_pages import HOSTILE, SAMPLES, judged_run, model, query_count, text_of
from tests.evaluation.toy import toy, toy_release

__all__ = ["api", "toy"]

pytestmark = pytest.mark.django_db
Page = Any
GOOD, BAD = ("met", "met", "met", "not_met"), ("not_met",)


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(*SAMPLES)


@pytest.fixture
def large_release(db: None) -> Release:
    """A release with enough samples for an interval."""
    return bare_release(*(("dialogue", [["A1"], ["D2"]]) for _ in range(30)))


def address(name: str, release: Release) -> str:
    prefix = "" if name.startswith("public") else "evaluation:"
    return reverse(prefix + name, args=[release.name, release.version])


def ranked_models(release: Release) -> list[tuple[str, int]]:
    """The models of the leaderboard with the run that each was taken from, best first."""
    return [(entry.endpoint, entry.run) for entry in leaderboard(release).entries]


# -------------------------------------------------------------------------------------- leaderboard


def test_a_model_is_listed_once_with_its_latest_complete_run(release: Release) -> None:
    assert ranked_models(release) == []
    first = judged_run(release, "one", "two", verdicts=BAD)
    assert ranked_models(release) == [("one", first.pk), ("two", first.pk)]
    second = judged_run(release, "two", "three", verdicts=GOOD)
    assert dict(ranked_models(release)) == {"one": first.pk, "two": second.pk, "three": second.pk}
    board = leaderboard(release)
    report = reports_queries.report(second)
    for entry in board.entries:
        if entry.run == second.pk:
            rows = [row for row in report.numbers.overall if row.endpoint == entry.endpoint]
            assert [(s.dataset, s.value, s.numerator, s.denominator, s.excluded) for s in entry.scores] == [
                (r.dataset, r.measured.value, r.measured.numerator, r.measured.denominator, r.measured.excluded)
                for r in rows
            ]
            assert (entry.judge, entry.measured_at) == ("judge", second.finished_at)


def test_incomplete_runs_are_left_out_and_unlike_ones_say_what_differs(release: Release) -> None:
    running = judged_run(release, "one")
    Run.objects.filter(pk=running.pk).update(status=Run.Status.RUNNING)
    partial = judged_run(release, "two")
    partial.judgments.filter(rubric__sample__task="report").delete()
    partial.responses.filter(sample__task="report").delete()
    endpoints = judged_run(release, "three")
    Run.objects.filter(pk=endpoints.pk).update(sampling=Run.Sampling.ENDPOINT)
    warm = judged_run(release, "four")
    Run.objects.filter(pk=warm.pk).update(judge_temperature=0.9)
    failed = judged_run(release, "five", "six")
    failed.responses.filter(endpoint__name="five").update(status=Work.Status.FAILED, outcome="failed")
    assert set(ranked_models(release)) == {("four", warm.pk), ("six", failed.pk)}
    board = leaderboard(release)
    assert {entry.endpoint: [each.name for each in entry.differs] for entry in board.entries}["four"] == ["temperature"]
    assert board.left_out == 2


def test_only_runs_judged_alike_are_ranked(large_release: Release, admin: Client) -> None:
    """The others are listed with what differs, and take no rank away."""
    judged_run(large_release, "good", "bad", verdicts=GOOD)
    Judgment.objects.filter(response__endpoint__name="bad").update(verdict="not_met")
    ranked = {"good": 1, "bad": 2}

    def ranks() -> dict[str, int]:
        return {entry.endpoint: entry.rank.place for entry in leaderboard(large_release).entries if entry.rank}

    assert ranks() == ranked
    expected = {}
    changes: dict[str, tuple[str, dict[str, Any]]] = {
        "per-sample": ("judging", {"judging": Run.Judging.PER_SAMPLE}),
        "own-rules": ("rules", {}),
        "own-judge": ("judges", {"judge": model("another-judge")}),
        "panel": ("panel", {"panel": "majority"}),
    }
    for name, (part, change) in changes.items():
        run = judged_run(large_release, name)
        if name == "own-rules":
            change = {"plan": {**run.plan, "outcomes": {**run.plan["outcomes"], "unparsed": "not_met"}}}
        Run.objects.filter(pk=run.pk).update(**change)
        expected[name] = [part]
        assert ranks() == ranked
    board = leaderboard(large_release)
    assert {e.endpoint: [each.name for each in e.differs] for e in board.entries if e.differs} == expected
    assert [entry.endpoint for entry in board.entries][:2] == list(ranked), "what is not ranked comes after what is"
    page = text_of(admin.get(address("results", large_release)))
    assert "another-judge" in page
    assert "instead of judge" in page


def test_a_run_whose_judge_failed_throughout_displaces_none(large_release: Release) -> None:
    valid = judged_run(large_release, "good", "bad", verdicts=GOOD)
    failed = judged_run(large_release, "good", "bad", verdicts=("",))
    rules = {**failed.plan["outcomes"], "unparsed": "not_met"}
    for outcomes in (failed.plan["outcomes"], rules):
        Run.objects.filter(pk=failed.pk).update(plan={**failed.plan, "outcomes": outcomes})
        assert dict(ranked_models(large_release)) == {"good": valid.pk, "bad": valid.pk}
        assert all(entry.rank for entry in leaderboard(large_release).entries)


def test_ranks_show_which_models_differ_clearly(large_release: Release) -> None:
    run = judged_run(large_release, "good", "bad", "worse", verdicts=GOOD)
    for name, verdict in (("bad", "not_met"), ("worse", "not_met"), ("good", "met")):
        Judgment.objects.filter(response__endpoint__name=name).update(verdict=verdict)
    Judgment.objects.filter(response__endpoint__name="bad", pk=run.judgments.filter(
        response__endpoint__name="bad").order_by("pk")[0].pk).update(verdict="met")  # fmt: skip
    board = leaderboard(large_release)
    assert board.lower_is_better
    assert [entry.endpoint for entry in board.entries] == ["good", "bad", "worse"]
    ranks = [(entry.rank.place, entry.rank.best, entry.rank.worst) for entry in board.entries if entry.rank]
    assert ranks == [(1, 1, 1), (2, 2, 3), (3, 2, 3)], "bad and worse do not differ clearly"


@pytest.mark.usefixtures("toy")
def test_a_high_value_is_best_for_a_rate_of_right_answers() -> None:
    assert not leaderboard(toy_release(30)).lower_is_better


def test_results_of_a_run_are_counted_once(release: Release, admin: Client) -> None:
    judged_run(release, "one", "two")
    url = address("results", release)
    admin.get(url)
    queries_before = query_count(admin, url)
    judged_run(release, "three")
    admin.get(url)
    assert query_count(admin, url) <= queries_before + 6, "the new run is counted, the earlier one is not counted again"


def verdict_row(
    where: str, sample: str, model: str, *, met: bool, judge: str = "", repeat: int = 0
) -> files.VerdictRow:
    return files.VerdictRow(where, sample, "R1", model, met, "judged", "", "", repeat, judge, "")


def test_a_study_that_grows_is_counted_again(release: Release) -> None:
    """New rows and new models count; as long as verdicts are missing, the leaderboard has none."""

    def import_verdicts(*verdicts: tuple[str, str, bool]) -> tuple[int, list[int]]:
        keys = [*release.samples.order_by("position").values_list("key", flat=True)]
        entries = [
            verdict_row(f"row {at}", keys[int(sample)], model, met=met, judge="the-judge")
            for at, (model, sample, met) in enumerate(verdicts)
        ]
        importing.import_results(entries, release=release, study="elsewhere")
        run = Run.objects.get(study="elsewhere")
        assert leaderboard(release).entries == ()
        rows = [row for row in reports_queries.report(run).numbers.overall if row.dataset == "combined"]
        return run.pk, [row.measured.denominator for row in rows]

    pk, denominators = import_verdicts(("one", "0", True))
    assert denominators == [1]
    assert import_verdicts(("one", "1", False)) == (pk, [2])
    assert import_verdicts(("two", "0", True)) == (pk, [2, 1])
    run = judged_run(release, "three", verdicts=GOOD)
    before = leaderboard(release)
    Run.objects.filter(pk=run.pk).update(plan={**run.plan, "outcomes": {**run.plan["outcomes"], "answered": "not_met"}})
    after = leaderboard(release)
    values = [
        next(entry.scores[-1].value for entry in board.entries if entry.endpoint == "three")
        for board in (before, after)
    ]
    assert [value == 1.0 for value in values] == [False, True]


def test_an_interrupted_import_leaves_no_outdated_numbers(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK", 3)
    key = release.samples.order_by("position").values_list("key", flat=True)[0]

    def entries() -> Iterator[files.VerdictRow]:
        for number in range(importing.CHUNK + 1):
            yield verdict_row(f"row {number}", key, "one", met=True, repeat=number)
        raise errors.WrongResults("cut off")

    with pytest.raises(errors.WrongResults):
        importing.import_results(entries(), release=release, study="elsewhere")
    run = Run.objects.get(study="elsewhere")
    assert run.rubrics_total == run.judgments.count() == importing.CHUNK


def test_ranks_count_outcomes_as_the_reports_do(large_release: Release) -> None:
    """By the plan of this run a refusal counts against the model, although it has no verdict."""
    run = judged_run(large_release, "good", "shy", verdicts=GOOD)
    Judgment.objects.filter(response__endpoint__name="shy").update(
        verdict="", status=Work.Status.FAILED, error="NotJudged"
    )
    run.responses.filter(endpoint__name="shy").update(outcome="refused")
    Run.objects.filter(pk=run.pk).update(plan={**run.plan, "outcomes": {**run.plan["outcomes"], "refused": "not_met"}})
    board = leaderboard(large_release)
    assert [(entry.endpoint, entry.scores[-1].value) for entry in board.entries] == [("good", 0.25), ("shy", 1.0)]
    assert [entry.rank and (entry.rank.best, entry.rank.worst) for entry in board.entries] == [(1, 1), (2, 2)]


# -------------------------------------------------------------------------------------- publication


def test_unpublished_results_are_public_to_nobody(release: Release, admin: Client) -> None:
    judged_run(release, "one")
    for name, args in (("public-release", ["bare"]), ("public-release-version", ["bare", 1])):
        assert Client().get(reverse(name, args=args)).status_code == 404
        assert admin.get(reverse(name, args=args)).status_code == 404


def test_publishing_asks_for_confirmation_and_withdrawing_takes_effect_at_once(
    release: Release, admin: Client, adela: User
) -> None:
    judged_run(release, "one", verdicts=BAD)
    confirmation = text_of(admin.get(address("publish-results", release)))
    assert "without signing in" in confirmation
    assert Publication.objects.count() == 0
    admin.post(address("publish-results", release))
    admin.post(address("publish-results", release))
    publication = Publication.objects.get()
    assert (publication.release, publication.published_by, publication.withdrawn_at) == (release, adela, None)
    for url in (reverse("public-release", args=["bare"]), address("public-release-version", release)):
        page = Client().get(url)
        assert page.status_code == 200
        assert page["X-Robots-Tag"] == "all"
        assert "100.0%" in text_of(page)
    assert "Public since" in text_of(admin.get(address("results", release)))
    admin.post(address("withdraw-results", release))
    assert Client().get(address("public-release-version", release)).status_code == 404
    publication.refresh_from_db()
    assert publication.withdrawn_by == adela
    assert "not published" in text_of(admin.post(address("withdraw-results", release), follow=True))
    admin.post(address("publish-results", release))
    assert Publication.objects.count() == 2, "the history of publications is kept"


def test_the_public_page_shows_no_sample_no_answer_and_no_name(release: Release, adela: User, rui: User) -> None:
    judged_run(release, "one")
    sample = Sample.objects.get()
    Erratum.objects.create(
        sample=sample, kind="withdrawn", reason="Its turn says Cephalorin.", actor=rui, at=timezone.now()
    )
    services.publish(release, actor=adela)
    text = text_of(Client().get(address("public-release-version", release)))
    assert sample.key in text
    assert "1 sample was withdrawn since and counts nowhere." in text
    exported = [word for row in release.samples.all() for word in ("Cephalorin", "headache", row.key)]
    for hidden in (*exported, HOSTILE, "I agree.", "It says so.", "adela", "Adela", "rui", "Rui", "says Cephalorin"):
        assert hidden not in text.replace(sample.key, ""), hidden
    for criterion in Judgment.objects.values_list("rubric__criterion", flat=True).distinct():
        assert criterion not in text
    assert "/evaluation/" not in text, "no link to pages that require signing in"


def test_the_latest_published_version_is_shown(release: Release, adela: User) -> None:
    fields = {f.attname: getattr(release, f.attname) for f in Release._meta.concrete_fields if not f.primary_key}
    later = Release.objects.create(**{**fields, "version": 2})
    services.publish(release, actor=adela)
    page = Client().get(reverse("public-release", args=["bare"]))
    assert page.context["release"] == release
    services.publish(later, actor=adela)
    page = Client().get(reverse("public-release", args=["bare"]))
    assert page.context["release"] == later
    assert address("public-release-version", release) in text_of(page)
    assert [published.version for published in queries.published_releases("bare")] == [2, 1]


def test_only_admins_publish(release: Release, rui: User, ana: User) -> None:
    for person, status in ((rui, 403), (ana, 403)):
        client = Client()
        client.force_login(person)
        assert client.post(address("publish-results", release)).status_code == status
        assert client.get(address("publish-results", release)).status_code == status
        with pytest.raises(NotAllowed):
            services.publish(release, actor=person)
    assert Publication.objects.count() == 0


@pytest.mark.both
def test_publications_are_kept_and_only_one_is_in_force(release: Release, adela: User) -> None:
    publication = services.publish(release, actor=adela)
    with pytest.raises(IntegrityError), transaction.atomic():
        Publication.objects.create(release=release, published_at=timezone.now())
    with pytest.raises(IntegrityError), transaction.atomic():
        publication.delete()
    with pytest.raises(IntegrityError), transaction.atomic():
        Publication.objects.filter(pk=publication.pk).update(published_at=timezone.now())
    services.withdraw(release, actor=adela)
    with pytest.raises(errors.NotPublished):
        services.withdraw(release, actor=adela)


def test_results_are_read_published_and_withdrawn_over_the_api(
    release: Release, api: Api, adela: User, rui: User
) -> None:
    run = judged_run(release, "one", "two")
    results = api(rui).get(reverse("api:release-results", args=["bare", 1])).json()
    assert [(entry["endpoint"], entry["run"]) for entry in results["entries"]] == ranked_models(release)
    assert (results["publication"], results["rate"], run.pk) == (None, leaderboard(release).rate.name, run.pk)
    assert api(rui).post(reverse("api:release-publish", args=["bare", 1])).status_code == 403
    published = api(adela).post(reverse("api:release-publish", args=["bare", 1]))
    assert published.json()["address"] == "/public/releases/bare/1/"
    assert Client().get("/public/releases/bare/1/").status_code == 200
    assert api(adela).post(reverse("api:release-withdraw", args=["bare", 1])).status_code == 200
    assert api(adela).post(reverse("api:release-withdraw", args=["bare", 1])).status_code == 409


def test_incomplete_results_are_published_by_naming_their_coverage(
    large_release: Release, admin: Client, api: Api, adela: User
) -> None:
    """Nothing else shows them; the page says their coverage and ranks them nowhere."""
    run = judged_run(large_release, "whole", "half", verdicts=GOOD)
    judged_run(large_release, "other")
    lost = run.judgments.filter(response__endpoint__name="half").order_by("pk")[:20]
    Judgment.objects.filter(pk__in=[each.pk for each in lost]).delete()
    named: dict[str, int | str] = {"run": run.pk, "model": "half"}
    coverage = {"settled": 40, "criteria": 60}
    results, publish, withdraw = (f"/api/v1/releases/bare/1/{name}/" for name in ("results", "publish", "withdraw"))
    public = address("public-release-version", large_release)
    post = api(adela).post
    assert post(f"{publish}incomplete/", named | coverage).status_code == 409, "the page is not public"
    post(publish)
    [known] = api(adela).get(results).json()["incomplete"]
    assert (known["run"], known["endpoint"], known["coverage"]["settled"]) == (run.pk, "half", 40)
    assert "half" not in text_of(Client().get(public))
    wrong = post(f"{publish}incomplete/", named | {"settled": 60, "criteria": 60})
    assert (wrong.status_code, "40/60" in wrong.json()["detail"]) == (409, True)
    assert post(f"{publish}incomplete/", named).status_code == 400, "without its coverage"
    assert post(f"{publish}incomplete/", named | coverage | {"model": "whole"}).status_code == 422, "it is complete"
    page = text_of(admin.get(address("publish-results", large_release), named))
    assert "40 of 60 criteria" in page
    for _twice in range(2):
        admin.post(address("publish-results", large_release), named | coverage)
    assert IncompletePublication.objects.get().published_by == adela

    text = text_of(Client().get(public))
    assert text.index("other") < text.index("half")
    assert "40 of 60 criteria" in text
    entry = leaderboard(large_release, all_ranked=True).entries[-1]
    assert (entry.endpoint, entry.rank, entry.scores[-1].denominator) == ("half", None, 40)
    assert len(ranked_models(large_release)) == 3

    admin.post(address("withdraw-results", large_release), named)
    assert "half" not in text_of(Client().get(public))
    command = ["bare", "--run", str(run.pk), "--model", "half"]
    with pytest.raises(CommandError):
        call_command("publish_results", *command)
    call_command("publish_results", *command, "--coverage", "40/60")
    assert "40 of 60 criteria" in text_of(Client().get(public))
    assert post(f"{withdraw}incomplete/", named).status_code == 200
    post(f"{publish}incomplete/", named | coverage)
    for act in (withdraw, publish):
        post(act)
    assert "half" not in text_of(Client().get(public)), "a new publication begins without them"


def test_the_board_speaks_only_of_results_that_are_there(large_release: Release, admin: Client) -> None:
    """No complete run, no ranking, no rate: no sentence and no quotient about it."""
    run = judged_run(large_release, "half", verdicts=GOOD)
    some = run.judgments.order_by("pk")[:20]
    Judgment.objects.filter(pk__in=[each.pk for each in some]).delete()
    services.publish(large_release, actor=OPERATOR)
    services.publish_incomplete(large_release, run=run.pk, model="half", settled=40, criteria=60, actor=OPERATOR)
    page = text_of(admin.get(address("results", large_release)))
    assert "40 of 60 criteria" in page
    assert "complete run" not in page
    judged_run(large_release, "one")
    Run.objects.filter(pk=judged_run(large_release, "other").pk).update(judging=Run.Judging.PER_SAMPLE)
    board = leaderboard(large_release)
    assert (board.unlike, board.ranked) == (True, False)
    page = text_of(admin.get(address("results", large_release)))
    assert "latest complete run" in page
    assert "say what differs" in page
    assert "are ranked" not in page
    unasked = judged_run(large_release, "unread")
    unasked.judgments.update(verdict="", status="failed", error="BrokenReply")
    page = text_of(admin.get(address("results", large_release)))
    assert "0 / 0" not in page


def test_the_command_publishes_and_withdraws(release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("publish_results", "bare")
    assert "/public/releases/bare/1/" in capsys.readouterr().out
    assert Client().get("/public/releases/bare/").status_code == 200
    call_command("publish_results", "bare@1", "--withdraw")
    assert Client().get("/public/releases/bare/").status_code == 404
    for wrong in (["bare", "--withdraw"], ["nothing"]):
        with pytest.raises(CommandError):
            call_command("publish_results", *wrong)


@pytest.mark.parametrize(
    ("datasets", "deciding"), [(["free", "rep-v", "rep-vk"], "free"), (["dialogue", "report", "combined"], "combined")]
)
def test_ranks_are_based_on_all_data_sets_pooled_or_on_the_first(datasets: list[str], deciding: str) -> None:
    """Later data sets give a model more, such as a reference trace."""
    scores = tuple(Standing(name, 0.5, None, None, 1, 2, 0) for name in datasets)
    entry = LeaderboardEntry("a", "a", 1, "", timezone.now(), simulated=False, scores=scores)
    assert entry.deciding.dataset == deciding
