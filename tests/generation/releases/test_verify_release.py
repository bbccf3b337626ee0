"""An export can be checked by anyone who has it: its files, its ratings, the agreement that follows from them."""

import csv
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from generation.models import Release
from generation.releases import export, services
from generation.releases.data_card import data_card
from generation.releases.exporters import available
from generation.releases.exporters.programs import verify_release
from generation.releases.freezing.composition import Composition
from generation.samples import services as samples_services
from review.models import Case, Review, User
from review.quality.agreement import agreement
from review.rules.blocks import Highlight, passage_texts
from tests.conftest import PHYSICIANS, cast
from tests.engine import Manage, conversations_file, endpoint, frozen, generated, imported
from tests.populations import population
from tests.review.approve import approval, rejection
from tests.review.factories import say

pytestmark = pytest.mark.django_db


@population
def release(folder: Path, models: str) -> Release:
    return frozen(folder, models, cast(*PHYSICIANS), conversations=3, reports=1)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(folder: Path) -> list[dict[str, str]]:
    return table(folder / "ratings.csv")


def test_ratings_have_one_row_a_review_and_question(release: Release, tmp_path: Path) -> None:
    export.export_release(release, "jsonl", tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    verdicts = [row for row in rows if row["question"] == "verdict"]
    assert len(verdicts) == Review.objects.count()
    assert Counter((row["role"], row["answer"]) for row in verdicts) == {
        ("primary", "blind"): 4,
        ("secondary", "blind"): 4,
        ("secondary", "confirmed"): 4,
    }
    assert {row["sample_id"] for row in rows} == {sample["sample_id"] for sample in export.exported_samples(release)}
    assert len({row["rater"] for row in rows}) == release.reviewers["physicians"]
    text = (tmp_path / "out" / "ratings.csv").read_text()
    for person in User.objects.all():
        assert person.username not in text
    keys = [tuple(row[name] for name in ("sample_id", "role", "answer", "rubric", "question")) for row in rows]
    assert len(keys) == len(set(keys))


def test_another_name_gives_other_pseudonyms(release: Release, tmp_path: Path) -> None:
    other = services.freeze_release("other", benchmark="mhb")
    raters = []
    for one in (release, other):
        export.export_release(one, "jsonl", tmp_path / one.name)
        raters.append({row["rater"] for row in rows_of(tmp_path / one.name)})
    assert not raters[0] & raters[1]


def test_agreement_is_that_of_the_known_answer() -> None:
    """By hand, and by the site's own figures, which are checked against published values."""
    found = verify_release.Agreement()
    answers = [("approve", "approve")] * 12 + [("approve", "reject")] * 3 + [("reject", "reject")] * 5
    for number, two in enumerate(answers):
        about = {"sample_id": str(number), "answer": "blind", "rubric": "", "question": "verdict"}
        raters = (f"r{number % 4}", f"r{(number + 1) % 4}")
        found.add(
            {**about, "role": role, "rater": rater, "value": value}
            for role, rater, value in zip(("primary", "secondary"), raters, two, strict=True)
        )
    [line] = found.lines()
    theirs = agreement([[two] for two in answers], ["approve", "reject"])
    assert (line["cases"], line["raters"], line["raw"]) == (20, 4, 0.85)
    assert line["kappa"] == pytest.approx(theirs.kappa.value, abs=1e-6)
    assert line["ac1"] == pytest.approx(theirs.ac1.value, abs=1e-6)
    low, high = line["raw_interval"]
    assert low < 0.85 < high
    assert theirs.raw.low is not None
    assert low < theirs.raw.low + 0.05, "raters are resampled too"
    assert found.lines() == [line]


def test_blind_answers_alone_count(tmp_path: Path, models: str, ana: User, bo: User, chen: User, dina: User) -> None:
    """The secondary rejects blind, and approves after having seen the primary's."""
    generated(imported(conversations_file(tmp_path / "own.jsonl", 2)), endpoint(models))
    say(ana, approval)
    say(
        bo,
        partial(rejection, reason="Implausible."),
        lambda form: replace(approval(form), change_reason="I had misread it."),
    )
    say(ana, approval)
    say(bo, approval, approval)
    samples_services.apply_outcomes()
    release = services.freeze_release("own", benchmark="mhb")
    lines = {line["question"]: line for line in release.about["agreement"]["public"]}
    assert (lines["verdict"]["cases"], lines["verdict"]["raw"]) == (2, 0.5)


@pytest.mark.parametrize("format_name", [name for name in available() if name not in ("supervision", "training")])
def test_every_export_verifies(release: Release, tmp_path: Path, manage: Manage, format_name: str) -> None:
    out = tmp_path / format_name
    export.export_release(release, format_name, out)
    assert manage.json("verify_release", out) == {"faults": [], "failed": 0}


def check(folder: Path) -> tuple[int, list[str]]:
    program = folder / "verify_release.py"
    done = subprocess.run([sys.executable, "-I", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_what_was_altered_is_named(release: Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export.export_release(release, "jsonl", out)
    assert check(out) == (0, ["Nothing is altered or missing."])

    def altered(name: str, old: str, new: str) -> list[str]:
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(out, copy)
        text = (copy / name).read_text()
        assert old in text
        (copy / name).write_text(text.replace(old, new, 1))
        code, said = check(copy)
        assert code == 1
        return said

    assert altered("samples.jsonl", "dialogue", "Dialogue")[0] == "samples.jsonl: altered"
    said = altered("ratings.csv", ",verdict,approve", ",verdict,reject")
    assert said[0] == "ratings.csv: altered"
    assert "agreement.json: reviewers, verdict: not what ratings.csv gives" in said
    assert "DATACARD.md: altered" in altered("DATACARD.md", "own", "Own")
    assert any("audit.jsonl: sample" in line for line in altered("audit.jsonl", '"approved"', '"rejected"'))
    (out / "more.txt").write_text("x")
    (out / "croissant.json").unlink()
    assert check(out) == (1, ["croissant.json: missing", "more.txt: not part of the release", "2 faults"])


def test_changed_checksums_do_not_hide_changed_samples(release: Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export.export_release(release, "jsonl", out)
    samples, sums = out / "samples.jsonl", out / "SHA256SUMS"
    before = verify_release._sha256(samples)
    samples.write_text(samples.read_text().replace("dialogue", "Dialogue", 1))
    sums.write_text(sums.read_text().replace(before, verify_release._sha256(samples)))
    code, said = check(out)
    assert (code, said[0]) == (1, "samples.jsonl: not the samples that were frozen")


def test_nothing_to_check(tmp_path: Path, manage: Manage) -> None:
    assert "no release to check" in manage.refused("verify_release", tmp_path)


def test_the_held_out_part_has_its_own_ratings(release: Release, tmp_path: Path, manage: Manage) -> None:
    seed = next(
        n
        for n in range(100)
        if 0 < services.preview("x", benchmark="mhb", composition=Composition(held_out=0.5, seed=n)).held_out < 4
    )
    made = services.freeze_release("apart", benchmark="mhb", composition=Composition(held_out=0.5, seed=seed))
    rated = []
    for split in ("public", "held-out"):
        export.export_release(made, "jsonl", tmp_path / split, split=split)
        rated.append({row["sample_id"] for row in rows_of(tmp_path / split)})
        assert manage.json("verify_release", tmp_path / split)["faults"] == []
    assert not rated[0] & rated[1]
    assert len(rated[0] | rated[1]) == 4


def test_the_card_says_who_and_how_far_they_agreed(release: Release, tmp_path: Path) -> None:
    card = data_card(release)
    for said in (
        "## Reviewers and agreement",
        "| reviewers | verdict | 4 |",
        f"Canary, in every sample: `{release.canary}`",
        "- Language en: 4",
        "- generator: sim-generator (sim-generator)",
        "0 of 4 reviewed samples (0.0%) went to adjudication",
        "## Intended use and limits",
    ):
        assert said in card, said
    export.export_release(release, "parquet", tmp_path / "out")
    described = json.loads((tmp_path / "out" / "croissant.json").read_text())
    listed = {one["name"]: one["sha256"] for one in described["distribution"]}
    assert listed["samples.parquet"] == verify_release._sha256(tmp_path / "out" / "samples.parquet")
    assert described["license"]
    assert described["citeAs"]


def test_highlights_and_polarity_go_out_under_pseudonyms(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    generated(imported(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    [case] = Case.objects.all()
    passage, text = next(
        (key, text) for key, text in passage_texts(case.frozen.blocks).items() if "This is case 1" in text
    )
    mark = Highlight(text[5:30], "hint", passage, 5, 30)
    say(ana, lambda form: replace(approval(form), highlights=(mark,)))
    say(bo, approval, approval)
    samples_services.apply_outcomes()
    release = services.freeze_release("own", benchmark="mhb")
    export.export_release(release, "jsonl", tmp_path / "out")
    [first, row] = table(tmp_path / "out" / "highlights.csv")
    assert (first["look"], row["look"]) == ("first", "second")
    assert (row["label"], row["passage"], row["role"]) == ("hint", passage, "primary")
    assert text[int(row["start"]) : int(row["end"])] == row["quote"] == mark.quote
    rated = {row["rater"] for row in rows_of(tmp_path / "out") if row["role"] == "primary"}
    assert {row["rater"]} == rated
    polarities = {row["rubric"]: row["polarity"] for row in rows_of(tmp_path / "out")}
    assert polarities.pop("") == ""
    [sample] = export.exported_samples(release)
    assert polarities == {rubric["key"]: rubric["polarity"] for rubric in sample["rubrics"]}
    assert set(polarities.values()) <= {"must", "must not"}
    export.export_release(release, "jsonl", tmp_path / "referring", by_reference=True)
    assert [row["quote"] for row in table(tmp_path / "referring" / "highlights.csv")] == ["", ""]


def test_page_and_api_send_the_ratings_alone(
    release: Release, tmp_path: Path, rui: User, adela: User, client: Client
) -> None:
    export.export_release(release, "jsonl", tmp_path / "out")
    expected = (tmp_path / "out" / "ratings.csv").read_bytes()
    page = reverse("generation:release-ratings", args=["own", 1])
    for user, allowed in ((rui, 403), (adela, 200)):
        client.force_login(user)
        for address in (page, reverse("api:release-ratings", args=["own", 1])):
            answer = client.get(address)
            assert b"".join(answer.streaming_content) == expected  # type: ignore[attr-defined]
            assert "own-v1-ratings.csv" in answer["Content-Disposition"]
            assert client.get(address, {"split": "held-out"}).status_code == allowed
    assert page in client.get(reverse("generation:release", args=["own", 1])).content.decode()
