"""A report can be recomputed from its bundle, and any changed row or number is named."""

import copy
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.utils import timezone

from evaluation import panel as panels
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.interchange.programs.differences import Differences
from evaluation.judges import services as judges_services
from evaluation.judges import summary
from evaluation.models import Judgment, Response, Run, Vote
from evaluation.runs import services
from evaluation.runs.settings import RunSettings
from generation.models import Call
from generation.models.work import Work
from review.models import Assignment
from tests.engine import Manage, endpoint
from tests.evaluation.interchange.test_bundle import update_checksums
from tests.evaluation.judges.test_validation import NOWHERE, answer_queue, create_physicians
from tests.evaluation.reports.test_counting import with_controls
from tests.profile import by_profile

pytestmark = pytest.mark.django_db

MET, NOT_MET = "met", "not_met"
# The first judge is of the family of the first model, so that there is self-preference to report.
MODELS, JUDGES = ("one-1", "two-1"), ("one-judge", "other-judge", "third-judge")
SEED = 20261122


def add_votes_and_judgments(run: Run) -> None:
    """Judge every answer twice by each of three judges; now and then a vote fails."""
    dice, votes = Random(SEED), []
    judges = [run.judge, *(row.endpoint for row in run.further_judges.order_by("pk"))]
    for response in Response.objects.filter(run=run).select_related("endpoint").order_by("pk"):
        first = response.endpoint.name == MODELS[0]
        Response.objects.filter(pk=response.pk).update(status=Work.Status.DONE, outcome="answered", text="Drops.")
        for rubric in response.sample.rubrics.order_by("pk"):
            truth = dice.random() < (0.25 if first else 0.5)
            by_judge = [[_vote(dice, truth, lenient=first and at == 0) for _ in range(2)] for at in range(3)]
            decided = panels.decide("majority", by_judge)
            judgment = Judgment.objects.create(
                run=run,
                response=response,
                rubric=rubric,
                verdict=decided,
                status=Work.Status.DONE if decided else Work.Status.FAILED,
                error="" if decided else panels.NO_MAJORITY,
            )
            votes += [
                Vote(
                    run=run,
                    judgment=judgment,
                    judge=judge,
                    repeat=repeat,
                    verdict=verdict,
                    status=Work.Status.DONE if verdict else Work.Status.FAILED,
                )
                for judge, verdicts in zip(judges, by_judge, strict=True)
                for repeat, verdict in enumerate(verdicts)
            ]
    Vote.objects.bulk_create(votes)


def _vote(dice: Random, truth: bool, *, lenient: bool) -> str:
    if dice.random() < 0.05:
        return ""
    if lenient and dice.random() < 0.4:
        return MET
    return NOT_MET if truth == (dice.random() < 0.85) else MET


@pytest.fixture
def folder(cached_folder: Callable[[Callable[[Path], object]], Path]) -> Path:
    """The bundle of a run with controls, three judges, repeats, a validation and paid calls.

    In the validation physicians disagree on some criteria.
    """

    def make(out: Path) -> None:
        release = with_controls(24)
        Assignment.objects.update(hold=Assignment.Hold.DONE)
        judges = [endpoint(NOWHERE, name) for name in JUDGES]
        settings = RunSettings(
            release=release,
            endpoints=[endpoint(NOWHERE, name) for name in MODELS],
            judge=judges[0],
            further_judges=judges[1:],
            answers=2,
            judgments=2,
        )
        run = services.launch_run(settings)
        add_votes_and_judgments(run)
        at = datetime(2026, 11, 22, tzinfo=UTC)
        for number, judge in enumerate(judges):
            Call.objects.create(
                job=run, subject="vote:1", endpoint=judge, model=judge.model, seconds=1.0, attempt=1,
                cost=Decimal("0.00012") * (number + 1), started_at=at,
            )  # fmt: skip
        Run.objects.filter(pk=run.pk).update(
            status=Run.Status.FINISHED, finished_at=timezone.now(), cost=Decimal("0.00072")
        )
        run.refresh_from_db()
        judges_services.start_validation(run.pk, n=60, seed=3)
        dice = Random(SEED)
        answer_queue(
            create_physicians(3),
            lambda _who, rubric, _role: "met" if (rubric % 3 > 0) == (dice.random() < 0.9) else "not-met",
        )
        assert summary.validation(run)
        bundle.export_run(run, out)

    return cached_folder(make)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The path and value of every number and boolean, and of the cost, which is text."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list):
        for at, child in enumerate(value):
            yield from leaves(child, (*path, at))
    elif isinstance(value, (int, float)) or path == ("cost",):
        yield path, value


def change_value(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of `data` in which the value at `path` is changed."""
    if not path:
        if isinstance(value, str):
            return str(Decimal(value) + 1)
        return not value if isinstance(value, bool) else value + (1 if isinstance(value, int) else 1e-3)
    changed = copy.copy(data)
    changed[path[0]] = change_value(data[path[0]], path[1:], value)
    return changed


@pytest.mark.both
def test_the_whole_report_is_recomputed(folder: Path) -> None:
    result = verify_run.check(folder)
    assert (result["faults"], result["not_recomputed"]) == ([], {})
    report = json.loads((folder / "report.json").read_text())
    assert {len(report["judges"]["pairs"]), len(report["judges"]["repeats"])} == {3}
    assert report["self_preference"]["preferences"][0]["difference"] < 0
    assert all(row["judge"] and row["answer"] is not None for row in report["repeats"]["models"])
    for model in report["validation"]["models"]:
        assert model["corrected"]["low"] < model["corrected"]["value"] < model["corrected"]["high"]
        assert model["judge"]["kappa"]["low"] < model["judge"]["kappa"]["high"]
        assert 0 < model["physicians"]["kappa"]["value"] < 1
    assert report["validation"]["third"]
    assert {rank["place"] for rank in report["ranks"]} == {1, 2}
    assert Decimal(report["cost"]) == Decimal("0.00072")


def test_a_change_of_any_number_of_the_report_is_found(folder: Path) -> None:
    """Change each number in turn; the expected report is built once because that takes seconds."""
    rows, counted = verify_run.recount(folder)
    assert rows.faults == []
    report = json.loads((folder / "report.json").read_text())

    def differences(stated: Any) -> list[str]:
        return Differences("report.json", counted["report.json"], stated).faults

    assert differences(report) == []
    numbers = list(leaves(report))
    assert len(numbers) > 500
    missed = [path for path, value in numbers if not differences(change_value(report, path, value))]
    assert missed == []
    for addition in ({"more": 1}, {"more": {"of": [1.5]}}):
        assert differences(report | addition) == ["report.json: more: does not follow from the rows"]
    assert differences(report | {"ranks": report["ranks"][1:]})


@pytest.mark.parametrize("seed", range(by_profile(2, 12)))
@pytest.mark.parametrize("name", ["report.json", "numbers.json", "claims.json"])
def test_a_changed_number_is_named(folder: Path, name: str, seed: int) -> None:
    path = folder / name
    data = json.loads(path.read_text())
    at, value = Random(f"{SEED}/{seed}").choice(list(leaves(data)))
    path.write_text(json.dumps(change_value(data, at, value)))
    update_checksums(folder)
    faults = verify_run.check(folder)["faults"]
    assert any(fault.startswith(f"{name}: ") for fault in faults), at


def _change_weight(rows: list[Any], dice: Random) -> None:
    dice.choice(rows)["weight"] += 1


def _decisive(rows: list[Any]) -> list[Any]:
    """The rows without those of adjudicators, which decide nothing where the first two agreed."""
    return [row for row in rows if row.get("role") != "adjudicator-1"]


def _change_answer(rows: list[Any], dice: Random) -> None:
    row = dice.choice(_decisive(rows))
    row["answer"] = "met" if row["answer"] == "not-met" else "not-met"


def _change_verdict(rows: list[Any], dice: Random) -> None:
    row = dice.choice([row for row in rows if row["verdict"]])
    row["verdict"] = MET if row["verdict"] == NOT_MET else NOT_MET


def _remove_row(rows: list[Any], dice: Random) -> None:
    rows.remove(dice.choice(_decisive(rows)))


def _repeat_row(rows: list[Any], dice: Random) -> None:
    rows.append(dice.choice(rows))


def _change_cost(rows: list[Any], dice: Random) -> None:
    dice.choice(rows)["cost"] = "0.5"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("validation.jsonl", _change_weight),
        ("validation.jsonl", _remove_row),
        ("physicians.jsonl", _change_answer),
        ("physicians.jsonl", _remove_row),
        ("physicians.jsonl", _repeat_row),
        ("votes.jsonl", _change_verdict),
        ("judgments.jsonl", _change_verdict),
        ("calls.jsonl", _change_cost),
        ("calls.jsonl", _remove_row),
    ],
)
def test_a_changed_row_is_named(
    folder: Path, manage: Manage, name: str, change: Callable[[list[Any], Random], None]
) -> None:
    rows = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    change(rows, Random(SEED))
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    update_checksums(folder)
    code, out, _err = manage("verify_run", folder, "--json")
    faults = json.loads(out)["faults"]
    assert code == 1
    assert all(": altered" not in fault for fault in faults)
    assert any(fault.startswith((f"{name}: ", "report.json: ")) for fault in faults), faults


def test_a_bundle_names_no_physician(folder: Path) -> None:
    text = "".join((folder / name).read_text() for name in ("physicians.jsonl", "validation.jsonl", "run.json"))
    assert "doc0" not in text
    rows = [json.loads(line) for line in (folder / "physicians.jsonl").read_text().splitlines()]
    assert {row["physician"][:6] for row in rows} == {"rater-"}
    assert len({row["physician"] for row in rows}) == 3
    assert {row["role"] for row in rows} == {"primary", "secondary", "adjudicator-1"}


def test_a_bundle_of_another_version_brings_its_own_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**settings, "format": 2}))
    update_checksums(folder)
    without = verify_run.check(folder)["faults"]
    assert without == ["run.json: format 2, and no verify_run.py that counts it again"]
    (folder / "verify_run.py").write_text("")
    with (folder / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  verify_run.py\n")
    update_checksums(folder)
    result = verify_run.check(folder)
    assert (result["faults"], result["checked"]) == ([], 0)
    assert verify_run.main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "no number was counted again" in printed
    assert "agree" not in printed
    assert [*result["not_recomputed"]] == ["bundle of format 2, which its own verify_run.py counts again"]
