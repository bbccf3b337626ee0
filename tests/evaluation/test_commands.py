"""The commands `evaluate` and `report`."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from evaluation.models import Run
from evaluation.runs.kind import RUNS
from evaluation.runs.services import repeat_settings
from generation.engine.sweeping import sweep
from generation.errors import NotRepeatable
from generation.models import Release
from tests.conftest import accounts_of
from tests.engine import Manage, bare_release, endpoint, launch_run, make_release
from tests.populations import population

TARGETS = ("--endpoint", "sim-careful", "--endpoint", "sim-reckless")


@population
def release(folder: Path, models: str) -> Release:
    for model in ("sim-careful", "sim-reckless", "sim-judge"):
        endpoint(models, model)
    return make_release(folder, models, accounts_of("ana", "bo"), conversations=2)


def test_evaluate_and_report(manage: Manage, release: Release) -> None:
    run = manage.json("evaluate", "--yes", "--release", "own", *TARGETS, "--judge", "sim-judge", "--wait")
    assert (run["release"], run["responses"], run["responses_done"], run["responses_failed"]) == ("own v1", 4, 4, 0)
    assert run["judgments"] == run["judged"] == 2 * release.rubrics_count
    assert (run["unjudged"], run["simulated"], run["failed"]) == (0, True, 0)
    assert run["calls"] == 4 + 2 * release.rubrics_count

    code, out, err = manage("report", run["run"], "--format", "json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["finished"]
    assert sum(row["denominator"] for row in report["overall"]) == 2 * release.rubrics_count
    assert manage.json("report", run["run"]) == report
    code, out, err = manage("report", run["run"])
    assert (code, err) == (0, "")
    assert out.startswith("# own v1: Hallucination rate")


def test_without_wait_the_run_is_left_to_the_workers(manage: Manage, release: Release) -> None:
    run = manage.json("evaluate", "--yes", "--release", "own@1", *TARGETS, "--judge", "sim-judge")
    assert (run["responses"], run["responses_done"], run["calls"]) == (4, 0, 0)
    assert sweep(RUNS) == [run["run"]]


def test_the_temperature_of_the_judge_can_be_set(manage: Manage, release: Release) -> None:
    run = manage.json(
        "evaluate", "--yes", "--release", "own", *TARGETS, "--judge", "sim-judge", "--judge-temperature", "0.2"
    )
    assert Run.objects.get(pk=run["run"]).judge_temperature == 0.2


@pytest.mark.parametrize("broken", ["sim-judge", "sim-careful"])
def test_evaluate_fails_when_no_criterion_was_judged(manage: Manage, models: str, broken: str) -> None:
    bare_release(("dialogue", [["A1"]]))
    for model in ("sim-judge", "sim-careful"):
        endpoint(models, f"{model}+500" if model == broken else model, name=model)
    code, out, err = manage(
        "evaluate",
        "--release",
        "bare",
        "--endpoint",
        "sim-careful",
        "--judge",
        "sim-judge",
        "--yes",
        "--wait",
        "--json",
    )
    result = json.loads(out)
    assert (code, result["failed"], result["judged"], result["unjudged"]) == (1, 1, 0, 1)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--release", "gone", *TARGETS, "--judge", "sim-judge"], "no release with this name"),
        (["evaluate", "--release", "own@7", *TARGETS, "--judge", "sim-judge"], "own v7"),
        (["evaluate", "--release", "own", "--endpoint", "gone", "--judge", "sim-judge"], "no endpoint with this name"),
        (["evaluate", "--release", "own", *TARGETS, "--judge", "gone"], "no endpoint with this name"),
        (["report", "4711"], "no run with this number"),
        (["report", "9" * 30], "no run with this number"),
    ],
)
def test_an_error_is_reported_in_one_sentence(
    manage: Manage, release: Release, arguments: list[str], message: str
) -> None:
    assert message in manage.refusal(*arguments)
    assert not Run.objects.exists()


def test_a_run_that_no_worker_has_started_can_be_reported(manage: Manage, models: str) -> None:
    run = launch_run(bare_release(("dialogue", [["A1"]])), models, "sim-average")
    report = manage.json("report", run.pk)
    assert not report["finished"]
    assert [row["rate"] for row in report["overall"]] == [None]


def test_like_repeats_the_settings_of_an_earlier_run(manage: Manage, release: Release) -> None:
    options = ("--answers", "2", "--seed", "7", "--outcome", "refused=excluded", "--judge-temperature", "0.2")
    launched = manage.json("evaluate", "--yes", "--release", "own", *TARGETS, "--judge", "sim-judge", *options)
    first = Run.objects.get(pk=launched["run"])
    repeated = Run.objects.get(pk=manage.json("evaluate", "--yes", "--like", first.pk, "--seed", "8")["run"])
    repeated_fields = ("release_id", "judge_id", "judge_temperature", "answers_each", "plan", "judging", "sampling")
    assert [getattr(repeated, name) for name in repeated_fields] == [getattr(first, name) for name in repeated_fields]
    assert repeated.seed == 8
    changed = manage.json(
        "evaluate", "--yes", "--like", first.pk, "--endpoint", "sim-careful", "--judge", "sim-reckless"
    )
    run = Run.objects.get(pk=changed["run"])
    assert [model.name for model in run.endpoints.all()] == ["sim-careful"]
    assert run.judge is not None
    assert (run.judge.name, run.judge_temperature, run.plan["comparisons"]) == ("sim-reckless", 0.5, [])
    assert "Give --release and --endpoint, or --like RUN." in manage.refusal("evaluate", "--yes")
    with pytest.raises(NotRepeatable):
        repeat_settings(Run(origin=Run.Origin.IMPORTED), {})


def test_like_repeats_the_settings_of_an_earlier_run_over_the_api(
    manage: Manage, release: Release, admin_client: Client
) -> None:
    first = manage.json("evaluate", "--yes", "--release", "own", *TARGETS, "--judge", "sim-judge", "--answers", "2")
    body = {"like": first["run"], "seed": 5, "confirmed": True}

    def post(address: str, body: dict[str, Any]) -> Any:
        return admin_client.post(f"/api/v1/runs/{address}", json.dumps(body), "application/json")

    response = post("", body)
    assert response.status_code == 202, response.content
    assert (response.json()["seed"], response.json()["answers"], response.json()["judge"]) == (5, 2, "sim-judge")
    assert post("estimate/", {"like": first["run"]}).status_code == 200
    assert post("", {"confirmed": True}).status_code == 400
