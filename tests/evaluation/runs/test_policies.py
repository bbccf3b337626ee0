"""Fixed texts are judged as models' answers are, and are models in no number."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from evaluation import errors, registry
from evaluation.claims.claims import BLIND
from evaluation.claims.queries import claims
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.judges import summary
from evaluation.models import Judgment, PolicyAnswer, Response, Run
from evaluation.releases.leaderboard import leaderboard
from evaluation.reports import formats, queries
from evaluation.runs import work
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.models import Call, Release
from generation.samples import errata
from review.models import User
from tests.engine import Manage, endpoint, evaluate_release, launch_run, make_release_with_controls

TEXTS = ("empty", "refusal", "doubt")


@pytest.fixture
def release(tmp_path: Path, models: str, physicians: Sequence[User]) -> Release:
    """Three conversations and two reports with two rubrics each, and a control of each."""
    return make_release_with_controls(tmp_path, models, physicians)


def test_fixed_texts_are_judged_and_are_no_models(release: Release, models: str, tmp_path: Path) -> None:
    plain = evaluate_release(release, models, "sim-careful", "sim-average")
    run = evaluate_release(release, models, "sim-careful", "sim-average", policies=TEXTS, fresh=True)
    samples = release.samples.count()
    assert run.status == Run.Status.FINISHED
    rows = PolicyAnswer.objects.filter(run=run)
    assert rows.count() == len(TEXTS) * samples
    assert set(rows.values_list("status", flat=True)) <= {"done", "failed"}
    for row in rows.filter(status="done").select_related("sample"):
        assert row.verdicts.keys() == set(row.sample.rubrics.values_list("key", flat=True))
    # Nothing else of the run has them.
    assert Response.objects.filter(run=run).count() == Response.objects.filter(run=plain).count()
    assert Judgment.objects.filter(run=run).count() == Judgment.objects.filter(run=plain).count()
    assert (run.responses_total, run.rubrics_total) == (plain.responses_total, plain.rubrics_total)
    first, second = queries.report(plain), queries.report(run)
    assert second.endpoints == ("sim-careful", "sim-average")
    assert formats.as_dict(second)["overall"] == formats.as_dict(first)["overall"]
    board = leaderboard(release)
    assert {entry.endpoint for entry in board.entries} == {"sim-careful", "sim-average"}
    # No model was asked about them; the judge was asked on each rubric.
    asked = Call.objects.filter(job=run, subject__startswith="policyanswer")
    assert {call.endpoint.model for call in asked.select_related("endpoint")} == {"sim-judge"}

    found = claims(run, second, summary.validation(run))
    by_name = {each.name: each for each in found.claims}
    assert by_name[BLIND].holds is None  # five samples are too few
    refusal = next(each for each in found.policies if (each.policy, each.dataset) == ("refusal", "combined"))
    said = [
        verdict["verdict"]
        for row in rows.filter(policy="refusal", sample__version__sample__arm="trap")
        for verdict in row.verdicts.values()
    ]
    assert (refusal.measured.numerator, refusal.measured.denominator) == (
        said.count("not_met"),
        said.count("met") + said.count("not_met"),
    )
    assert claims(plain, first, None).policies == ()

    folder = tmp_path / "bundle"
    bundle.export_run(run, folder)
    checked = verify_run.check(folder)
    assert checked["faults"] == []
    path = folder / "policies.jsonl"
    path.write_text(path.read_text().replace('"met"', '"not_met"', 1))
    assert any(fault.startswith("claims.json") for fault in verify_run.check(folder)["faults"])


def test_the_estimate_has_the_judges_calls_on_fixed_texts(release: Release, models: str) -> None:
    given: dict[str, Any] = {"release": release, "endpoints": [endpoint(models, "sim-careful")]}
    given["judge"] = endpoint(models, "sim-judge")
    without = estimate_run(RunSettings(**given))
    sample = estimate_run(RunSettings(**given, policies=TEXTS))
    more = sum(line.requests for line in sample.lines) - sum(line.requests for line in without.lines)
    assert more == len(TEXTS) * release.rubrics_count
    errata.withdraw(release.samples.order_by("position")[0].version.sample_id, actor=None, reason="Wrong.")
    of_fewer = estimate_run(RunSettings(**given, policies=TEXTS))
    assert sum(line.requests for line in of_fewer.lines) < sum(line.requests for line in sample.lines)


def test_a_fixed_text_of_no_benchmark_is_refused(release: Release, models: str) -> None:
    with pytest.raises(errors.UnknownPolicy, match="known: empty"):
        launch_run(release, models, "sim-careful", policies=["bored"])
    run = launch_run(release, models, "sim-careful", policies=["agree"], policy_samples=1)
    assert PolicyAnswer.objects.filter(run=run).count() == len(registry.protocol("mhb").datasets)
    assert RUNS.repeat_settings(run, {})["policies"] == ["agree"]


def test_a_finished_run_gets_fixed_texts_by_the_command(release: Release, models: str, manage: Manage) -> None:
    run = evaluate_release(release, models, "sim-careful")
    models_asked = Call.objects.filter(job=run, subject__startswith="response").count()
    code, out, err = manage("claims", run.pk, "--policy", "refusal,agree", "--json")
    assert (code, "Nothing was launched" in err) == (1, True)
    assert json.loads(out)["calls"] == 2 * release.rubrics_count
    assert manage.json("claims", run.pk)["policies"] == []
    for _again in range(2):
        found = manage.json("claims", run.pk, "--policy", "refusal,agree", "--yes", "--wait")
        assert {each["name"] for each in found["policies"]} == {"refusal", "agree"}
    run.refresh_from_db()
    assert (run.status, run.policies, run.policy_samples) == (Run.Status.FINISHED, ["refusal", "agree"], 50)
    assert PolicyAnswer.objects.filter(run=run).count() == 2 * release.samples_count
    assert Call.objects.filter(job=run, subject__startswith="response").count() == models_asked
    assert "known: empty" in manage.refusal("claims", run.pk, "--policy", "bored", "--yes")


def test_the_api_adds_fixed_texts_and_shows_the_claims(release: Release, models: str, admin: Client) -> None:
    run = evaluate_release(release, models, "sim-careful")
    address = f"/api/v1/runs/{run.pk}/"
    given = {"policies": ["agree"], "policy_samples": 1}
    estimate = admin.post(f"{address}policies/estimate/", given, content_type="application/json")
    assert estimate.status_code == 200
    assert admin.post(f"{address}policies/", given, content_type="application/json").status_code == 400
    added = admin.post(f"{address}policies/", {**given, "budget_calls": 50}, content_type="application/json")
    assert (added.status_code, added.json()["progress"]["policies"]["queued"]) == (202, 2)
    assert admin.get(f"{address}claims/").status_code == 409
    work.work_on_run(run.pk)
    shown = admin.get(f"{address}claims/").json()
    assert {each["name"] for each in shown["policies"]} == {"agree"}
    assert {each["holds"] for each in shown["claims"]} <= {True, False, None}
    board = admin.get(f"/api/v1/releases/{release.name}/{release.version}/results/").json()
    assert (board["claims"]["run"], board["claims"]["policies"]) == (run.pk, shown["policies"])


def test_an_empty_text_counts_as_the_plan_says(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful", policies=["empty"], outcomes=["empty=not_met"])
    verdicts = [each for row in PolicyAnswer.objects.filter(run=run) for each in row.verdicts.values()]
    assert {each["verdict"] for each in verdicts} == {"not_met"}
    assert not Call.objects.filter(job=run, subject__startswith="policyanswer").exists()


def test_one_record_first_leaves_fixed_texts_for_later(release: Release, models: str) -> None:
    run = launch_run(release, models, "sim-careful", policies=["agree"], first_only=True)
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.PAUSED
    assert set(PolicyAnswer.objects.filter(run=run).values_list("status", flat=True)) == {"queued"}
