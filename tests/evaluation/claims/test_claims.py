"""Each claim holds in a run without a fault, and fails where its measurement contradicts it."""

import json
from collections import Counter
from io import StringIO
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.claims.claims import (
    BLIND,
    COVERAGE,
    FLOOR,
    NAMES,
    PEOPLE,
    REWORDED,
    TRAP,
    UNREAD,
    BenchmarkClaim,
    Claims,
    unread,
)
from evaluation.claims.measures import ASKED, COLD, JUDGED, JUDGES, WARM
from evaluation.models import Judgment, Response, Run
from evaluation.numbers.plans import THRESHOLDS
from evaluation.runs import services
from evaluation.runs.settings import RunSettings
from tests.engine import bare_release, endpoint
from tests.evaluation.claims.worlds import RATES, by_name, checked, claims, validation, verdicts
from tests.profile import by_profile

GOOD = validation(0.8, 0.65, 0.9)


def claim(name: str, rows: Any, **given: Any) -> BenchmarkClaim:
    return by_name(claims(rows, **given))[name]


@pytest.mark.plain
def test_a_run_without_a_fault_fails_no_claim() -> None:
    """The trap adds .295 on average, the models are .25 apart, 5 % of the verdicts turn."""
    found = claims(verdicts(1), validation=GOOD, probe=unread(False, 0.51, 0.45, 0.57))
    named = by_name(found)
    assert tuple(named) == NAMES
    assert {name: each.holds for name, each in named.items()} == {
        UNREAD: True, BLIND: None, TRAP: True, REWORDED: None, FLOOR: True, PEOPLE: True, COVERAGE: True,
    }  # fmt: skip
    assert found.failed == 0
    assert {name for name, each in named.items() if each.next_step} == {BLIND, REWORDED}  # not measured
    trap = named[TRAP]
    assert trap.value == pytest.approx((RATES["one"] + RATES["other"]) / 2 - 0.03, abs=0.03)
    assert trap.low is not None
    assert trap.high is not None
    assert trap.low < 0.295 < trap.high
    [asked] = found.floor
    assert (asked.kind, asked.turned.n) == (ASKED, 1200)
    assert asked.turned.value == pytest.approx(0.05, abs=0.02)
    assert found.below == ()


@pytest.mark.plain
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (TRAP, {"rows": {"control": 0.33}}),
        (FLOOR, {"rows": {"rates": {"one": 0.3, "other": 0.3}, "turned": 0.4}}),
        (PEOPLE, {"validation": validation(0.4, 0.2, 0.55)}),
        (REWORDED, {"reworded": 0.15}),
        (BLIND, {"texts": {"refusal": 0.05, "agree": 0.9}}),
        (UNREAD, {"probe": unread(True, 0.81, 0.76, 0.85)}),
    ],
)
def test_a_claim_fails_where_its_measurement_contradicts_it(name: str, fault: dict[str, Any]) -> None:
    rows = verdicts(2, **fault.pop("rows", {}))
    found = claims(rows, **{"validation": GOOD, "probe": unread(False, 0.5, 0.4, 0.6), **fault})
    failed = [each for each in found.claims if each.holds is False]
    assert [each.name for each in failed] == [name]
    assert failed[0].contradicted_by
    assert found.failed == 1


@pytest.mark.plain
def test_fixed_texts_stand_beside_the_models_that_they_beat() -> None:
    """The models fail .45 and .2 of the criteria; one text fails .3, the other .9."""
    found = claims(verdicts(6), texts={"refusal": 0.3, "agree": 0.9})
    [refusal, agree] = [each for each in found.policies if each.dataset == "dialogue"]
    assert (refusal.policy, refusal.beats, agree.beats) == ("refusal", ("one",), ())
    assert refusal.measured.value == pytest.approx(0.3, abs=0.05)
    assert refusal.measured.n == 600
    claimed = by_name(found)[BLIND]
    assert claimed.holds is False
    assert claimed.value == pytest.approx(0.15, abs=0.06)
    assert claimed.as_json["detail"] == "refusal: better than 1 of 2 models"
    assert found.winning == (refusal,)
    held = claims(verdicts(6), texts={"agree": 0.9})
    assert by_name(held)[BLIND].holds is True


@pytest.mark.plain
def test_sentences_name_the_thresholds_of_the_plan_and_what_was_counted() -> None:
    rows = list(verdicts(9, records=20, control=0.3))
    given = {"reworded": 0.3, "texts": {"agree": 0.9}, "validation": GOOD, "probe": unread(True, 0.8, probe="Length")}
    for thresholds, named in (
        (THRESHOLDS, ("p < 0.05 ", "±0.05", "below 0.6")),
        ({"agreement": 0.41, "equivalence": 0.12, "error": 0.01}, ("p < 0.01 ", "±0.12", "below 0.41")),
    ):
        stated = {each["name"]: each for each in claims(rows, thresholds=thresholds, **given).as_json()["claims"]}
        for name, words in zip((BLIND, REWORDED, PEOPLE), named, strict=True):
            assert words in stated[name]["contradicted_by"]
        assert not any("%(" in text for each in stated.values() for text in (each["detail"], each["contradicted_by"]))
        assert all(each["measures"] for each in stated.values())
    assert stated[COVERAGE]["detail"] == f"{len(rows)} of {len(rows)} criteria"
    assert stated[UNREAD]["detail"] == "Length; a guess has 0.5"
    assert stated[REWORDED]["detail"] == "20 independent records have both; interval at 90 %"
    assert stated[BLIND]["detail"] == "agree beside one"


@pytest.mark.plain
def test_rewording_is_shown_to_do_nothing_and_not_only_not_shown_to_do_something() -> None:
    """A control fails .03 of its criteria: of 300 records that is known to ± .02."""
    alike = by_name(claims(verdicts(9), reworded=0.03))[REWORDED]
    assert (alike.holds, alike.why) == (True, "")
    assert alike.low is not None
    assert alike.high is not None
    assert -0.05 < alike.low < alike.high < 0.05
    few = by_name(claims(verdicts(9, records=20, control=0.3), reworded=0.3))[REWORDED]
    assert few.holds is None
    assert few.low is not None
    assert few.why


@pytest.mark.plain
def test_a_world_without_a_fault_fails_each_claim_in_one_of_twenty_runs_at_most() -> None:
    """300 pairs. The texts fail as much as the worse model, rewordings as much as controls; on the
    answers of six models, κ is just the .6 that it should be. What the probes of such a world tell
    is in the tests of probes.
    """
    seeds = by_profile(5, 200)
    failed: Counter[str] = Counter()
    for seed in range(seeds):
        texts = {f"text {number}, {seed}": RATES["one"] for number in range(6)}
        found = claims(
            verdicts(1000 + seed, control=0.1),
            texts=texts,
            reworded=0.12,  # second answers turn, so that controls fail .1 and .14
            validation=checked(seed),
            probe=unread(False, 0.5, 0.4, 0.6),
        )
        failed.update(claim.name for claim in found.failing)
    # Of 200, 95 % of the samples of a share of 5 % have at most 15.
    assert max(failed.values(), default=0) <= max(1, round(0.075 * seeds)), failed


@pytest.mark.plain
def test_the_model_whose_agreement_is_surely_too_low_contradicts_the_claim() -> None:
    """Not the one with the lowest κ of few answers; and one interval of six is low by chance."""
    low, few = {"value": 0.5, "low": 0.44, "high": 0.56}, {"value": 0.4, "low": 0.1, "high": 0.75}
    rows = list(verdicts(3, records=20))

    def of(*kappas: dict[str, float]) -> BenchmarkClaim:
        models = [{"judge": {"kappa": kappa}} for kappa in kappas]
        return by_name(claims(rows, validation={"simulated_physicians": False, "models": models}))[PEOPLE]

    found = of(few, low)
    assert (found.holds, found.value) == (False, 0.5)
    assert found.high is not None
    assert 0.56 < found.high < 0.6
    by_chance = {"value": 0.5, "low": 0.38, "high": 0.595}
    assert of(by_chance).holds is False
    assert of(by_chance, few, few, few, few, few).holds is True


@pytest.mark.plain
def test_claims_are_confirmed_on_held_out_samples_alone() -> None:
    """On the held-out half the trap does nothing."""
    rows = list(verdicts(7))
    plain = list(verdicts(8, rates={"one": 0.03, "other": 0.03}))
    half = [{**row, "is_held_out": False} for row in rows if row["record"] < 200]
    half += [{**row, "is_held_out": True} for row in plain if row["record"] >= 200]
    named = by_name(claims(half))
    assert (named[TRAP].holds, named[TRAP].confirmed) == (True, False)
    assert by_name(claims(rows))[TRAP].confirmed is None


@pytest.mark.plain
def test_one_criterion_without_an_answer_contradicts_the_coverage() -> None:
    rows = list(verdicts(3, records=20))
    assert claim(COVERAGE, rows).holds is True
    rows[-1] = {**rows[-1], "said": None}
    missing = claim(COVERAGE, rows)
    assert missing.holds is False
    assert missing.value == pytest.approx(1 - 1 / len(rows))


@pytest.mark.plain
def test_models_no_further_apart_than_their_verdicts_turn_are_marked() -> None:
    found = claims(verdicts(2, rates={"one": 0.3, "other": 0.3}, turned=0.4))
    [asked] = found.floor
    assert asked.moved is not None
    floor = by_name(found)[FLOOR]
    assert floor.value is not None
    assert (found.below == (("one", "other"),)) == (floor.value <= asked.moved)

    def is_marked(difference: float | None, rate: str = found.rate.name) -> bool:
        comparison: Any = SimpleNamespace(rate=rate, difference=difference)
        return found.is_below(comparison)

    assert found.limit == asked.moved > 0
    assert is_marked(asked.moved)
    assert is_marked(-asked.moved)
    assert not is_marked(asked.moved + 0.001)
    assert not is_marked(None)
    assert not is_marked(0.0, "samples_failed"), "the floor is that of the primary metric"


@pytest.mark.django_db
def test_the_report_marks_differences_that_asking_again_makes_too(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reverse("evaluation:run", args=[finished_run("m-1", "m-2").pk])
    marks = {}
    for limit in (0.6, 0.4, None):
        monkeypatch.setattr(Claims, "limit", limit)
        shown = admin.get(f"{page}?sort=model").content.decode()  # a page with options is not cached
        marks[limit] = shown.count(">below the floor<")
    # They differ by one half altogether, and by nothing on the second criteria.
    assert marks[0.6] > marks[0.4] > 0 == marks[None]


@pytest.mark.plain
def test_without_data_a_claim_neither_holds_nor_fails() -> None:
    """Nine records are too few for an interval; without repeats there is no floor."""
    rows = [row for row in verdicts(4, records=9) if not row["repeat"]]
    named = by_name(claims(rows))
    for name in (TRAP, FLOOR, PEOPLE, UNREAD, BLIND, REWORDED):
        assert (named[name].holds, named[name].low) == (None, None)
        assert named[name].why
    no_controls = [row for row in verdicts(4, records=30) if not row["is_control"]]
    assert claim(TRAP, no_controls).holds is None


@pytest.mark.plain
def test_votes_of_judges_turn_as_counted_by_hand() -> None:
    """Judge a changes its mind on one criterion in ten, judge b differs from it on one in five."""
    rows = [row for row in verdicts(5, records=40) if not row["repeat"] and not row["is_control"]]
    votes = []
    for place, row in enumerate(rows):
        said = "not_met" if place % 2 else "met"
        turned = "met" if place % 2 else "not_met"
        answer = 500 + place // 2  # the answers in their order (`frame_of`)
        for judge, number, voted in (
            ("a", 0, said),
            ("a", 1, turned if place % 10 == 0 else said),
            ("b", 0, turned if place % 5 == 0 else said),
        ):
            votes.append(
                {"judge": judge, "number": number, "voted": voted, "response": answer, "rubric": row["rubric"]}
            )
    found = claims(rows, votes=pl.DataFrame(votes))
    shares = {(each.kind, each.who): (each.turned.value, each.turned.n) for each in found.floor}
    cached = [{**vote, "warm": vote["rubric"] % 4 == 0 if vote["judge"] == "a" else None} for vote in votes]
    apart = {each.kind: each.turned for each in claims(rows, votes=pl.DataFrame(cached)).floor if each.who == "a"}
    assert apart[WARM].n + apart[COLD].n == apart[JUDGED].n == len(rows)
    assert apart[WARM].n == sum(row["rubric"] % 4 == 0 for row in rows)
    assert shares == {(JUDGED, "a"): (0.1, len(rows)), (JUDGES, "a – b"): (0.2, len(rows))}


def finished_run(*models: str) -> Run:
    """A run of twelve conversations, whose criteria are met; the first ones not by a model m-2."""
    release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 12)
    nowhere = "http://127.0.0.1:9/v1"
    judge = endpoint(nowhere, "judge")
    tested = [endpoint(nowhere, name) for name in models or ("m-1",)]
    run = services.launch_run(RunSettings(release=release, endpoints=tested, judge=judge))
    Response.objects.filter(run=run).update(status="done", outcome="answered", text="An answer.")
    for response in Response.objects.filter(run=run).select_related("sample"):
        for rubric in response.sample.rubrics.all():
            verdict = "met"
            if response.endpoint.name == "m-2" and rubric.key == "R1":
                verdict = "not_met"
            Judgment.objects.create(run=run, response=response, rubric=rubric, status="done", verdict=verdict)
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED, finished_at=timezone.now())
    return run


@pytest.mark.django_db
def test_a_fixed_text_that_wins_stands_at_the_top_of_report_board_and_public_page(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished_run()
    found = claims(verdicts(6), texts={"refusal": 0.3, "agree": 0.9})
    monkeypatch.setattr("evaluation.runs.views.claims", lambda *_given: found)
    monkeypatch.setattr("evaluation.releases.board_claims.claims_of_run", lambda _run: found)
    named = [run.release.name, run.release.version]
    admin.post(reverse("evaluation:publish-results", args=named))
    pages = [
        admin.get(reverse("evaluation:run", args=[run.pk])),
        admin.get(reverse("evaluation:results", args=named)),
        Client().get(reverse("public-release-version", args=named)),
    ]
    for page in pages:
        text = " ".join(page.content.decode().split())
        assert page.status_code == 200
        assert text.index("What this benchmark claims is contradicted") < text.index("Hallucination rate</h2>")
        assert "A refusal &gt; one" in text
        assert "Do not rank models by this benchmark" in text
        assert "Does it measure what it says?" in text
        assert "An admin can probe the release on its page." in text
    for page in pages[1:]:
        row = page.content.decode().partition("A refusal<span")[2].partition("</tr>")[0]
        assert "a fixed text, no model" in row


@pytest.mark.django_db
@pytest.mark.both
def test_the_command_prints_the_claims_and_fails_if_one_fails() -> None:
    run = finished_run()
    out = StringIO()
    call_command("claims", run.pk, "--json", stdout=out)
    good = json.loads(out.getvalue())
    assert (good["failed"], good["policies"]) == (0, [])
    assert [(each["name"], each["holds"]) for each in good["claims"] if each["holds"] is not None] == [(COVERAGE, True)]
    assert all({"name", "value", "low", "high", "contradicted_by", "holds"} <= each.keys() for each in good["claims"])
    Judgment.objects.filter(pk=Judgment.objects.filter(run=run).first().pk).update(status="queued", verdict="")  # type: ignore[union-attr]
    cache.clear()
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("claims", run.pk, "--json", stdout=out)
    assert json.loads(out.getvalue())["failed"] == 1
