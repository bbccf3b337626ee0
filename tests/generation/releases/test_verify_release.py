"""Anyone can check an export: its files, its ratings, and the agreement computed from them."""

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
from generation.outcomes import services as outcomes_services
from generation.recipes import registry
from generation.releases import export, ratings, services
from generation.releases.data_card import data_card, intended_use
from generation.releases.freezing.composition import Composition
from generation.releases.programs import verify_release
from generation.releases.queries import exported_samples
from review.assignments import correction, retraction
from review.models import Case, Review, User
from review.quality.agreement import agreement
from review.quality.reliability import agreement_table
from review.quality.scales import Scale
from review.rules.blocks import Highlight, passage_texts
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, conversations_file, endpoint, import_file, make_release, run_batch
from tests.populations import population
from tests.review.approve import approval_of, rejection_of
from tests.review.factories import claim_and_submit

pytestmark = pytest.mark.django_db


@population
def release(folder: Path, models: str) -> Release:
    return make_release(folder, models, accounts_of(*PHYSICIANS), conversations=3, reports=1)


def freeze_with_held_out(samples: int) -> Release:
    """A release of these samples, some of which are held out."""
    compositions = [Composition(held_out=0.5, seed=seed) for seed in range(1, 100)]
    held_out = partial(services.preview, "apart", benchmark="mhb")
    composition = next(each for each in compositions if 0 < held_out(composition=each).held_out < samples)
    return services.freeze_release("apart", benchmark="mhb", composition=composition)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def read_ratings(folder: Path) -> list[dict[str, str]]:
    return read_csv(folder / "ratings.csv")


def test_ratings_have_one_row_per_review_and_question(release: Release, tmp_path: Path) -> None:
    export.Export(release, "jsonl").write(tmp_path / "out")
    rows = read_ratings(tmp_path / "out")
    verdicts = [row for row in rows if row["question"] == "verdict"]
    assert len(verdicts) == Review.objects.count()
    assert Counter((row["role"], row["answer"]) for row in verdicts) == {
        ("primary", "blind"): 4,
        ("secondary", "blind"): 4,
        ("secondary", "confirmed"): 4,
    }
    assert {row["sample_id"] for row in rows} == {sample["sample_id"] for sample in exported_samples(release)}
    assert len({row["rater"] for row in rows}) == release.reviewers["physicians"]
    text = (tmp_path / "out" / "ratings.csv").read_text()
    for person in User.objects.all():
        assert person.username not in text
    keys = [tuple(row[name] for name in ("sample_id", "role", "answer", "rubric", "question")) for row in rows]
    assert len(keys) == len(set(keys))


def test_another_name_gives_other_pseudonyms(release: Release, tmp_path: Path) -> None:
    other = services.freeze_release("other", benchmark="mhb")
    raters = []
    for exported in (release, other):
        export.Export(exported, "jsonl").write(tmp_path / exported.name)
        raters.append({row["rater"] for row in read_ratings(tmp_path / exported.name)})
    assert not raters[0] & raters[1]


def test_agreement_matches_known_figures() -> None:
    """The raw agreement is known by hand; the rest is compared with the site's own figures.

    Those are checked against published values.
    """
    result = verify_release.Agreement()
    answers = [("approve", "approve")] * 12 + [("approve", "reject")] * 3 + [("reject", "reject")] * 5
    for number, values in enumerate(answers):
        row = {"sample_id": str(number), "answer": "blind", "rubric": "", "question": "verdict"}
        raters = (f"r{number % 4}", f"r{(number + 1) % 4}")
        result.add(
            {**row, "role": role, "rater": rater, "value": value}
            for role, rater, value in zip(("primary", "secondary"), raters, values, strict=True)
        )
    [line] = result.lines({})
    site_figures = agreement([[values] for values in answers], ["approve", "reject"])
    assert (line["cases"], line["raters"], line["raw"]) == (20, 4, 0.85)
    assert line["kappa"] == pytest.approx(site_figures.kappa.value, abs=1e-6)
    assert line["ac1"] == pytest.approx(site_figures.ac1.value, abs=1e-6)
    ends = [site_figures.kappa.low, site_figures.kappa.high]
    assert line["kappa_interval"] == pytest.approx(ends, abs=1e-6)
    assert result.lines({}) == [line]


def test_equal_answers_are_not_certain_to_agree(release: Release, tmp_path: Path) -> None:
    """Eleven times the same is no interval of [1, 1]; figures frozen with one are still checked."""
    result = verify_release.Agreement()
    for number in range(22):
        row = {"sample_id": str(number), "answer": "blind", "rubric": "", "question": "verdict"}
        value = "approve" if number % 2 else "reject"
        result.add({**row, "role": role, "rater": role, "value": value} for role in ("primary", "secondary"))
    [line] = result.lines({})
    assert line["kappa"] == 1.0
    assert 0.4 < line["kappa_interval"][0] < 0.9
    export.Export(release, "jsonl").write(tmp_path)
    path = tmp_path / "agreement.json"
    before = [
        {
            name: [1.0, 1.0] if name.endswith("_interval") else value
            for name, value in line.items()
            if name != "intervals"
        }
        for line in json.loads(path.read_text())
    ]
    path.write_text(json.dumps(before))
    assert verify_release.faults_of(tmp_path) == ["agreement.json: altered"]
    path.write_text(json.dumps([{**line, "cases": 99} for line in before]))
    assert len(verify_release.faults_of(tmp_path)) == 1 + len(before)


def test_page_card_and_check_give_one_agreement(release: Release, tmp_path: Path) -> None:
    """Of the same answers, with the same categories, whether anybody gave them or not."""
    page = {line.key.removeprefix("question."): line.agreement for line in agreement_table(pair="reviewers").lines}
    card = [line for line in release.about["agreement"]["public"] if line["pair"] == "reviewers"]
    assert {line["question"] for line in card} == {key for key, figures in page.items() if figures.n}
    for line in card:
        figures = page[line["question"]]
        assert (line["categories"], line["used"]) == (list(figures.categories), figures.used)
        for name in ("raw", "kappa", "ac1"):
            estimate = getattr(figures, name)
            ends = None if estimate.low is None else [estimate.low, estimate.high]
            assert line[name] == (None if estimate.value is None else pytest.approx(estimate.value, abs=1e-6))
            assert line[f"{name}_interval"] == (None if ends is None else pytest.approx(ends, abs=1e-6))
    assert any(line["used"] < len(line["categories"]) for line in card)
    export.Export(release, "jsonl").write(tmp_path)
    path = tmp_path / "agreement.json"
    lines = json.loads(path.read_text())
    lines[0]["categories"] = ["never given"]
    path.write_text(json.dumps(lines))
    assert any("the categories lack an answer" in fault for fault in verify_release.faults_of(tmp_path))


def test_only_blind_answers_count_for_agreement(
    tmp_path: Path, models: str, ana: User, bo: User, chen: User, dina: User
) -> None:
    """The secondary rejects blind, and approves after seeing the primary's answers."""
    run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 2)), endpoint(models))
    claim_and_submit(ana, approval_of)
    claim_and_submit(
        bo,
        partial(rejection_of, reason="Implausible."),
        lambda form: replace(approval_of(form), change_reason="I had misread it."),
    )
    claim_and_submit(ana, approval_of)
    claim_and_submit(bo, approval_of, approval_of)
    outcomes_services.apply_outcomes()
    release = services.freeze_release("own", benchmark="mhb")
    lines = {line["question"]: line for line in release.about["agreement"]["public"]}
    assert (lines["verdict"]["cases"], lines["verdict"]["raw"]) == (2, 0.5)


def run_verifier(folder: Path) -> tuple[int, list[str]]:
    program = folder / "verify_release.py"
    result = subprocess.run([sys.executable, "-I", program], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    return result.returncode, result.stdout.splitlines()


def test_altered_files_are_named(release: Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export.Export(release, "jsonl").write(out)
    assert run_verifier(out) == (0, ["Nothing is altered or missing."])

    def output_after_change(name: str, old: str, new: str) -> list[str]:
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(out, copy)
        text = (copy / name).read_text()
        assert old in text
        (copy / name).write_text(text.replace(old, new, 1))
        code, output = run_verifier(copy)
        assert code == 1
        return output

    assert output_after_change("samples.jsonl", "dialogue", "Dialogue")[0] == "samples.jsonl: altered"
    output = output_after_change("ratings.csv", ",verdict,approve", ",verdict,reject")
    assert output[0] == "ratings.csv: altered"
    assert "agreement.json: reviewers, verdict: not what ratings.csv gives" in output
    assert "DATACARD.md: altered" in output_after_change("DATACARD.md", "own", "Own")
    assert any("audit.jsonl: sample" in line for line in output_after_change("audit.jsonl", '"approved"', '"rejected"'))
    (out / "more.txt").write_text("x")
    (out / "croissant.json").unlink()
    assert run_verifier(out) == (1, ["croissant.json: missing", "more.txt: not part of the release", "2 faults"])


def test_rows_are_compared_with_a_whole_trail_only(release: Release, tmp_path: Path) -> None:
    """Rows that are there twice are told without a trail."""
    export.Export(release, "jsonl").write(tmp_path)
    trail, table = tmp_path / "audit.jsonl", tmp_path / "ratings.csv"
    lines = trail.read_text().splitlines(keepends=True)
    trail.write_text("".join(lines[: len(lines) // 2]) + "{\n")
    faults = verify_release.faults_of(tmp_path)
    assert any("audit.jsonl: trail: cannot be read" in fault for fault in faults)
    assert [fault for fault in faults if fault.startswith("ratings.csv")] == []
    trail.unlink()
    *_rows, last = table.read_text().splitlines(keepends=True)
    with table.open("a") as file:
        file.write(last)
    assert any(fault.startswith("ratings.csv: twice: ") for fault in verify_release.faults_of(tmp_path))


def test_corrected_and_retracted_reviews_are_no_faults(tmp_path: Path, models: str, ana: User, bo: User) -> None:
    run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 2)), endpoint(models))
    case = claim_and_submit(ana, approval_of).case
    review = Review.objects.get(physician=ana)
    correction.correct(ana, review.pk, approval_of(case.frozen.form), reason="I had misread it.")
    claim_and_submit(ana, approval_of)
    retraction.retract(ana, Review.objects.latest("pk").pk)
    claim_and_submit(ana, approval_of)
    claim_and_submit(bo, *[approval_of] * 4)
    outcomes_services.apply_outcomes()
    release = services.freeze_release("own", benchmark="mhb")
    export.Export(release, "jsonl").write(tmp_path / "out")
    assert len(Review.objects.all()) == 8
    assert verify_release.faults_of(tmp_path / "out") == []


def test_changed_checksums_do_not_hide_changed_samples(release: Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export.Export(release, "jsonl").write(out)
    samples, sums = out / "samples.jsonl", out / "SHA256SUMS"
    before = verify_release.sha256_of(samples)
    samples.write_text(samples.read_text().replace("dialogue", "Dialogue", 1))
    sums.write_text(sums.read_text().replace(before, verify_release.sha256_of(samples)))
    code, output = run_verifier(out)
    assert (code, output[0]) == (1, "samples.jsonl: not the samples that were frozen")
    (out / "verify_trail.py").write_text("raise AssertionError('The site runs no program of the folder.')")
    assert "verify_trail.py: altered" in verify_release.faults_of(out)


def test_a_folder_without_a_release_is_refused(tmp_path: Path, manage: Manage) -> None:
    assert "no release to check" in manage.refusal("verify_release", tmp_path)


def test_the_held_out_split_has_its_own_ratings(release: Release, tmp_path: Path, manage: Manage) -> None:
    with_held_out = freeze_with_held_out(4)
    rated_samples = []
    for split in ("public", "held-out"):
        export.Export(with_held_out, "jsonl", split=split).write(tmp_path / split)
        rated_samples.append({row["sample_id"] for row in read_ratings(tmp_path / split)})
        assert manage.json("verify_release", tmp_path / split)["faults"] == []
    assert not rated_samples[0] & rated_samples[1]
    assert len(rated_samples[0] | rated_samples[1]) == 4


def test_the_data_card_says_what_its_benchmark_is_for() -> None:
    uses = {name: intended_use(name) for name in (*registry.names(), "removed")}
    assert len(set(uses.values())) == len(uses)
    assert "Not for training." in uses["mhb"]
    assert "false medical claims on purpose" in uses["mhb"]
    assert "Models may be trained on its training split" in uses["medhal"]
    assert "Nothing in the conversations is wrong on purpose" in uses["healthbench"]


def test_the_data_card_describes_reviewers_and_agreement(release: Release, tmp_path: Path) -> None:
    card = data_card(release)
    for text in (
        "## Reviewers and agreement",
        "| reviewers | verdict | 4 |",
        f"Canary, in every sample: `{release.canary}`",
        "- Language en: 4",
        "- Generator: sim-generator (sim-generator)",
        "0 of 4 reviewed samples (0.0%) went to adjudication",
        "## Intended use and limits",
    ):
        assert text in card, text
    export.Export(release, "parquet").write(tmp_path / "out")
    croissant = json.loads((tmp_path / "out" / "croissant.json").read_text())
    checksums = {file["name"]: file["sha256"] for file in croissant["distribution"]}
    assert checksums["samples.parquet"] == verify_release.sha256_of(tmp_path / "out" / "samples.parquet")
    assert croissant["license"]
    assert croissant["citeAs"]


def test_highlights_and_polarity_are_exported_under_pseudonyms(
    tmp_path: Path, models: str, ana: User, bo: User
) -> None:
    run_batch(import_file(conversations_file(tmp_path / "own.jsonl", 1)), endpoint(models))
    [case] = Case.objects.all()
    passage, text = next(
        (key, text) for key, text in passage_texts(case.frozen.blocks).items() if "This is case 1" in text
    )
    highlight = Highlight(text[5:30], "hint", passage, 5, 30)
    longer = replace(highlight, quote=text[5:31], end=31)
    highlights = (highlight, longer, replace(longer, label="false"))
    claim_and_submit(ana, lambda form: replace(approval_of(form), highlights=highlights))
    claim_and_submit(bo, approval_of, approval_of)
    outcomes_services.apply_outcomes()
    release = services.freeze_release("own", benchmark="mhb")
    export.Export(release, "jsonl").write(tmp_path / "out")
    assert verify_release.faults_of(tmp_path / "out") == []
    rows = read_csv(tmp_path / "out" / "highlights.csv")
    assert [row["look"] for row in rows] == ["first"] * 3 + ["second"] * 3
    row = rows[3]
    assert (row["label"], row["passage"], row["role"]) == ("hint", passage, "primary")
    assert text[int(row["start"]) : int(row["end"])] == row["quote"] == highlight.quote
    rated = {row["rater"] for row in read_ratings(tmp_path / "out") if row["role"] == "primary"}
    assert {row["rater"]} == rated
    ratings = read_ratings(tmp_path / "out")
    polarities = {row["rubric"]: row["polarity"] for row in ratings if row["question"] != "factual"}  # of a trap
    assert polarities.pop("") == ""
    [sample] = exported_samples(release)
    assert polarities == {rubric["key"]: rubric["polarity"] for rubric in sample["rubrics"]}
    assert set(polarities.values()) <= {"must", "must not"}
    export.Export(release, "jsonl", by_reference=True).write(tmp_path / "referring")
    assert [row["quote"] for row in read_csv(tmp_path / "referring" / "highlights.csv")] == [""] * 6


def test_ratings_can_be_downloaded_alone_from_page_and_api(
    release: Release, tmp_path: Path, rui: User, adela: User, client: Client
) -> None:
    export.Export(release, "jsonl").write(tmp_path / "out")
    expected = (tmp_path / "out" / "ratings.csv").read_bytes()
    page = reverse("generation:release-ratings", args=["own", 1])
    for user, allowed in ((rui, 403), (adela, 200)):
        client.force_login(user)
        for address in (page, reverse("api:release-ratings", args=["own", 1])):
            response = client.get(address)
            assert b"".join(response.streaming_content) == expected  # type: ignore[attr-defined]
            assert "own-v1-ratings.csv" in response["Content-Disposition"]
            assert client.get(address, {"split": "held-out"}).status_code == allowed
    assert page in client.get(reverse("generation:release", args=["own", 1])).content.decode()


def test_this_site_knows_the_releases_that_it_wrote(release: Release, tmp_path: Path, manage: Manage) -> None:
    """A number of the data card can be altered, and the checksums with it."""
    export.Export(release, "jsonl").write(tmp_path)
    assert manage.json("verify_release", tmp_path)["faults"] == []
    card, sums = tmp_path / "DATACARD.md", tmp_path / "SHA256SUMS"
    before = verify_release.sha256_of(card)
    card.write_text(card.read_text() + "\n99 physicians.\n")
    sums.write_text(sums.read_text().replace(before, verify_release.sha256_of(card)))
    assert verify_release.faults_of(tmp_path) == []
    [fault] = json.loads(manage("verify_release", tmp_path, "--json")[1])["faults"]
    assert "never with these checksums" in fault


def test_answers_of_a_release_have_the_order_of_the_newest_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sample was rejected once: its case is newer than that of the second."""

    def answers_to(samples: list[tuple[str, int, int]]) -> list[ratings.ReviewData]:
        found = []
        for key, _version, case in samples:
            for role in ("primary", "secondary"):
                about = (key, "1", f"rater-{role}", role, "blind", "false")
                found.append((case, about, "approve", {"questions": {"harm": {"value": "none"}}}))
        return found

    forms = {9: {"harm": Scale(("much", "none"), ordinal=True)}, 2: {"harm": Scale(("none", "much"), ordinal=True)}}
    monkeypatch.setattr(ratings, "_reviews", lambda chunks, _canary: map(answers_to, chunks))
    monkeypatch.setattr(ratings, "offered_answers", lambda _cases: forms)
    lines = ratings.agreement([("a", 2, 9), ("b", 1, 2)], "canary")
    [harm] = [line for line in lines if line["question"] == "harm"]
    assert harm["categories"] == ["much", "none"]
