"""What is odd in an imported file is said with rows and counts, and nothing is left out for it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.models import Import, SourceRecord
from generation.sources import services
from generation.sources.importers.base import Row
from generation.sources.oddities import Oddities
from tests.engine import Manage
from tests.generation.statement_rows import medmcqa

pytestmark = [pytest.mark.django_db]


def import_rows(folder: Path, format_name: str, *rows: dict[str, Any], file: str = "train.jsonl") -> Import:
    path = folder / file
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = services.start_import(path, format_name=format_name, name=format_name)
    return services.run_import(run.pk)


def question(n: int, cop: int = 4, **changes: Any) -> dict[str, Any]:
    options = {"opa": f"Aspirin {n}", "opb": f"Heparin {n}", "opc": f"Warfarin {n}", "opd": f"Digoxin {n}"}
    return {**medmcqa(n, cop=cop), "question": f"Which drug is number {n}?", **options, **changes}


def test_questions_and_options_that_stand_twice_are_counted_with_their_rows(tmp_path: Path) -> None:
    run = import_rows(
        tmp_path,
        "medmcqa",
        question(1),
        question(2, opa="aspirin 2.", opb="Aspirin 2"),
        question(3, cop=4, opc="Digoxin 3."),
        question(4, opa="−2.5", opb="2.5"),  # these are two
        {**question(1), "id": "again"},
        {**question(1, cop=2), "id": "other"},
        {**question(1, cop=3), "id": "third"},
        question(5, question="Is Na &lt; 120 dangerous?"),
    )
    assert (run.status, run.added, run.refused) == ("done", 8, 0)
    assert run.oddities == {
        "same-options": {"n": 2, "rows": ["line 2", "line 3"]},
        "same-right-option": {"n": 1, "rows": ["line 3"]},
        "same-text": {"n": 1, "rows": ["line 5 = line 1"]},
        "other-answer": {"n": 1, "rows": ["line 6 ≠ line 1", "line 7 ≠ line 1"]},
        "markup": {"n": 1, "rows": ["line 8"]},
    }


@pytest.mark.plain
@pytest.mark.parametrize(
    ("text", "is_odd"),
    [
        ("Platelets were 20 x 109/L.", True),
        ("Leukocytes 4.1 × 10 9 / L", True),
        ("erythrocytes 3·1012/l", True),
        ("Platelets were 20 x 10^9/L.", False),
        ("Platelets were 20 × 10⁹/L.", False),
        ("Glucose 109/L units", False),
        ("a dose of 2 x 100 mg", False),
    ],
)
def test_a_power_of_ten_without_its_exponent_is_named(text: str, *, is_odd: bool) -> None:
    oddities = Oddities()
    oddities.add(Row("r1", "?", "en", {"kind": "report", "text": text}))
    assert ("lost-exponent" in oddities.found(Import())) is is_odd


@pytest.mark.plain
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Fever of 38 Â°C, saturation â‰¥ 94 %, DÃ©pression", {"misread"}),
        ("Fever of 38 \ufffdC", {"misread"}),
        ("Fever of 38 °C, saturation ≥ 94 %, Dépression, Ã and Â, €", set()),
        ("x" * 32_767, {"cut-off"}),
        ("x" * 32_766, set()),
    ],
)
def test_texts_that_a_program_has_damaged_are_named(text: str, kinds: set[str]) -> None:
    oddities = Oddities()
    oddities.add(Row("r1", "?", "en", {"kind": "report", "text": text}))
    assert oddities.found(Import()).keys() == kinds


def test_options_in_another_order_are_the_same_question(tmp_path: Path) -> None:
    turned = question(1, cop=1, opa="Digoxin 1", opd="Aspirin 1")
    run = import_rows(tmp_path, "medmcqa", question(1), {**turned, "id": "turned"})
    assert run.oddities == {"same-text": {"n": 1, "rows": ["line 2 = line 1"]}}


def test_a_hallucinated_answer_that_is_the_true_one_is_named(tmp_path: Path) -> None:
    pair = {
        "Question": "Does it help?",
        "Knowledge": ["It was tried."],
        "Ground Truth": "It helps at 5 mg.",
        "Difficulty Level": "easy",
        "Category of Hallucination": "Incomplete Information",
    }
    rows = [
        {**pair, "Hallucinated Answer": "It helps at 5mg"},
        {**pair, "Question": "Does it hurt?", "Hallucinated Answer": "It helps at 15 mg."},
    ]
    run = import_rows(tmp_path, "medhallu", *rows)
    assert run.oddities == {"true-answer": {"n": 1, "rows": ["line 1"]}}


def test_what_is_odd_is_on_the_page_and_in_the_commands_output(tmp_path: Path, admin: Client, manage: Manage) -> None:
    run = import_rows(tmp_path, "medmcqa", question(1), question(2, opa="aspirin 2.", opb="Aspirin 2"))
    page = admin.get(reverse("generation:source", args=[run.source.name])).content.decode()
    assert "Questions with two options that read the same: 1" in " ".join(page.split())
    output = manage.json("import_source", tmp_path / "train.jsonl", "--format", "medmcqa", "--name", "medmcqa")
    assert output["oddities"] == run.oddities


def test_images_of_the_test_split_in_training_are_counted_over_all_files_of_the_source(tmp_path: Path) -> None:
    run = import_rows(tmp_path, "medmcqa", question(1))
    oddities = Oddities()
    for n, (split, image) in enumerate([("train", "aa"), ("test", "aa"), ("train", "bb"), ("test", "cc")]):
        content = {"kind": "vqa", "question": f"Is it {n}?", "answer": "yes", "images": [image * 32], "split": split}
        SourceRecord.objects.create(source=run.source, external_id=f"r{n}", title="?", content=content)
        oddities.add(Row(f"r{n}", "?", "en", content))
    assert oddities.found(run) == {"test-image-in-train": {"n": 1, "rows": ["aa" * 6]}}
