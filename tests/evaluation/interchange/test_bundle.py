"""Anyone who has a bundle can check and repeat the run: every number is recounted from its rows."""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from evaluation import errors, registry
from evaluation.interchange import bundle, importing, rerunning, rows
from evaluation.interchange.programs import files, modules, verify_run
from evaluation.interchange.programs.bundle_rows import rows_twice
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import Ask, Sample
from evaluation.runs import adding, queries, services, work
from evaluation.runs.settings import RunSettings
from generation.jobs import life_cycle
from generation.llm.types import SIMULATOR_FINGERPRINT, Message
from generation.models import Call, Endpoint, Release, ReleasedSample
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, bare_release, endpoint, evaluate_release, make_release
from tests.evaluation.reports.test_counting import with_controls
from tests.evaluation.runs.test_panels import panel_run, verdict_reply
from tests.evaluation.test_metrics import run_with_verdicts
from tests.evaluation.test_pages import judged_run
from tests.evaluation.toy import SEED, claimants, toy, toy_release
from tests.generation.llm.helpers import fake_endpoint
from tests.populations import population

__all__ = ["claimants", "toy"]

pytestmark = pytest.mark.django_db


@population
def exported(folder: Path, models: str) -> tuple[Run, Path]:
    release = make_release(folder, models, accounts_of(*PHYSICIANS[:3]), conversations=2, reports=1)
    run = evaluate_release(release, models, "sim-careful", "sim-reckless")
    bundle.export_run(run, folder / "out")
    return run, folder / "out"


CHECK = Path(verify_run.__file__).parents[3] / "check"


@pytest.fixture
def run(exported: tuple[Run, Path]) -> Run:
    return exported[0]


@pytest.fixture
def folder(exported: tuple[Run, Path], tmp_path: Path) -> Path:
    """A copy of the bundle of `run`."""
    return Path(shutil.copytree(exported[1], tmp_path / "out"))


CachedFolder = Callable[[Callable[[Path], object]], Path]


def rows_in(folder: Path, name: str) -> list[Any]:
    """The rows of a file of JSON Lines."""
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def document(folder: Path, name: str = "run.json") -> Any:
    return json.loads((folder / name).read_text())


def change_document(folder: Path, change: Callable[[Any], object], name: str = "run.json") -> None:
    content = document(folder, name)
    change(content)
    (folder / name).write_text(json.dumps(content))


def update_checksums(folder: Path) -> None:
    """Write the checksums of the changed files, so that only recounting can reveal the changes."""
    names = [line.partition("  ")[2] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    (folder / "SHA256SUMS").write_text("".join(f"{files.sha256(folder / name)}  {name}\n" for name in names))


def change_rows(folder: Path, name: str, change: Callable[[list[Any]], object]) -> None:
    """Change the rows of a JSON Lines file, or of numbers.json."""
    if name.endswith(".jsonl"):
        rows = rows_in(folder, name)
        change(rows)
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        change_document(folder, lambda numbers: change(numbers["rows"]), name)


def faults_in(folder: Path) -> list[str]:
    """The faults of a changed bundle with right checksums."""
    update_checksums(folder)
    faults: list[str] = verify_run.check(folder)["faults"]
    assert all(": altered" not in fault for fault in faults)
    return faults


@pytest.mark.both
def test_every_number_agrees_when_checked_without_the_site(folder: Path, manage: Manage) -> None:
    result = manage.json("verify_run", folder)
    assert (result["faults"], result["failed"]) == ([], 0)
    assert result["checked"] > 50
    without_the_site = (
        "import runpy, sys; sys.modules |= dict.fromkeys(['django', 'pydantic', 'rest_framework', 'openai']);"
        f"sys.path.insert(0, {str(CHECK)!r}); sys.argv = ['mhb-check', {str(folder)!r}];"
        "runpy.run_module('mhb_check', run_name='__main__')"
    )
    process = subprocess.run(
        [sys.executable, "-I", "-c", without_the_site], capture_output=True, text=True, check=False, cwd="/"
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert f"Nothing is altered; {result['checked']} numbers agree." in process.stdout
    assert "These numbers belong to" not in process.stdout


def test_the_distribution_has_every_module_that_counts() -> None:
    project = tomllib.loads((CHECK / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == modules.VERSION
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    sources = [(CHECK / source).resolve() for source in included]
    for path in modules.paths(CHECK.parent):
        assert any(path == source or source in path.parents for source in sources), path


@pytest.mark.both
def test_the_same_run_gives_the_same_bytes(run: Run, folder: Path, tmp_path: Path) -> None:
    bundle.export_run(run, tmp_path / "again")
    first, again = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (folder, tmp_path / "again")
    )
    assert first == again


def test_a_bundle_has_the_settings_prompts_and_responses(run: Run, folder: Path) -> None:
    settings = document(folder)
    assert settings["release"]["sha256"] == run.release.sha256
    assert (settings["judge"], settings["endpoints"]) == ("sim-judge", ["sim-careful", "sim-reckless"])
    assert (settings["settings"]["seed"], settings["settings"]["judge_temperature"]) == (0, 0.5)
    prompts = rows_in(folder, "prompts.jsonl")
    assert [prompt["role"] for prompt in prompts] == ["target", "judge", "target", "target", "judge"]
    assert prompts[0]["messages"][-1]["role"] == "user"
    responses = rows_in(folder, "responses.jsonl")
    assert len(responses) == 6
    assert {response["reported_model"] for response in responses} == {"sim-careful", "sim-reckless"}
    assert all(response["text"] for response in responses)


def own_format(_sample: Sample, ask: Ask, model: str) -> Ask:
    if model != "sim-reckless":
        return ask
    return replace(ask, messages=(*ask.messages, Message("user", "In my own format.")))


def test_a_bundle_has_the_question_in_the_format_of_each_model(run: Run) -> None:
    """As those of MedHal's variant `own`."""
    protocol = replace(registry.protocol(run.release.benchmark), ask_model=own_format)
    asked = [row for row in bundle._prompts(run, protocol, True) if row["role"] == "target"]
    assert [row["models"] for row in asked] == [["sim-careful"], ["sim-reckless"]] * 3
    assert [row["messages"][-1]["content"] == "In my own format." for row in asked] == [False, True] * 3


def test_a_bundle_says_what_made_it_and_when_each_answer_came(run: Run, folder: Path) -> None:
    made_with = document(folder)["made_with"]
    assert made_with["libraries"] == {name: version(name) for name in ("numpy", "polars", "scipy", "openai", "django")}
    assert made_with["mhb"]
    rows = rows_in(folder, "responses.jsonl")
    paid = {(row["model"], row["sample"]): row["replied_at"] for row in rows}
    assert {(row["system_fingerprint"], row["reused"]) for row in rows} == {(SIMULATOR_FINGERPRINT, False)}
    first = Response.objects.select_related("call", "endpoint", "sample").filter(run=run).first()
    assert first is not None
    assert first.call is not None
    assert paid[first.endpoint.name, first.sample.key] == first.call.started_at.isoformat()
    replies, judged = rows_in(folder, "judge_replies.jsonl"), rows_in(folder, "judgments.jsonl")
    named = ("model", "sample", "variant", "repeat", "rubric")
    assert sorted([row[name] for name in named] for row in replies) == sorted(
        [row[name] for name in named] for row in judged
    )
    versions = {(row["judge"], row["vote"], row["system_fingerprint"], row["reused"]) for row in replies}
    assert versions == {("sim-judge", 0, SIMULATOR_FINGERPRINT, False)}
    [call] = Call.objects.filter(job=run, subject=f"judgment:{first.judgments.order_by('pk')[0].pk}")
    assert call.started_at.isoformat() in {row["replied_at"] for row in replies}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("responses.jsonl", lambda rows: rows[0].update(text="Another answer.")),
        ("judgments.jsonl", lambda rows: rows[0].update(explanation="Another reason.")),
        ("prompts.jsonl", lambda rows: rows[0].update(temperature=1.5)),
        ("run.json", lambda about: about.update(created_at="2020-01-01T00:00:00+00:00")),
    ],
)
def test_this_site_knows_the_bundles_that_it_wrote(
    folder: Path, manage: Manage, name: str, change: Callable[[Any], object]
) -> None:
    """What no number depends on can be altered, and the checksums with it."""
    if name.endswith(".jsonl"):
        change_rows(folder, name, change)
    else:
        change_document(folder, change)
    assert faults_in(folder) == []
    [fault] = json.loads(manage("verify_run", folder, "--json")[1])["faults"]
    assert "never with these checksums" in fault


@pytest.mark.parametrize("name", ["run.json", "judgments.jsonl", "numbers.json", "report.json"])
def test_an_altered_file_is_named(folder: Path, manage: Manage, name: str) -> None:
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


@pytest.mark.parametrize("text", ["{", "[]", '{"claims": null}', '{"claims": []}', '{"claims": [{"name": 1}, 2]}'])
def test_claims_that_cannot_be_read_are_named(folder: Path, text: str) -> None:
    (folder / "claims.json").write_text(text)
    faults = verify_run.check(folder)["faults"]
    assert any("cannot be read (ValueError claims.json: " in fault for fault in faults)


@pytest.mark.parametrize("text", ["{", "[]\n", "\xff"])
def test_prompts_that_cannot_be_read_stop_no_count(folder: Path, text: str) -> None:
    whole = verify_run.check(folder)["checked"]
    path = folder / "prompts.jsonl"
    path.write_bytes(text.encode("latin-1"))
    result = verify_run.check(folder)
    assert result["checked"] == whole
    assert any(fault.startswith("prompts.jsonl: cannot be read") for fault in result["faults"])
    path.unlink()
    assert verify_run.check(folder) == {**result, "faults": ["prompts.jsonl: missing"]}


def test_rows_are_twice_by_each_column(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    rows = [{"endpoint": "a b", "model": "c"}, {"endpoint": "a", "model": "b c"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    assert list(rows_twice(path, ("endpoint", "model"))) == ["calls.jsonl: a b c: twice"]


def test_a_bundle_that_was_counted_otherwise_names_another_version(folder: Path) -> None:
    """0.4.0 counted withdrawn samples among oddities, unread verdicts and votes."""
    change_document(folder, lambda run: run["check"].update(version="0.4.0", sha256="0" * 64))
    said = verify_run.other_program(folder, CHECK.parent)
    assert said.startswith("These numbers belong to mhb-check 0.4.0 (")
    assert "this is 0.4.0" not in said


def test_checking_a_folder_without_a_bundle_gives_an_error_message(tmp_path: Path, manage: Manage) -> None:
    assert "There is no run to check" in manage.refusal("verify_run", tmp_path)
    assert verify_run.main([str(tmp_path)]) == 2


def flip(rows: list[Any]) -> None:
    rows[0]["verdict"] = "met" if rows[0]["verdict"] == "not_met" else "not_met"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("judgments.jsonl", flip, "sim-careful, dialogue, verdicts: met is"),
        ("judgments.jsonl", lambda rows: rows.pop(), "verdicts: "),
        ("judgments.jsonl", lambda rows: rows.append(rows[0]), "twice"),
        ("judgments.jsonl", lambda rows: rows[0].update(rubric="R9"), "not a rubric of the release"),
        ("judgments.jsonl", lambda rows: rows[0].update(repeat=4), "no such response"),
        ("responses.jsonl", lambda rows: rows[0].update(outcome="refused"), "outcomes, sim-careful"),
        ("responses.jsonl", lambda rows: rows.append(rows[0]), "twice"),
        ("samples.jsonl", lambda rows: rows[0]["rubrics"][0]["facets"].update(subtype=["E1"]), "subtype"),
        ("numbers.json", lambda rows: rows.pop(), "missing"),
        (
            "numbers.json",
            lambda rows: rows[0]["rates"]["hallucination_rate"].update(numerator=99),
            "hallucination_rate: numerator is",
        ),
        ("numbers.json", lambda rows: rows[0]["rates"]["hallucination_rate"].update(value=0.123), "value is"),
        ("numbers.json", lambda rows: rows[0]["rates"].clear(), "sim-careful, dialogue, hallucination_rate: missing"),
    ],
)
def test_a_number_that_contradicts_the_rows_is_named(
    folder: Path, name: str, change: Callable[[list[Any]], object], message: str
) -> None:
    change_rows(folder, name, change)
    faults = faults_in(folder)
    assert any(message in fault for fault in faults), faults


@pytest.fixture
def toy_bundle(db: None, toy: None, claimants: str, tmp_path: Path) -> Path:
    """The bundle of a run without a judge, with variants, weights and empty answers."""
    models = [endpoint(claimants, "sim-careful"), endpoint(claimants, "sim-average")]
    run = services.launch_run(RunSettings(release=toy_release(48), endpoints=models, seed=SEED))
    work.work_on_run(run.pk)
    run.refresh_from_db()
    bundle.export_run(run, tmp_path / "out")
    return tmp_path / "out"


def test_the_bundle_of_a_run_without_a_judge_agrees(toy_bundle: Path) -> None:
    result = verify_run.check(toy_bundle)
    assert result["faults"] == []
    numbers = document(toy_bundle, "numbers.json")
    no_shares = rates_that_are_no_shares(toy_bundle)
    measured = [rate for row in numbers["rows"] for name, rate in row["rates"].items() if name in no_shares]
    assert result["not_recomputed"] == {}
    assert [rate for rate in measured if rate["low"] is not None and rate["low"] < rate["value"] < rate["high"]]
    compared = [row for row in numbers["comparisons"] if row["rate"] in no_shares]
    assert [row for row in compared if row["p"] is not None]
    settings = document(toy_bundle)
    assert [dataset["name"] for dataset in settings["protocol"]["datasets"]] == ["plain", "hinted"]
    assert settings["settings"]["seed"] == SEED


def rates_that_are_no_shares(folder: Path) -> set[str]:
    """The rates that are no plain shares, such as F1."""
    rates = document(folder)["protocol"]["rates"]
    return {rate["name"] for rate in rates if 2 in rate["hits"].values()}


def test_a_changed_interval_of_such_a_rate_is_named(toy_bundle: Path) -> None:
    numbers, no_shares = document(toy_bundle, "numbers.json"), rates_that_are_no_shares(toy_bundle)
    rates = [rate for row in numbers["rows"] for name, rate in row["rates"].items() if name in no_shares]
    next(rate for rate in rates if rate["low"] is not None)["low"] -= 0.001
    compared = (row for row in numbers["comparisons"] if row["rate"] in no_shares and row["p"] is not None)
    next(compared)["p"] /= 2
    of_model = next(row for row in numbers["changes"] if row["endpoint"] and row["low"] is not None)
    mean = next(row for row in numbers["changes"] if not row["endpoint"])
    of_model["moves"]["fixed"] += 1
    of_model["low"] -= 0.01
    mean["gain"] += 0.01
    numbers["changes"].remove(next(row for row in numbers["changes"] if row not in (of_model, mean)))
    (toy_bundle / "numbers.json").write_text(json.dumps(numbers))
    faults = faults_in(toy_bundle)
    assert any("low is" in fault for fault in faults)
    assert any("comparison of" in fault and ": p is" in fault for fault in faults)
    for message in ("moves: fixed is", "low is", "gain is", ": missing"):
        assert any("change What the hint adds" in fault and message in fault for fault in faults), faults


# ----------------------------------------------------------------------- panels, controls, outcomes


@pytest.fixture
def panel(db: None, cached_folder: CachedFolder) -> Path:
    """The bundle of a run with three judges of whom the third disagrees; each judges twice."""

    def make(out: Path) -> None:
        release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
        with (
            fake_endpoint("An answer.") as target,
            fake_endpoint(verdict_reply(True)) as one,
            fake_endpoint(verdict_reply(False)) as two,
        ):
            run = panel_run(release, target.url, [("a", one.url), ("b", one.url), ("c", two.url)], judgments=2)
        bundle.export_run(run, out)

    return cached_folder(make)


def test_the_votes_of_a_panel_are_in_the_bundle(panel: Path) -> None:
    result = verify_run.check(panel)
    assert result["faults"] == []
    settings = document(panel)
    assert (settings["panel"], settings["judge"], settings["further_judges"]) == ("majority", "a", ["b", "c"])
    assert settings["settings"]["judgments"] == 2
    votes = rows_in(panel, "votes.jsonl")
    assert len(votes) == 2 * 2 * 3 * 2
    own = {"judge", "vote", "status", "verdict", "error", "explanation", "warm"}
    assert votes[0].keys() == {"model", "sample", "variant", "repeat", "rubric", *own}  # and no key of the database
    assert {(row["judge"], row["verdict"]) for row in votes} == {("a", "met"), ("b", "met"), ("c", "not_met")}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("votes.jsonl", lambda rows: rows[0].update(verdict="not_met"), "the panel decides nothing, not met"),
        ("votes.jsonl", lambda rows: rows[0].update(verdict=""), "the panel decides nothing, not met"),
        ("votes.jsonl", lambda rows: rows.pop(), "votes are missing"),
        ("votes.jsonl", lambda rows: rows.clear(), "votes are missing"),
        ("votes.jsonl", lambda rows: rows.append(rows[0]), "twice"),
        ("votes.jsonl", lambda rows: rows[0].update(judge="d"), "no such judgment or judge"),
        ("judgments.jsonl", flip, "the panel decides met, not not_met"),
    ],
)
def test_a_changed_vote_is_named(panel: Path, name: str, change: Callable[[list[Any]], object], message: str) -> None:
    change_rows(panel, name, change)
    faults = faults_in(panel)
    assert any(message in fault for fault in faults), faults


def test_a_criterion_decided_without_a_judge_has_no_votes(db: None, tmp_path: Path) -> None:
    release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
    with fake_endpoint("An answer.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = panel_run(release, target.url, [("a", one.url), ("b", one.url)], outcomes=["answered=not_met"])
    bundle.export_run(run, tmp_path / "out")
    assert verify_run.check(tmp_path / "out")["faults"] == []
    assert (tmp_path / "out" / "votes.jsonl").read_text() == ""
    [row, *_others] = document(tmp_path / "out", "numbers.json")["rows"]
    assert row["rates"]["hallucination_rate"]["numerator"] == 4


def test_a_changed_rule_of_the_panel_changes_its_decisions(panel: Path) -> None:
    change_document(panel, lambda about: about.update(panel="unanimity"))
    assert len([fault for fault in faults_in(panel) if "the panel decides nothing, not met" in fault]) == 4


@pytest.mark.both
def test_controls_with_shared_records_are_counted_by_arm(db: None, tmp_path: Path) -> None:
    """Trap and control samples come from the same records, and each arm is counted separately."""
    run = run_with_verdicts(
        with_controls(12), one=lambda at, _rubric: "met" if at % 3 else "not_met", two=lambda *_: "met"
    )
    bundle.export_run(run, tmp_path / "out")
    result = verify_run.check(tmp_path / "out")
    assert result["faults"] == []
    samples = rows_in(tmp_path / "out", "samples.jsonl")
    assert (len({sample["cluster"] for sample in samples}), len(samples)) == (12, 24)
    assert {sample["arm"] for sample in samples} == {"trap", "control"}
    rates = {rate["name"]: rate for rate in document(tmp_path / "out")["protocol"]["rates"]}
    assert rates["over_suspicion"]["arm"] == "control"
    assert rates["over_suspicion"]["only"] == {"facet": "polarity", "value": "must not"}
    change_rows(
        tmp_path / "out",
        "samples.jsonl",
        lambda rows: rows[0].update(arm="trap" if rows[0]["arm"] == "control" else "control"),
    )
    assert faults_in(tmp_path / "out")


@pytest.fixture
def bundle_with_exclusions(db: None, cached_folder: CachedFolder) -> Path:
    """The bundle of a run that excludes refusals, on samples with two criteria each."""

    def make(out: Path) -> None:
        run = judged_run(bare_release(*[("dialogue", [["A1"], ["C2"]])] * 14), "one", "two")
        for response in Response.objects.filter(run=run, endpoint__name="one").order_by("pk")[:3]:
            Response.objects.filter(pk=response.pk).update(outcome="refused")
        run.plan["outcomes"]["refused"] = "excluded"
        run.save(update_fields=["plan"])
        assert Judgment.objects.filter(run=run, response__outcome="refused").exclude(verdict="").exists()
        bundle.export_run(run, out)

    return cached_folder(make)


def test_an_excluded_outcome_is_excluded_when_recounted(bundle_with_exclusions: Path) -> None:
    result = verify_run.check(bundle_with_exclusions)
    assert result["faults"] == []
    assert result["not_recomputed"] == {}
    numbers = document(bundle_with_exclusions, "numbers.json")
    rates = numbers["rows"][0]["rates"]["hallucination_rate"]
    assert (rates["method"], rates["clusters"]) == ("clustered-wilson", 11)
    assert rates["bounds"]["best"] < rates["value"] < rates["bounds"]["worst"]
    [refused] = [outcome for outcome in numbers["outcomes"] if outcome["kind"] == "refused"]
    assert (refused["rule"], refused["responses"], refused["criteria"], refused["counted"]) == ("excluded", 3, 6, 0)


@pytest.mark.parametrize("rule", ["judged", "not_met"])
def test_a_changed_rule_for_outcomes_is_named(bundle_with_exclusions: Path, rule: str) -> None:
    change_document(bundle_with_exclusions, lambda about: about["plan"]["outcomes"].update(refused=rule))
    faults = faults_in(bundle_with_exclusions)
    assert any("one, dialogue, hallucination_rate: excluded is" in fault for fault in faults), faults
    assert any("outcomes, one, dialogue, refused: rule is" in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rate: rate.update(low=rate["low"] + 0.001), "hallucination_rate: low is"),
        (lambda rate: rate.update(high=None), "hallucination_rate: high is"),
        (lambda rate: rate.update(method="cluster-bootstrap", low=0.0), "hallucination_rate: method is"),
        (lambda rate: rate.update(clusters=99), "hallucination_rate: clusters is"),
        (lambda rate: rate["bounds"].update(high=1.0), "hallucination_rate, bounds: high is"),
    ],
)
def test_a_changed_interval_is_named(
    bundle_with_exclusions: Path, change: Callable[[Any], object], message: str
) -> None:
    change_rows(bundle_with_exclusions, "numbers.json", lambda rows: change(rows[0]["rates"]["hallucination_rate"]))
    faults = faults_in(bundle_with_exclusions)
    assert any(message in fault for fault in faults), faults


@pytest.mark.parametrize("name", ["difference", "low", "high", "p", "p_adjusted", "odds_ratio", "cohens_h"])
def test_a_changed_comparison_is_named(bundle_with_exclusions: Path, name: str) -> None:
    def change(numbers: Any) -> None:
        next(row for row in numbers["comparisons"] if row[name] is not None)[name] += 0.01

    change_document(bundle_with_exclusions, change, "numbers.json")
    [fault] = faults_in(bundle_with_exclusions)
    assert "comparison of one and two, dialogue" in fault
    assert f"{name} is" in fault


@pytest.mark.parametrize("of_facet", [False, True])
def test_a_removed_comparison_is_named(bundle_with_exclusions: Path, of_facet: bool) -> None:
    def remove(numbers: Any) -> None:
        rows = numbers["comparisons"]
        rows.remove(next(row for row in rows if bool(row["facet"]) is of_facet))

    change_document(bundle_with_exclusions, remove, "numbers.json")
    faults = faults_in(bundle_with_exclusions)
    assert any("comparison of one and two" in fault and "missing" in fault for fault in faults), faults


def test_texts_of_held_out_samples_are_withheld(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their verdicts are in the bundle, so that every number can be recounted."""
    release = bare_release_with_held_out(run)
    path = tmp_path / "results.jsonl"
    path.write_text("".join(
        json.dumps({"sample": key, "rubric": "R1", "model": "m", "met": False, "response": f"Of {key}.", "explanation": key})
        + "\n" for key in ("open", "closed")
    ))  # fmt: skip
    imported = importing.import_results(rows.read(path), release=release, study="s").run
    assert imported is not None
    bundle.export_run(imported, tmp_path / "out")
    text = (tmp_path / "out" / "responses.jsonl").read_text() + (tmp_path / "out" / "judgments.jsonl").read_text()
    assert "Of open." in text
    assert "Of closed." not in text
    assert text.count('"withheld":true') == 2
    assert verify_run.check(tmp_path / "out")["faults"] == []
    bundle.export_run(imported, tmp_path / "whole", with_held_out=True)
    assert "Of closed." in (tmp_path / "whole" / "responses.jsonl").read_text()


def bare_release_with_held_out(run: Run) -> Release:
    """A release with a public and a held-out sample, copied from the release of `run`."""
    template = run.release
    first = template.samples.select_related("version").first()
    assert first is not None
    fields = {field.attname: getattr(template, field.attname) for field in Release._meta.concrete_fields}
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


def test_an_unfinished_run_has_no_bundle(run: Run, tmp_path: Path) -> None:
    Run.objects.filter(pk=run.pk).update(status=Run.Status.RUNNING)
    run.refresh_from_db()
    with pytest.raises(errors.RunNotFinished):
        bundle.export_run(run, tmp_path / "out")


# ---------------------------------------------------------------------------------- repeating a run


@pytest.mark.both
def test_rerun_asks_again_with_the_same_settings(run: Run, folder: Path, manage: Manage) -> None:
    output = manage.json("rerun", folder, "--yes", "--wait")
    again = Run.objects.get(pk=output["run"])
    assert again.pk != run.pk
    assert (output["responses_done"], output["status"], output["differences"]) == (6, "finished", [])
    assert (again.release, again.judge, again.seed, again.fresh) == (run.release, run.judge, run.seed, True)
    assert again.calls == run.calls
    Endpoint.objects.filter(name="sim-careful").update(temperature=0.25)
    repeat = rerunning.repeat_of(folder)
    assert repeat.differences == ("sim-careful: temperature 0.25, then None",)


def test_rerun_repeats_panel_plan_and_repeats(db: None, tmp_path: Path) -> None:
    release = bare_release(*[("dialogue", [["A1"], ["C2"]])] * 2)
    with fake_endpoint("An answer.") as target, fake_endpoint(verdict_reply(True)) as one:
        run = panel_run(
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
    added_model = endpoint(target.url, "m-2")
    added = adding.check_model(again, added_model)
    assert (len(added.judges), added.judgments) == (3, 3), "an added model is judged in the same way"


def test_rerun_needs_a_budget_the_release_and_the_endpoints(folder: Path, run: Run, manage: Manage) -> None:
    code, out, _err = manage("rerun", folder, "--json")
    assert (code, Run.objects.count()) == (1, 1)
    assert json.loads(out)["calls"] > 6
    Endpoint.objects.filter(name="sim-reckless").update(name="another")
    assert "sim-reckless" in manage.refusal("rerun", folder, "--yes")
    settings = document(folder)
    settings["release"]["sha256"] = "f" * 64
    (folder / "run.json").write_text(json.dumps(settings))
    assert "does not have the release" in manage.refusal("rerun", folder, "--yes")
    (folder / "run.json").write_text("{}")
    assert "not a readable run bundle" in manage.refusal("rerun", folder, "--yes")
    settings["origin"] = "imported"
    (folder / "run.json").write_text(json.dumps(settings))
    assert "was imported" in manage.refusal("rerun", folder, "--yes")
    assert life_cycle.is_running(run.pk) is False
