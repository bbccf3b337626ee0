"""Comparing two runs, adding a model to a finished run, and the power of a release."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation import errors
from evaluation.interchange import comparing, importing, power, rows
from evaluation.interchange.power import Expectations
from evaluation.models import Response, Run
from evaluation.runs import adding, work
from evaluation.statistics.planning import power_of_difference
from generation.models import Call, Endpoint, Release, ReleasedSample
from generation.samples import errata
from review.rules.permissions import OPERATOR
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, bare_release, endpoint, evaluate_release, launch_run, make_release
from tests.evaluation.toy import toy, toy_release
from tests.populations import population

__all__ = ["toy"]

pytestmark = pytest.mark.django_db
COUNT = 8


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(*[("dialogue", [["A1"], ["C2"]])] * COUNT)


def import_study(release: Release, folder: Path, name: str, failed: set[int], model: str = "theirs") -> Run:
    """Import a study in which the first criterion of the samples at these positions was failed."""
    lines: list[Any] = [
        {"sample": sample.key, "rubric": rubric, "model": model, "met": not (at in failed and rubric == "R1")}
        for at, sample in enumerate(release.samples.order_by("position"))
        for rubric in ("R1", "R2")
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = importing.import_results(rows.read(path), release=release, study=name).run
    assert run is not None
    return run


@pytest.mark.both
def test_a_comparison_shows_differences_and_flipped_samples(release: Release, tmp_path: Path, manage: Manage) -> None:
    first, second = import_study(release, tmp_path, "a", {0, 1}), import_study(release, tmp_path, "b", {1, 2, 3})
    comparison = manage.json("compare", first.pk, second.pk)
    assert (comparison["same_release"], comparison["shared_samples"], comparison["changed_samples"]) == (True, COUNT, 0)
    rates = [(row["model"], row["dataset"], row["rate"], row["shared"]) for row in comparison["rows"]]
    assert rates == [("theirs", "dialogue", name, COUNT) for name in ("hallucination_rate", "samples_failed")]
    row, by_sample = comparison["rows"]
    assert (by_sample["first"], by_sample["second"], by_sample["worse"]) == (2 / 8, 3 / 8, 2)
    assert (row["first"], row["second"]) == (2 / 16, 3 / 16)
    assert row["difference"] == pytest.approx(1 / 16)
    keys = [sample.key for sample in release.samples.order_by("position")]
    assert [flip["sample"] for flip in row["flips"]] == [keys[0], keys[2], keys[3]]
    assert (row["worse"], row["better"]) == (2, 1)
    assert row["flips"][0] == {"sample": keys[0], "first": [1, 2], "second": [0, 2]}
    backwards = comparing.compare_runs(second, first, OPERATOR)
    assert backwards.rows[0].difference.difference == pytest.approx(-1 / 16)


def test_models_are_matched_by_name_or_if_each_run_has_one(release: Release, tmp_path: Path) -> None:
    first, second = (
        import_study(release, tmp_path, "a", {0}),
        import_study(release, tmp_path, "b", {1}, model="another"),
    )
    comparison = comparing.compare_runs(first, second, OPERATOR)
    assert {(row.first, row.second) for row in comparison.rows} == {("theirs", "another")}
    import_study(release, tmp_path, "b", {1}, model="theirs")
    comparison = comparing.compare_runs(first, second, OPERATOR)
    assert {(row.first, row.second) for row in comparison.rows} == {("theirs", "theirs")}
    assert comparison.only_second == ["another"]


def test_samples_of_two_releases_are_matched_by_key(release: Release, tmp_path: Path, toy: None) -> None:
    fields = {field.attname: getattr(release, field.attname) for field in Release._meta.concrete_fields}
    later_version = Release.objects.create(**{**fields, "id": None, "version": 2})
    for sample in list(release.samples.order_by("position"))[:5]:
        copied = ReleasedSample.objects.create(
            release=later_version, position=sample.position, version=sample.version, key=sample.key, task=sample.task,
            exported=sample.exported, split="held-out" if sample.position == 1 else "public",
        )  # fmt: skip
        for key in ("R1", "R2"):
            copied.rubrics.create(key=key, criterion="Says so.", traps=["A1"])
    runs = import_study(release, tmp_path, "a", {0, 1, 7}), import_study(later_version, tmp_path, "b", {0})
    comparison = comparing.compare_runs(*runs, OPERATOR)
    assert (comparison.same_release, comparison.shared_samples, comparison.rows[0].shared) == (False, 5, 5)
    assert comparison.rows[0].difference.difference == pytest.approx(-1 / 10)
    held_out_later = release.samples.get(position=1).key
    assert [flip.sample for flip in comparison.rows[0].flips] == [held_out_later]
    assert comparing.compare_runs(*runs, None).rows[0].flips == []
    other = Run.objects.create(release=toy_release(2), created_at=release.created_at)
    with pytest.raises(errors.OtherBenchmarks):
        comparing.compare_runs(comparison.first, other, OPERATOR)


@population
def judgeable(folder: Path, models: str) -> Release:
    """A release with criteria that the simulated judge can decide."""
    return make_release(folder, models, accounts_of(*PHYSICIANS[:3]), conversations=2)


def test_a_run_is_not_compared_with_itself() -> None:
    release = toy_release(1)
    run = Run.objects.create(release=release, created_at=release.created_at)
    with pytest.raises(errors.SameRun):
        comparing.compare_runs(run, Run.objects.get(pk=run.pk), OPERATOR)


def test_a_withdrawn_sample_is_compared_nowhere(judgeable: Release, models: str) -> None:
    run = evaluate_release(judgeable, models, "sim-careful")
    again = evaluate_release(judgeable, models, "sim-careful")
    withdrawn = judgeable.samples.order_by("position")[0]
    errata.withdraw(withdrawn.version.sample_id, actor=None, reason="Wrong.")
    comparison = comparing.compare_runs(run, again, OPERATOR)
    left = judgeable.samples_count - 1
    assert comparison.shared_samples == left
    assert {row.shared for row in comparison.rows} == {left}
    criteria = sum(sample.rubrics.count() for sample in errata.standing(judgeable))
    assert power.release_power(judgeable, Expectations(models=2))[0].criteria == criteria


# -------------------------------------------------------------------------------------- add a model


@pytest.mark.both
def test_adding_a_model_asks_no_other_model_again(judgeable: Release, models: str, manage: Manage) -> None:
    run = evaluate_release(judgeable, models, "sim-careful")
    new_calls = 2 + judgeable.rubrics_count
    before = {(row.pk, row.text, row.call_id) for row in Response.objects.all()}
    calls, finished = run.calls, run.finished_at
    new = endpoint(models, "sim-reckless", temperature=0.25)
    code, out, _err = manage("add_model", run.pk, "sim-reckless", "--json")
    assert (code, json.loads(out)["calls"]) == (1, new_calls)
    output = manage.json("add_model", run.pk, "sim-reckless", "--yes", "--wait")
    assert (output["models"], output["status"], output["responses"], output["responses_done"], output["judged"]) == (
        ["sim-careful", "sim-reckless"], "finished", 4, 4, 2 * judgeable.rubrics_count
    )  # fmt: skip
    run.refresh_from_db()
    assert run.finished_at is not None
    assert finished is not None
    assert run.finished_at > finished
    assert before <= {(row.pk, row.text, row.call_id) for row in Response.objects.all()}
    assert run.calls == calls + new_calls
    assert Call.objects.filter(job=run.pk, endpoint__name="sim-careful").count() == 2
    assert run.endpoint_settings[str(new.pk)]["temperature"] == 0.25
    assert (run.responses_total, run.rubrics_total) == (4, 2 * judgeable.rubrics_count)


def test_the_budget_of_an_added_model_is_beyond_what_was_spent(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful", budget_calls=6 * COUNT)
    added = adding.add_model(run.pk, endpoint(models, "sim-reckless"), budget_calls=5)
    assert (added.status, added.budget_calls, added.budget_money) == (Run.Status.RUNNING, run.calls + 5, None)
    work.work_on_run(run.pk)
    added.refresh_from_db()
    assert (added.status, added.calls) == (Run.Status.PAUSED, run.calls + 5)


def test_unsuitable_models_and_runs_are_refused(release: Release, models: str, tmp_path: Path, manage: Manage) -> None:
    running = launch_run(release, models, "sim-careful")
    assert "has not finished yet" in manage.refusal(
        "add_model", running.pk, endpoint(models, "sim-reckless").name, "--yes"
    )
    assert "already" in manage.refusal("add_model", running.pk, "sim-careful", "--yes")
    imported = import_study(release, tmp_path, "a", set())
    assert "was imported" in manage.refusal("add_model", imported.pk, "sim-careful", "--yes")
    work.work_on_run(running.pk)
    assert "imported results only" in manage.refusal("add_model", running.pk, "theirs", "--yes")
    assert "imported results only" in manage.refusal(
        "evaluate", "--yes", "--release", "bare", "--endpoint", "theirs", "--judge", "sim-judge"
    )
    assert Endpoint.objects.get(name="theirs").url == ""


# -------------------------------------------------------------------------------------------- power


def test_power_is_shown_for_each_part_of_a_release(release: Release, manage: Manage) -> None:
    output = manage.json("power", "--release", "bare", "--models", "4")
    cells = {(cell["dataset"], cell["facet"], cell["value"]): cell for cell in output["cells"]}
    assert (output["models"], cells["dialogue", "", ""]["criteria"]) == (4, 2 * COUNT)
    assert cells["dialogue", "", ""]["clusters"] == COUNT  # too few for an interval
    assert cells["dialogue", "", ""]["half_width"] is None
    assert {key for key in cells if key[1] == "subtype"} == {
        ("dialogue", "subtype", "A1"),
        ("dialogue", "subtype", "C2"),
    }


def test_more_models_mean_less_power(release: Release) -> None:
    few, many = (
        power.release_power(release, Expectations(models=models), facets=False, minimum=COUNT)[0] for models in (2, 9)
    )
    assert (few.clusters, few.criteria) == (COUNT, 2 * COUNT)
    assert few.half_width == many.half_width
    assert (few.detectable or 1) < (many.detectable or 1) or many.detectable is None
    assert (few.power or 0) > (many.power or 0)
    assert power.release_power(release, Expectations(models=2, correlation=0.9))[0].effective < few.effective


def test_a_primary_data_set_has_the_power_of_its_own_family(db: None) -> None:
    """Otherwise all data sets are one family: two and their pool are thrice the tests."""
    release = bare_release(*[("dialogue", [["A1"]]), ("report", [["A1"]])] * 60)
    one_family, own = (
        power.release_power(release, Expectations(models=2), facets=False, primary=name)[0] for name in ("", "dialogue")
    )
    sizes = [1] * 60
    assert own.power == pytest.approx(power_of_difference(0.3, 0.4, sizes, 0.3))
    assert one_family.power == pytest.approx(power_of_difference(0.3, 0.4, sizes, 0.3, pairs=3))
