"""A bundle can be checked and repeated by anyone who has it: every number is counted again from its rows."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from evaluation import errors
from evaluation import panel as panels
from evaluation.interchange import bundle, importing, rerunning, rows
from evaluation.interchange.programs import verify_files, verify_run
from evaluation.models import Judgment, Response, Run
from evaluation.runs import adding, queries, services, work
from evaluation.runs.settings import RunSettings
from generation.jobs import life_cycle
from generation.models import Endpoint, Release, ReleasedSample
from tests.conftest import PHYSICIANS, cast
from tests.engine import Manage, bare_release, endpoint, evaluated, frozen
from tests.evaluation.reports.test_counting import with_controls
from tests.evaluation.runs.test_panels import says, worked
from tests.evaluation.test_metrics import judged as judged_by
from tests.evaluation.test_pages import judged
from tests.evaluation.toy import SEED, claimants, toy, toy_release
from tests.generation.llm.helpers import endpoint as answering
from tests.populations import population

__all__ = ["claimants", "toy"]

pytestmark = pytest.mark.django_db


@population
def made(folder: Path, models: str) -> tuple[Run, Path]:
    release = frozen(folder, models, cast(*PHYSICIANS[:3]), conversations=2, reports=1)
    run = evaluated(release, models, "sim-careful", "sim-reckless")
    bundle.export_run(run, folder / "out")
    return run, folder / "out"


@pytest.fixture
def run(made: tuple[Run, Path]) -> Run:
    return made[0]


@pytest.fixture
def folder(made: tuple[Run, Path], tmp_path: Path) -> Path:
    """The bundle of `run`."""
    return Path(shutil.copytree(made[1], tmp_path / "out"))


MadeOnce = Callable[[Callable[[Path], object]], Path]


def resealed(folder: Path) -> None:
    """Write the checksums of what is there: so what was altered is found by counting alone."""
    names = [line.partition("  ")[2] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    (folder / "SHA256SUMS").write_text("".join(f"{verify_files.sha256(folder / name)}  {name}\n" for name in names))


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


@pytest.mark.both
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


@pytest.mark.both
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
        RunSettings(
            toy_release(48), [endpoint(claimants, "sim-careful"), endpoint(claimants, "sim-average")], seed=SEED
        )
    )
    work.work_on_run(made.pk)
    made.refresh_from_db()
    bundle.export_run(made, tmp_path / "out")
    found = verify_run.check(tmp_path / "out")
    assert found["faults"] == []
    told = json.loads((tmp_path / "out" / "numbers.json").read_text())
    drawn = [rate for row in told["rows"] for rate in row["rates"].values() if rate["method"] == "cluster-bootstrap"]
    assert found["not_recomputed"] == {}
    assert [rate for rate in drawn if rate["low"] < rate["value"] < rate["high"]]
    compared = [each for each in told["comparisons"] if each["rate"] in bootstrapped(tmp_path / "out")]
    assert [each for each in compared if each["p"] is not None]
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [one["name"] for one in about["protocol"]["datasets"]] == ["plain", "hinted"]
    assert about["settings"]["seed"] == SEED


def bootstrapped(folder: Path) -> set[str]:
    """The rates whose intervals are drawn."""
    rates = json.loads((folder / "run.json").read_text())["protocol"]["rates"]
    return {rate["name"] for rate in rates if rate["interval"] == "bootstrap"}


def test_a_changed_drawn_interval_is_named(toy: None, claimants: str, tmp_path: Path) -> None:
    made = services.launch_run(
        RunSettings(
            toy_release(48), [endpoint(claimants, "sim-careful"), endpoint(claimants, "sim-average")], seed=SEED
        )
    )
    work.work_on_run(made.pk)
    made.refresh_from_db()
    out = tmp_path / "out"
    bundle.export_run(made, out)
    told = json.loads((out / "numbers.json").read_text())
    drawn = next(
        rate for row in told["rows"] for rate in row["rates"].values() if rate["method"] == "cluster-bootstrap"
    )
    drawn["low"] -= 0.001
    of = next(each for each in told["comparisons"] if each["rate"] in bootstrapped(out) and each["p"] is not None)
    of["p"] /= 2
    gained = next(each for each in told["changes"] if each["endpoint"] and each["low"] is not None)
    mean = next(each for each in told["changes"] if not each["endpoint"])
    gained["moves"]["fixed"] += 1
    gained["low"] -= 0.01
    mean["gain"] += 0.01
    told["changes"].remove(next(each for each in told["changes"] if each not in (gained, mean)))
    (out / "numbers.json").write_text(json.dumps(told))
    resealed(out)
    faults = verify_run.check(out)["faults"]
    assert any("low is" in fault for fault in faults)
    assert any("comparison of" in fault and ": p is" in fault for fault in faults)
    for said in ("moves is", "low is", "gain is", "clusters is"):
        assert any("change What the hint adds" in fault and said in fault for fault in faults), faults


# ------------------------------------------------------------------------------------------- panels, controls, outcomes


def about_of(folder: Path, change: Callable[[Any], object]) -> None:
    """Change run.json."""
    about = json.loads((folder / "run.json").read_text())
    change(about)
    (folder / "run.json").write_text(json.dumps(about))


@pytest.fixture
def panel(db: None, made_once: MadeOnce) -> Path:
    """The bundle of a run whose third judge disagrees; each judges twice."""

    def make(out: Path) -> None:
        release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
        with answering("An answer.") as target, answering(says(True)) as one, answering(says(False)) as two:
            run = worked(release, target.url, [("a", one.url), ("b", one.url), ("c", two.url)], judgments=2)
        bundle.export_run(run, out)

    return made_once(make)


def test_a_panel_decides_again(panel: Path) -> None:
    found = verify_run.check(panel)
    assert found["faults"] == []
    about = json.loads((panel / "run.json").read_text())
    assert (about["panel"], about["judge"], about["further_judges"]) == ("majority", "a", ["b", "c"])
    assert about["settings"]["judgments"] == 2
    votes = [json.loads(line) for line in (panel / "votes.jsonl").read_text().splitlines()]
    assert len(votes) == 2 * 2 * 3 * 2
    assert {(row["judge"], row["verdict"]) for row in votes} == {("a", "met"), ("b", "met"), ("c", "not_met")}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("votes.jsonl", lambda found: found[0].update(verdict="not_met"), "the panel decides nothing, not met"),
        ("votes.jsonl", lambda found: found[0].update(verdict=""), "the panel decides nothing, not met"),
        ("votes.jsonl", lambda found: found.pop(), "votes are missing"),
        ("votes.jsonl", lambda found: found.clear(), "votes are missing"),
        ("votes.jsonl", lambda found: found.append(found[0]), "twice"),
        ("votes.jsonl", lambda found: found[0].update(judge="d"), "no such judgment or judge"),
        ("judgments.jsonl", flip, "the panel decides met, not not_met"),
    ],
)
def test_a_changed_vote_is_named(panel: Path, name: str, change: Callable[[list[Any]], object], said: str) -> None:
    changed(panel, name, change)
    resealed(panel)
    faults = verify_run.check(panel)["faults"]
    assert any(said in fault for fault in faults), faults


def test_what_no_judge_was_asked_about_has_no_votes(db: None, tmp_path: Path) -> None:
    release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
    with answering("An answer.") as target, answering(says(True)) as one:
        run = worked(release, target.url, [("a", one.url), ("b", one.url)], outcomes=["answered=not_met"])
    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
    assert (tmp_path / "out" / "votes.jsonl").read_text() == ""
    told = json.loads((tmp_path / "out" / "numbers.json").read_text())
    assert told["rows"][0]["rates"]["hallucination_rate"]["numerator"] == 4


def test_another_rule_is_another_decision(panel: Path) -> None:
    about_of(panel, lambda about: about.update(panel="unanimity"))
    resealed(panel)
    faults = verify_run.check(panel)["faults"]
    assert len([fault for fault in faults if "the panel decides nothing, not met" in fault]) == 4


@pytest.mark.plain
@pytest.mark.parametrize("rule", ["majority", "unanimity", "escalation"])
def test_the_program_decides_as_the_panel_does(rule: str) -> None:
    kinds = ["met", "not_met", ""]
    own = [list(each) for each in [*product(kinds, repeat=1), *product(kinds, repeat=2)]]
    for votes in [*product(own, repeat=1), *product(own, repeat=2), *product(own, repeat=3)]:
        assert verify_run.decide(rule, votes) == panels.decide(rule, votes)


@pytest.mark.both
def test_controls_polarity_and_shared_records(db: None, tmp_path: Path) -> None:
    """Trap and control samples come from the same records: each arm is counted for itself."""
    run = judged_by(with_controls(12), one=lambda at, _rubric: "met" if at % 3 else "not_met", two=lambda *_: "met")
    bundle.export_run(run, tmp_path / "out")
    found = verify_run.check(tmp_path / "out")
    assert found["faults"] == []
    samples = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_text().splitlines()]
    assert (len({each["cluster"] for each in samples}), len(samples)) == (12, 24)
    assert {each["arm"] for each in samples} == {"trap", "control"}
    rates = {
        rate["name"]: rate for rate in json.loads((tmp_path / "out" / "run.json").read_text())["protocol"]["rates"]
    }
    assert (rates["over_suspicion"]["arm"], rates["over_suspicion"]["polarity"]) == ("control", "must not")
    changed(
        tmp_path / "out",
        "samples.jsonl",
        lambda rows: rows[0].update(arm="trap" if rows[0]["arm"] == "control" else "control"),
    )
    resealed(tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"]


@pytest.fixture
def excluded(db: None, made_once: MadeOnce) -> Path:
    """The bundle of a run that leaves refusals out, with intervals, bounds and samples of two criteria."""

    def make(out: Path) -> None:
        run = judged(bare_release(*[("dialogue", [["A1"], ["C2"]])] * 14), "one", "two")
        for response in Response.objects.filter(run=run, endpoint__name="one").order_by("pk")[:3]:
            Response.objects.filter(pk=response.pk).update(outcome="refused")
        run.plan["outcomes"]["refused"] = "excluded"
        run.save(update_fields=["plan"])
        assert Judgment.objects.filter(run=run, response__outcome="refused").exclude(verdict="").exists()
        bundle.export_run(run, out)

    return made_once(make)


def test_an_excluded_outcome_is_left_out_again(excluded: Path) -> None:
    found = verify_run.check(excluded)
    assert found["faults"] == []
    assert found["not_recomputed"] == {}
    told = json.loads((excluded / "numbers.json").read_text())
    rates = told["rows"][0]["rates"]["hallucination_rate"]
    assert (rates["method"], rates["clusters"]) == ("clustered-wilson", 11)
    assert rates["bounds"]["best"] < rates["value"] < rates["bounds"]["worst"]
    [refused] = [each for each in told["outcomes"] if each["kind"] == "refused"]
    assert (refused["rule"], refused["responses"], refused["criteria"], refused["counted"]) == ("excluded", 3, 6, 0)


@pytest.mark.parametrize("rule", ["judged", "not_met"])
def test_a_changed_rule_is_named(excluded: Path, rule: str) -> None:
    about_of(excluded, lambda about: about["plan"]["outcomes"].update(refused=rule))
    resealed(excluded)
    faults = verify_run.check(excluded)["faults"]
    assert any("one, dialogue, hallucination_rate: excluded is" in fault for fault in faults), faults
    assert any("outcomes of one, dialogue, refused: rule is" in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rate: rate.update(low=rate["low"] + 0.001), "hallucination_rate: low is"),
        (lambda rate: rate.update(high=None), "hallucination_rate: high is"),
        (lambda rate: rate.update(method="cluster-bootstrap", low=0.0), "hallucination_rate: method is"),
        (lambda rate: rate.update(clusters=99), "hallucination_rate: clusters is"),
        (lambda rate: rate["bounds"].update(high=1.0), "hallucination_rate: bounds is"),
    ],
)
def test_a_changed_interval_is_named(excluded: Path, change: Callable[[Any], object], said: str) -> None:
    changed(excluded, "numbers.json", lambda found: change(found[0]["rates"]["hallucination_rate"]))
    resealed(excluded)
    faults = verify_run.check(excluded)["faults"]
    assert len(faults) >= 1
    assert any(said in fault for fault in faults), faults


@pytest.mark.parametrize("name", ["difference", "low", "high", "p", "p_adjusted", "odds_ratio", "cohens_h"])
def test_a_changed_comparison_is_named(excluded: Path, name: str) -> None:
    told = json.loads((excluded / "numbers.json").read_text())
    changed_row = next(each for each in told["comparisons"] if each[name] is not None)
    changed_row[name] += 0.01
    (excluded / "numbers.json").write_text(json.dumps(told))
    resealed(excluded)
    [fault] = verify_run.check(excluded)["faults"]
    assert "comparison of one and two, dialogue" in fault
    assert f"{name} is" in fault


@pytest.mark.parametrize("of_facet", [False, True])
def test_a_comparison_that_was_taken_away_is_named(excluded: Path, of_facet: bool) -> None:
    told = json.loads((excluded / "numbers.json").read_text())
    gone = next(each for each in told["comparisons"] if bool(each["facet"]) is of_facet)
    told["comparisons"].remove(gone)
    (excluded / "numbers.json").write_text(json.dumps(told))
    resealed(excluded)
    faults = verify_run.check(excluded)["faults"]
    assert any("comparison of one and two" in fault and "missing" in fault for fault in faults), faults


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


@pytest.mark.both
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


def test_rerun_repeats_panel_plan_and_repeats(db: None, tmp_path: Path) -> None:
    release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
    with answering("An answer.") as target, answering(says(True)) as one:
        run = worked(
            release, target.url, [("gpt-1", one.url), ("other-3", one.url), ("gpt-2", one.url)],
            panel="escalation", answers=2, judgments=3, metric="samples_failed", outcomes=["refused=excluded"], minimum=12,
        )  # fmt: skip
        bundle.export_run(run, tmp_path / "out")
        assert verify_run.check(tmp_path / "out")["faults"] == []
        again = services.launch_run(rerunning.repeat_of(tmp_path / "out").settings)
        work.work_on_run(again.pk)
    again.refresh_from_db()
    assert again.plan == run.plan
    assert again.plan["minimum"] == 12
    assert queries.judges_of(again) == queries.judges_of(run)
    assert (again.panel, again.answers_each, again.judgments_each) == ("escalation", 2, 3)
    assert again.calls == run.calls
    new = endpoint(target.url, "m-2")
    assert adding.check_model(again, new).judgments_a_criterion == 3 * 3  # and what is added is judged alike


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
