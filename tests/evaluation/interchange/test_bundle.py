"""A bundle can be checked and repeated by whoever has it: every number is counted again from its rows."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evaluation import errors
from evaluation.interchange import bundle, importing, rerunning, rows
from evaluation.interchange.programs import verify_run
from evaluation.models import Run
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.jobs import life_cycle
from generation.models import Endpoint, Release, ReleasedSample
from review.models import User
from tests.engine import Manage, endpoint, evaluated, frozen
from tests.evaluation.toy import SEED, claimants, toy, toy_release

__all__ = ["claimants", "toy"]

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def run(models: str, tmp_path: Path, physicians: list[User]) -> Run:
    release = frozen(tmp_path, models, physicians[:3], conversations=2, reports=1)
    return evaluated(release, models, "sim-careful", "sim-reckless")


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    bundle.export_run(run, tmp_path / "out")
    return tmp_path / "out"


def resealed(folder: Path) -> None:
    """Write the checksums of what is there: so what was altered is found by counting alone."""
    names = [line.partition("  ")[2] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    (folder / "SHA256SUMS").write_text("".join(f"{verify_run._sha256(folder / name)}  {name}\n" for name in names))


def changed(folder: Path, name: str, change: Callable[[list[Any]], object]) -> None:
    """Change the rows of a file of JSON Lines, or of numbers.json."""
    path = folder / name
    if name.endswith(".jsonl"):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        change(found)
        path.write_text("".join(json.dumps(row) + "\n" for row in found))
    else:
        told = json.loads(path.read_text())
        change(told["rows"])
        path.write_text(json.dumps(told))


def test_every_number_agrees_without_the_site(folder: Path, manage: Manage) -> None:
    found = manage.json("verify_run", folder)
    assert (found["faults"], found["failed"]) == ([], 0)
    assert found["checked"] > 50
    done = subprocess.run(
        [sys.executable, "-I", folder / "verify_run.py"], capture_output=True, text=True, check=False, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Nothing is altered; {found['checked']} numbers agree." in done.stdout
    assert not list(folder.rglob("__pycache__"))


def test_the_same_run_gives_the_same_bytes(run: Run, folder: Path, tmp_path: Path) -> None:
    bundle.export_run(run, tmp_path / "again")
    files = sorted(path.name for path in folder.iterdir())
    assert files == sorted(path.name for path in (tmp_path / "again").iterdir())
    assert all((folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files)


def test_it_says_what_was_asked_and_by_whom(run: Run, folder: Path) -> None:
    about = json.loads((folder / "run.json").read_text())
    assert about["release"]["sha256"] == run.release.sha256
    assert (about["judge"], about["endpoints"]) == ("sim-judge", ["sim-careful", "sim-reckless"])
    assert (about["settings"]["seed"], about["settings"]["judge_temperature"]) == (0, 0.5)
    prompts = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
    assert [each["role"] for each in prompts] == ["target", "judge", "target", "target", "judge"]
    assert prompts[0]["messages"][-1]["role"] == "user"
    responses = [json.loads(line) for line in (folder / "responses.jsonl").read_text().splitlines()]
    assert len(responses) == 6
    assert {each["reported_model"] for each in responses} == {"sim-careful", "sim-reckless"}
    assert all(each["text"] for each in responses)


@pytest.mark.parametrize("name", ["run.json", "judgments.jsonl", "numbers.json", "verify_run.py", "report.json"])
def test_what_was_altered_is_named(folder: Path, manage: Manage, name: str) -> None:
    with (folder / name).open("a") as file:
        file.write("\n")
    code, out, _err = manage("verify_run", folder, "--json")
    assert code == 1
    assert f"{name}: altered" in json.loads(out)["faults"]
    (folder / name).unlink()
    (folder / "new.txt").touch()
    faults = verify_run.check(folder)["faults"]
    assert {f"{name}: missing", "new.txt: not part of the bundle"} <= set(faults)
    assert verify_run.main([str(folder)]) == 1


def test_no_bundle_is_no_traceback(tmp_path: Path, manage: Manage) -> None:
    assert "There is no run to check" in manage.refused("verify_run", tmp_path)
    assert verify_run.main([str(tmp_path)]) == 2


def flip(found: list[Any]) -> None:
    found[0]["verdict"] = "met" if found[0]["verdict"] == "not_met" else "not_met"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("judgments.jsonl", flip, "sim-careful, dialogue: the verdicts are"),
        ("judgments.jsonl", lambda found: found.pop(), "the verdicts are"),
        ("judgments.jsonl", lambda found: found.append(found[0]), "twice"),
        ("judgments.jsonl", lambda found: found[0].update(rubric="R9"), "not a rubric of the release"),
        ("judgments.jsonl", lambda found: found[0].update(repeat=4), "no such response"),
        ("responses.jsonl", lambda found: found[0].update(outcome="refused"), "outcomes of sim-careful"),
        ("responses.jsonl", lambda found: found.append(found[0]), "twice"),
        ("samples.jsonl", lambda found: found[0]["rubrics"][0]["facets"].update(subtype=["E1"]), "subtype"),
        ("numbers.json", lambda found: found.pop(), "missing"),
        ("numbers.json", lambda found: found[0]["rates"]["hallucination_rate"].update(numerator=99), "numerator is"),
        ("numbers.json", lambda found: found[0]["rates"]["hallucination_rate"].update(value=0.123), "value is"),
        ("numbers.json", lambda found: found[0]["rates"].clear(), "not the rates of run.json"),
    ],
)
def test_a_number_that_does_not_follow_is_named(
    folder: Path, name: str, change: Callable[[list[Any]], object], said: str
) -> None:
    changed(folder, name, change)
    resealed(folder)
    faults = verify_run.check(folder)["faults"]
    assert faults
    assert all(": altered" not in fault for fault in faults)
    assert any(said in fault for fault in faults), faults


def test_answers_read_by_code(toy: None, claimants: str, tmp_path: Path) -> None:
    """Several variants that are not pooled, weights, and outcomes of empty answers."""
    made = services.launch_run(
        RunSettings(toy_release(9), [endpoint(claimants, "sim-careful"), endpoint(claimants, "m")], seed=SEED)
    )
    work.work_on_run(made.pk)
    made.refresh_from_db()
    bundle.export_run(made, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [one["name"] for one in about["protocol"]["datasets"]] == ["plain", "hinted"]
    assert about["settings"]["seed"] == SEED


def test_what_is_held_out_keeps_its_texts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdicts are there, so that every number can be counted."""
    release = bare_release_with_held_out(run)
    path = tmp_path / "results.jsonl"
    path.write_text("".join(
        json.dumps({"sample": key, "rubric": "R1", "model": "m", "met": False, "response": f"Of {key}.", "explanation": key})
        + "\n" for key in ("open", "closed")
    ))  # fmt: skip
    made = importing.import_results(rows.read(path), release=release, study="s").run
    assert made is not None
    bundle.export_run(made, tmp_path / "out")
    text = (tmp_path / "out" / "responses.jsonl").read_text() + (tmp_path / "out" / "judgments.jsonl").read_text()
    assert "Of open." in text
    assert "Of closed." not in text
    assert text.count('"withheld":true') == 2
    assert verify_run.check(tmp_path / "out")["faults"] == []
    bundle.export_run(made, tmp_path / "whole", with_held_out=True)
    assert "Of closed." in (tmp_path / "whole" / "responses.jsonl").read_text()


def bare_release_with_held_out(run: Run) -> Release:
    old = run.release
    first = old.samples.select_related("version").first()
    assert first is not None
    fields = {each.attname: getattr(old, each.attname) for each in Release._meta.concrete_fields}
    release = Release.objects.create(**{**fields, "id": None, "name": "apart"})
    for at, (key, split) in enumerate((("open", "public"), ("closed", "held-out"))):
        sample = ReleasedSample.objects.create(
            release=release,
            position=at,
            version=first.version,
            key=key,
            task="dialogue",
            exported=first.exported,
            split=split,
        )
        sample.rubrics.create(key="R1", criterion="Says so.", traps=["A1"])
    return release


def test_a_run_at_work_has_no_bundle(run: Run, tmp_path: Path) -> None:
    Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING)
    run.refresh_from_db()
    with pytest.raises(errors.RunNotFinished):
        bundle.export_run(run, tmp_path / "out")


# ---------------------------------------------------------------------------------------------------------------- again


def test_rerun_asks_anew_with_the_same_settings(run: Run, folder: Path, manage: Manage) -> None:
    said = manage.json("rerun", folder, "--yes", "--wait")
    again = Run.objects.get(pk=said["run"])
    assert again.pk != run.pk
    assert (said["responses_done"], said["status"], said["differences"]) == (6, "finished", [])
    assert (again.release, again.judge, again.seed, again.fresh) == (run.release, run.judge, run.seed, True)
    assert again.calls == run.calls
    Endpoint.objects.filter(name="sim-careful").update(temperature=0.25)
    repeat = rerunning.repeat_of(folder)
    assert repeat.differences == ("sim-careful: temperature 0.25, then None",)


def test_rerun_needs_a_budget_the_release_and_the_endpoints(folder: Path, run: Run, manage: Manage) -> None:
    code, out, _err = manage("rerun", folder, "--json")
    assert (code, Run.objects.count()) == (1, 1)
    assert json.loads(out)["calls"] > 6
    Endpoint.objects.filter(name="sim-reckless").update(name="another")
    assert "sim-reckless" in manage.refused("rerun", folder, "--yes")
    about = json.loads((folder / "run.json").read_text())
    about["release"]["sha256"] = "f" * 64
    (folder / "run.json").write_text(json.dumps(about))
    assert "does not have the release" in manage.refused("rerun", folder, "--yes")
    (folder / "run.json").write_text("{}")
    assert "no bundle" in manage.refused("rerun", folder, "--yes")
    about["origin"] = "imported"
    (folder / "run.json").write_text(json.dumps(about))
    assert "was imported" in manage.refused("rerun", folder, "--yes")
    assert life_cycle.is_running(run.pk) is False
