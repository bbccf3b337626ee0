"""A pilot with management commands only: a draw, people from a file, samples with controls,
reviews, a withdrawal, a release, and every export, verified. Models and physicians are
simulated."""

import csv
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from generation.releases import exporters
from tests.engine import Manage, conversation, conversations_file, manage, models, no_long_waits

__all__ = ["manage", "models", "no_long_waits"]

pytestmark = pytest.mark.both
THEMES = {"hedging": 24, "global_health": 16, "emergency_referrals": 8}
PEOPLE = (
    ("Ana Ruiz", "Cardiology", "North Hospital"),
    ("Bo Lindqvist", "Nephrology", "North Hospital"),
    ("Chen Li", "Neurology", "West Hospital"),
    ("Dina Haddad", "", "West Hospital"),
    ("Emil Novak", "Oncology; Cardiology", "South Hospital"),
    ("Fei Wang", "", "South Hospital"),
)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """48 conversations of three themes."""
    themes = [theme for theme, n in THEMES.items() for _ in range(n)]
    rows = [conversation(n, example_tags=[f"theme:{theme}"]) for n, theme in enumerate(themes, 1)]
    return conversations_file(tmp_path / "conversations.jsonl", *rows)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("name", "role", "specialties", "languages", "institution", "hospital"))
        writer.writerows(
            (name, "physician", specialties, "en", "Pilot University", hospital)
            for name, specialties, hospital in PEOPLE
        )
    return path


def test_a_pilot_runs_with_management_commands_only(
    manage: Manage, tmp_path: Path, models: str, records: Path, people: Path
) -> None:
    manage.json("add_endpoint", "maker", "--url", models, "--model", "sim-generator")
    assert manage.json("import_source", "--format", "healthbench", "--name", "hb", records)["added"] == 48

    planned = manage.json("import_people", people, "--simulated", "--dry-run")
    assert (planned["added"], len(planned["people"])) == (0, 6)
    assert manage.json("import_people", people, "--simulated")["added"] == 6
    assert "is already taken" in manage("import_people", people, "--simulated")[2], "nobody is added twice"

    roles = ("--generator", "maker", "--role", "examiner=maker", "--one-model")
    generate = ("generate", "--benchmark", "mhb", "--source", "hb", *roles, "--limit", 30)
    draw_options = (*generate, "--draw", "stratified:theme", "--seed", 7, "--preset", "controls")
    code, estimate, _err = manage(*draw_options)
    assert code == 1, "without a budget nothing is launched"
    assert "examiner and generator: sim-generator" in estimate
    batch = manage.json(*draw_options, "--budget-calls", 2000, "--wait")
    assert (batch["drafts"], batch["failed"], batch["open"]) == (60, 0, 0), "one control per sample"
    strata = {theme: n_drawn for theme, (_available, n_drawn) in batch["draw"]["strata"].items()}
    assert strata == {"hedging": 15, "global_health": 10, "emergency_referrals": 5}

    reviewed = manage.json("demo_reviews", "--seed", 5)
    assert reviewed["physicians"] == 6
    assert not any(reviewed["states"][state] for state in ("primary", "secondary", "adjudication"))
    manage("sweep")

    freeze = ("freeze_release", "pilot", "--benchmark", "mhb", "--held-out", 0.2, "--with-controls", "--seed", 3)
    preview = manage.json(*freeze, "--preview")
    release = manage.json(*freeze)
    assert release["samples"] == preview["samples"]
    out = tmp_path / "first"
    manage.json("export_release", "pilot@1", "--format", "jsonl", "--out", out)
    withdrawn = json.loads((out / "samples.jsonl").read_text(encoding="utf-8").splitlines()[0])["sample_id"]
    withdrawal = manage.json("withdraw_sample", withdrawn, "--reason", "Its source was withdrawn.")
    assert withdrawal["releases"] == ["pilot@1"]
    assert withdrawn in (out / "samples.jsonl").read_text(encoding="utf-8"), "an exported file does not change"

    second = manage.json(*freeze)
    assert (second["version"], second["samples"]) == (2, release["samples"] - 1)
    assert 0 < second["held_out"] < second["samples"]
    fitting = [name for name in exporters.available() if name not in ("supervision", "training")]
    for name in fitting:
        for split in ("public", "held-out"):
            folder = tmp_path / f"{name}-{split}"
            written = manage.json("export_release", "pilot@2", "--format", name, "--out", folder, "--split", split)
            names = {path.name for path in folder.iterdir()}
            assert {"DATACARD.md", "croissant.json", "ratings.csv"} <= names, (name, names)
            assert manage.json("verify_release", folder)["faults"] == [], (name, split)
            assert withdrawn not in "".join(
                path.read_text(encoding="utf-8") for path in folder.rglob("*.jsonl") if path.name == "samples.jsonl"
            )
            altered = folder / random.Random(name).choice([entry["path"] for entry in written["files"]])
            altered.write_bytes(altered.read_bytes() + b" ")
            code, output, _err = manage("verify_release", folder)
            assert code == 1
            assert altered.name in output, output
    arms = Counter(
        json.loads(line).get("arm")
        for split in ("public", "held-out")
        for line in (tmp_path / f"jsonl-{split}" / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    )
    assert set(arms) == {"trap", "control"}, arms
    assert manage.json("verify_audit")["faults"] == []
