"""A sample of a finished run is asked and judged a second time, and no other number changes."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.claims.measures import ASKED, JUDGED
from evaluation.claims.queries import claims_of_run
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.models import PolicyAnswer, Run
from evaluation.reports import formats, queries
from evaluation.runs import adding, leaving, work
from generation.models import Call, Endpoint, Erratum, Release
from review.models import User
from tests.engine import Manage, evaluate_release, make_release_with_controls

BOTH = ["answers", "verdicts"]


@pytest.fixture
def release(tmp_path: Path, models: str, physicians: Sequence[User]) -> Release:
    """Three conversations and two reports with two rubrics each, and a control of each."""
    return make_release_with_controls(tmp_path, models, physicians)


def asked_again(run: Run, again: Sequence[str] = BOTH) -> Run:
    """The run after this was done a second time."""
    adding.add_checks(adding.Checks(run=run, again=again))
    work.work_on_run(run.pk)
    return Run.objects.get(pk=run.pk)


def test_asking_again_tells_how_often_verdicts_turn_and_changes_no_number(
    release: Release, models: str, tmp_path: Path
) -> None:
    run = evaluate_release(release, models, "sim-careful", "sim-average")
    before = formats.as_dict(queries.report(run))
    assert claims_of_run(run).floor == ()
    run = asked_again(run)
    assert run.status == Run.Status.FINISHED
    after = formats.as_dict(queries.report(run))
    assert {name for name in after if after[name] != before[name]} <= {"cost", "estimated"}
    rows = PolicyAnswer.objects.filter(run=run)
    answers = run.responses.filter(sample__version__sample__arm="trap").count()
    assert 0 < answers < run.responses.count(), "controls are in no number of these, so nobody pays for them"
    assert {kind: rows.filter(policy=kind).count() for kind in BOTH} == {"answers": answers, "verdicts": answers}
    assert set(rows.values_list("status", flat=True)) == {"done"}
    calls = Call.objects.filter(job=run, subject__startswith="policyanswer", hit_of=None)
    assert {name: calls.filter(endpoint__name=name).exists() for name in ("sim-careful", "sim-average", "sim-judge")} == {
        "sim-careful": True, "sim-average": True, "sim-judge": True,
    }  # fmt: skip
    floor = {each.kind: each for each in claims_of_run(run).floor}
    assert {kind: each.who for kind, each in floor.items()} == {ASKED: "", JUDGED: "sim-judge"}

    # How often they turned, counted by hand on the trap samples.
    for kind, name in ((ASKED, "answers"), (JUDGED, "verdicts")):
        turned = counted = 0
        for row in rows.filter(policy=name, sample__version__sample__arm="trap").select_related("response"):
            assert row.response is not None
            first = dict(row.response.judgments.values_list("rubric__key", "verdict"))
            for key, second in row.verdicts.items():
                counted += 1
                turned += (first[key] == "not_met") != (second["verdict"] == "not_met")
        measured = floor[kind].turned
        assert (measured.n, round((measured.value or 0) * counted)) == (counted, turned), kind

    folder = tmp_path / "bundle"
    bundle.export_run(run, folder)
    assert verify_run.check(folder)["faults"] == []
    path = folder / "again.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[0]]) + "\n")
    assert any("twice" in fault for fault in verify_run.check(folder)["faults"])
    forged = [json.loads(line) for line in lines]
    for row in forged:
        row["verdict"] = "met"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in forged))
    assert any(fault.startswith("claims.json") for fault in verify_run.check(folder)["faults"])


def test_in_a_panel_the_first_judge_judges_again(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful", judgments=2)
    run = asked_again(run, ["verdicts"])
    floor = claims_of_run(run).floor
    judged = [each for each in floor if (each.kind, each.who) == (JUDGED, "sim-judge")]
    assert len(judged) == 2, "by its own repeats, and by what was judged again"


def test_withdrawn_samples_and_what_a_run_has_are_not_asked_again(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful", "sim-average")
    sample = release.samples.order_by("position")[0]
    Erratum.objects.create(
        sample=sample.version.sample, kind=Erratum.Kind.WITHDRAWN, reason="It is wrong.", at=run.created_at
    )
    run = asked_again(run, ["verdicts"])
    rows = PolicyAnswer.objects.filter(run=run)
    with_trap = run.responses.filter(sample__version__sample__arm="trap")
    assert rows.count() == with_trap.exclude(sample=sample).count()
    assert adding.check_checks(adding.Checks(run=run, again=["verdicts"])) == []
    assert adding.add_checks(adding.Checks(run=run, again=["verdicts"])).status == Run.Status.FINISHED


def test_a_model_that_is_left_out_is_not_waited_for(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful", "sim-average")
    adding.add_checks(adding.Checks(run=run, again=["answers"]))
    leaving.leave_out(run.pk, Endpoint.objects.get(name="sim-average"))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    states = PolicyAnswer.objects.filter(run=run).values_list("response__endpoint__name", "status").distinct()
    assert (run.status, set(states)) == (
        Run.Status.FINISHED, {("sim-careful", "done"), ("sim-average", "dropped")},
    )  # fmt: skip


def test_a_finished_run_is_checked_on_a_page(release: Release, models: str, admin: Client) -> None:
    run = evaluate_release(release, models, "sim-careful")
    page = reverse("evaluation:run-checks", args=[run.pk])
    assert page in admin.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert admin.get(page).status_code == 200
    assert "Choose a fixed text" in admin.post(page, {"samples": "5"}).content.decode()
    given = {"policies": ["refusal", "agree"], "again": BOTH, "samples": "5"}
    estimate = admin.post(page, given).content.decode()
    assert "beyond what the run has cost so far" in estimate
    assert not PolicyAnswer.objects.filter(run=run).exists()
    assert admin.post(page, {**given, "confirmed": "1", "budget_calls": "900"}).status_code == 302
    work.work_on_run(run.pk)
    run.refresh_from_db()
    assert (run.status, run.policies) == (Run.Status.FINISHED, ["refusal", "agree"])
    found = claims_of_run(run)
    assert {each.policy for each in found.policies} == {"refusal", "agree"}
    assert {each.kind for each in found.floor} == {ASKED, JUDGED}
    offered = admin.get(page).context["form"].fields["policies"].choices
    assert "refusal" not in dict(offered)


def test_a_finished_run_is_asked_again_by_command_and_api(
    release: Release, models: str, admin: Client, manage: Manage
) -> None:
    run = evaluate_release(release, models, "sim-careful")
    code, out, _err = manage("claims", run.pk, "--again", "answers", "--json")
    assert (code, json.loads(out)["calls"] > 0) == (1, True)
    assert not PolicyAnswer.objects.exists()
    found = manage.json("claims", run.pk, "--again", "answers", "--policy-samples", "2", "--yes", "--wait")
    assert [each["kind"] for each in found["floor"]] == [ASKED]
    assert "known: answers, verdicts" in manage.refusal("claims", run.pk, "--again", "all", "--yes")
    address = f"/api/v1/runs/{run.pk}/again/"
    given = {"again": ["verdicts"], "samples": 1}
    assert admin.post(f"{address}estimate/", given, content_type="application/json").status_code == 200
    assert admin.post(address, given, content_type="application/json").status_code == 400
    added = admin.post(address, {**given, "confirmed": True}, content_type="application/json")
    assert (added.status_code, added.json()["progress"]["policies"]["queued"]) == (202, 2)
    assert admin.post(address, given | {"confirmed": True}, content_type="application/json").status_code == 409
    work.work_on_run(run.pk)
    kinds = {each["kind"] for each in admin.get(f"/api/v1/runs/{run.pk}/claims/").json()["floor"]}
    assert kinds == {ASKED, JUDGED}
