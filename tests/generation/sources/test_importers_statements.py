"""MedHal and the data sets it was built from: every layout, every refusal, and real rows."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import CreateModel, RunPython
from django.utils import timezone

from generation.models import NamedValues, Source, SourceRecord
from generation.sources import importers, other_values, services
from generation.sources.importers import bundles, medhal, sumpubmed
from generation.sources.importers import mednli as mednli_format
from generation.sources.importers import medqa as medqa_format
from generation.sources.importers.base import (
    Importer,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    digest_of,
    storable_json,
)
from generation.sources.other_values import SourceValues
from generation.sources.queries import partner_contents
from tests.generation.rows import jsonl, parquet, table
from tests.generation.statement_rows import medmcqa, mednli, medqa, notes, published
from tests.profile import public


def rows_of(importer: Importer, path: Path) -> list[Any]:
    return list(importer.rows(path, importer.sniff(path)))


# MedHal

PUBLISHED: dict[str, Any] = {
    "kind": "statement",
    "statement": "The patient is 11 years old.",
    "context": "A 10-year-old girl had a swollen knee.",
    "label": "non-factual",
    "explanation": "The patient is 10 years old.",
    "task": "ie",
    "source": "acn",
    "pair": "",
    "inner_id": "155216",
    "split": "",
    "synthetic": True,
}


@pytest.mark.parametrize(
    ("make", "layout", "where"), [(jsonl, "jsonl", "line 1"), (table, "csv", "line 2"), (parquet, "parquet", "row 1")]
)
def test_all_layouts_of_medhal_give_the_same_row(tmp_path, make, layout, where):
    path = tmp_path / "file"
    path.write_bytes(make(published()))
    detected_layout = medhal.sniff(path)
    assert detected_layout.name == layout
    [row] = medhal.rows(path, detected_layout)
    assert isinstance(row, Row)
    assert (row.external_id, row.language, row.where, row.content) == ("made-up-1", "en", where, PUBLISHED)
    assert row.facets == {"source": "acn", "label": "non-factual", "split": "unknown"}


@pytest.mark.parametrize("missing", ["None", None, "nan", ""])
def test_a_statement_of_medhal_may_have_no_context(read_rows, missing):
    rows = read_rows(medhal, jsonl(published(context=missing, source="medqa", label="True")))
    assert isinstance(rows[0], Row)
    assert {name: rows[0].content[name] for name in ("context", "task", "label")} == {
        "context": "",
        "task": "qa",
        "label": "factual",
    }


def test_the_split_comes_from_the_row_or_else_from_the_file_name(read_rows):
    first, second = read_rows(medhal, jsonl(published(), published(2, split="val")), "medhal-lf_train-00001.jsonl")
    assert [row.content["split"] for row in (first, second)] == ["train", "val"]


def test_a_row_of_medhal_without_an_id_gets_one_from_its_text(read_rows):
    bare = {key: value for key, value in published().items() if key != "id"}
    first, second, third = read_rows(medhal, jsonl(bare, bare, bare | {"label": True}))
    assert first.external_id == second.external_id != third.external_id


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "JSON array"),
        (jsonl({"statement": "x", "label": True}), "lack 'source'"),
        (table({"statement": "x"}), "no column 'label', 'source'"),
    ],
)
def test_a_file_that_is_not_medhal_is_refused(refusal_reason, data, reason):
    assert reason in refusal_reason(medhal, data)


# MedQA


def test_a_question_of_medqa_is_read(read_rows):
    [row] = read_rows(medqa_format, jsonl(medqa()), "phrases_no_exclude_test.jsonl")
    assert row.content == {
        "kind": "mcq",
        "dataset": "medqa",
        "question": medqa()["question"],
        "options": medqa()["options"],
        "answer": "B",
        "explanation": "",
        "subject": "",
        "topic": "",
        "step": "step2&3",
        "split": "test",
    }
    assert row.language == "en"


# MedMCQA


@pytest.mark.parametrize(("first", "layout"), [(0, "jsonl-from-0"), (1, "jsonl-from-1")])
@pytest.mark.parametrize("number", [int, float, str])
def test_right_options_are_numbered_from_0_or_1_as_the_file_does(tmp_path, first, layout, number):
    path = tmp_path / "dev.json"
    path.write_bytes(jsonl(*(medmcqa(n, cop=number(first + n)) for n in (1, 2, 3, 0))))
    detected_layout = importers.load("medmcqa").sniff(path)
    assert detected_layout.name == layout
    rows = rows_of(importers.load("medmcqa"), path)
    assert [row.content["answer"] for row in rows] == ["B", "C", "D", "A"]
    assert {row.content["split"] for row in rows} == {"dev"}


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([1, 2], "neither 0 nor 4"),
        ([0, 4], "'cop' is 0 in 1 and 4 in 1 of its first 2 records"),
        ([0, *[1, 2, 3, 4] * 7], "'cop' is 0 in 1 and 4 in 7"),  # which of them is the slip?
        ([0, *[1, 2, 3] * 10], "'cop' is 0 in 1 and 4 in 0 of its first 31 records"),
    ],
)
def test_a_file_with_ambiguous_option_numbers_is_refused(refusal_reason, numbers, reason):
    file = jsonl(*(medmcqa(n, cop=cop) for n, cop in enumerate(numbers)))
    assert reason in refusal_reason(importers.load("medmcqa"), file)


def test_a_slip_among_many_option_numbers_is_refused_alone(read_rows):
    entries = read_rows(importers.load("medmcqa"), jsonl(*(medmcqa(n, cop=n % 4 + 1 if n else 0) for n in range(81))))
    assert [entry.where for entry in entries if isinstance(entry, Refusal)] == ["line 1"]
    assert [entry.content["answer"] for entry in entries[1:5]] == ["B", "C", "D", "A"]


# MedNLI


def test_an_entailment_of_mednli_refers_to_the_contradiction_of_its_premise(read_rows):
    true, neutral, false = read_rows(
        importers.load("mednli"),
        jsonl(mednli(1, gold_label="entailment"), mednli(2, gold_label="neutral"), mednli(3)),
        "mli_train_v1.jsonl",
    )
    assert true.content == {
        "kind": "nli-entailment",
        "dataset": "mednli",
        "premise": "Creatinine was 1.7, baseline 0.5.",
        "hypothesis": "The patient has normal creatinine (1).",
        "label": "entailment",
        "split": "train",
    }
    assert true.references == {"mednli": (false.match,)}
    assert (neutral.content["kind"], neutral.match, neutral.references) == ("nli-neutral", "", {})
    assert mednli_format.withheld


def test_an_unknown_label_of_mednli_is_refused(read_rows):
    [refusal] = read_rows(importers.load("mednli"), jsonl(mednli(gold_label="-")))
    assert "'gold_label' is not one of" in refusal.reason


# Augmented clinical notes


def test_a_note_has_its_extractions_and_their_values(read_rows):
    [row] = read_rows(importers.load("acn"), jsonl(notes()))
    extractions = [
        {"category": "visit motivation", "concept": "visit motivation", "value": "Made-up neck pain", "reference": ""},
        {"category": "patient information", "concept": "age", "value": "16 years old", "reference": ""},
        {"category": "patient information", "concept": "sex", "value": "Female", "reference": ""},
        {"category": "symptoms", "concept": "name of symptom", "value": "Neck pain", "reference": ""},
        {"category": "symptoms", "concept": "time", "value": "4 months", "reference": "Neck pain"},
        {"category": "symptoms", "concept": "name of symptom", "value": "Fever", "reference": ""},
        {"category": "symptoms", "concept": "time", "value": "2 days", "reference": "Fever"},
        {"category": "treatments", "concept": "name", "value": "Madeupin", "reference": ""},
        {"category": "treatments", "concept": "dosage", "value": "5 mg", "reference": "Madeupin"},
    ]
    assert row.content["extractions"] == extractions
    assert row.content["text"] == notes()["full_note"]
    assert ("symptoms/time", "4 months") in row.values
    assert len(row.values) == 9


# Bad rows


def changed_notes(n: int, **changes: Any) -> dict[str, Any]:
    return notes(n) | changes


MAKERS = {"medhal": published, "medqa": medqa, "medmcqa": medmcqa, "acn": changed_notes}
BAD_ROWS = {
    "medhal": [
        ({"statement": " "}, "'statement' is blank"),
        ({"statement": None}, "'statement' is not a text"),
        ({"label": "maybe"}, "'label' is neither true nor false"),
        ({"source": "elsewhere"}, "'source' is not one of acm, acn, medmcqa"),
        ({"explanation": ["x"]}, "'explanation' is not a text"),
        ({"id": "two words"}, "id is longer"),
    ],
    "medqa": [
        ({"options": "a, b"}, "'options' is neither a list nor an object"),
        ({"options": {"A": "x"}}, "2 to 26 options"),
        ({"options": {"A": "x", "B": " "}}, "An option has no text"),
        ({"options": {"AA": "x", "B": "Madeupin"}}, "not a letter"),
        ({"answer_idx": "E"}, "'answer_idx' is not one of the options"),
        ({"answer_idx": "A"}, "different options"),
        ({"answer_idx": None, "answer": "Nothing"}, "'answer' is not one of the options"),
        ({"question": ""}, "'question' is blank"),
    ],
    "medmcqa": [
        ({"cop": None}, "names no right option"),
        ({"cop": -1}, "names no right option"),
        ({"cop": True}, "names no right option"),
        ({"opc": None}, "'opc' is not a text"),
    ],
    "acn": [
        ({"summary": "{not json"}, "'summary' is not JSON"),
        ({"summary": "[1]"}, "'summary' is not a JSON object"),
        ({"summary": '{"age": "None"}'}, "has no extraction"),
        ({"summary": "[" * 5000}, "nested too deeply"),
        ({"summary": {"list": [str(n) for n in range(500)]}}, "more than 400 values"),
        ({"idx": " "}, "'idx' is blank"),
        ({"full_note": "", "note": " "}, "'note' is blank"),
    ],
}


@pytest.mark.parametrize(
    ("name", "changes", "reason"), [(name, *row) for name, rows in BAD_ROWS.items() for row in rows]
)
def test_a_bad_row_is_refused_and_the_others_kept(read_rows, name, changes, reason):
    make = MAKERS[name]
    first = make(1, cop=4) if name == "medmcqa" else make(1)  # which tells that the others count from 1
    good, refusal, last = read_rows(importers.load(name), jsonl(first, make(2, **changes), make(3)))
    assert isinstance(good, Row)
    assert isinstance(last, Row)
    assert isinstance(refusal, Refusal)
    assert refusal.where == "line 2"
    assert reason in refusal.reason


# SumPubMed


def write_documents(folder: Path, count: int = 3) -> None:
    for part, stem in (("text", "text"), ("abstract", "abstract"), ("shorter_abstract", "abst")):
        (folder / part).mkdir(parents=True)
        for n in range(1, count + 1):
            (folder / part / f"{stem}_{n}.txt").write_text(f"{part} of document {n}.\n")


def zip_documents(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.txt")):
            archive.write(file, file.relative_to(folder))
    return path


@pytest.mark.parametrize("form", ["folder", "below", "zip"])
def test_folders_and_zip_archives_of_sumpubmed_give_the_same_rows(tmp_path, form):
    outer = tmp_path / "outer"
    folder = outer / "SumPubMed-master"
    write_documents(folder)
    (folder / "line_text").mkdir()
    (folder / "line_text" / "text_1.txt").write_text("not read")
    path = {"folder": folder, "below": outer}.get(form) or zip_documents(outer, tmp_path / "s.zip")
    layout = sumpubmed.sniff(path)
    assert layout.name == ("zip" if form == "zip" else "folder")
    rows = rows_of(sumpubmed, path)
    assert [row.external_id for row in rows] == ["1", "2", "3"]
    assert rows[1].content == {
        "kind": "article",
        "dataset": "sumpubmed",
        "text": "text of document 2.",
        "abstract": "abstract of document 2.",
        "shorter_abstract": "shorter_abstract of document 2.",
        "split": "",
    }


def test_documents_of_two_folders_are_not_mixed(tmp_path):
    for folder in ("test", "train"):
        write_documents(tmp_path / folder, 1)
    (tmp_path / "test" / "shorter_abstract" / "abst_1.txt").unlink()
    [row] = rows_of(sumpubmed, tmp_path)
    assert row.content["shorter_abstract"] == ""


def test_a_document_without_abstract_or_with_other_bytes_is_refused_and_the_others_kept(tmp_path):
    write_documents(tmp_path, 4)
    (tmp_path / "abstract" / "abstract_1.txt").unlink()
    (tmp_path / "text" / "text_2.txt").write_bytes(b"a \x81 b")
    (tmp_path / "shorter_abstract" / "abst_3.txt").unlink()
    first, second, third, fourth = rows_of(sumpubmed, tmp_path)
    assert "no abstract" in first.reason
    assert "not UTF-8" in second.reason
    assert (third.content["shorter_abstract"], fourth.external_id) == ("", "4")


def test_a_file_that_is_not_sumpubmed_is_refused(tmp_path, monkeypatch, refusal_reason):
    assert "a folder or a zip archive" in refusal_reason(sumpubmed, b"text")
    with pytest.raises(WrongFormat, match="no text/text_N"):
        sumpubmed.sniff(tmp_path)
    assert "damaged" in refusal_reason(sumpubmed, b"PK\x03\x04 not really")
    write_documents(tmp_path / "d")
    path = zip_documents(tmp_path / "d", tmp_path / "s.zip")
    monkeypatch.setattr(bundles, "MAX_FILES", 8)
    with pytest.raises(WrongFormat, match="more than 8 files"):
        sumpubmed.sniff(path)


def test_a_file_in_an_archive_that_expands_to_more_than_a_record_may_have_is_refused(tmp_path, monkeypatch):
    write_documents(tmp_path / "d", 2)
    (tmp_path / "d" / "text" / "text_1.txt").write_text("x" * 5000)
    path = zip_documents(tmp_path / "d", tmp_path / "s.zip")
    monkeypatch.setattr(sumpubmed, "MAX_RECORD", 1000)
    refusal, row = rows_of(sumpubmed, path)
    assert "longer than 1,000 bytes" in refusal.reason
    assert row.external_id == "2"


# The real rows


@pytest.mark.parametrize(
    ("name", "file", "layout", "count", "split"),
    [
        ("medqa", "medqa/phrases_no_exclude_test.jsonl", "jsonl", 200, "test"),
        ("medmcqa", "medmcqa/dev.json", "jsonl-from-1", 300, "dev"),
        ("sumpubmed", "sumpubmed", "folder", 20, ""),
    ],
)
def test_all_real_rows_are_read(name, file, layout, count, split):
    importer, path = importers.load(name), public(file)
    detected_layout = importer.sniff(path)
    rows = rows_of(importer, path)
    assert detected_layout.name == layout
    assert [row for row in rows if not isinstance(row, Row)] == []
    assert len({row.external_id for row in rows}) == count
    assert {row.content["split"] for row in rows} == {split}


# Values of other records


def value_counts() -> dict[str, int]:
    """The number of stored values under each name."""
    counts: dict[str, int] = {}
    for row in NamedValues.objects.order_by("source", "name", "first"):
        assert row.first == (counts.get(row.name, 0) if row.first else 0)
        counts[row.name] = row.end
    return counts


@pytest.mark.django_db
@pytest.mark.both
def test_a_value_is_drawn_from_another_record_under_the_same_name_and_is_never_equal(tmp_path):
    def summary(n: int) -> dict[str, Any]:
        sexes = {"patient information": {"age": f"{n} years", "sex": " FEMALE" if n % 2 else "female"}}
        return {**sexes, "symptoms": [{"name": "ache", "age": "of symptom"}]}

    path = tmp_path / "notes.jsonl"
    path.write_bytes(jsonl(*(notes(n, summary(n)) for n in range(60))))
    names = ("patient information/age", "patient information/sex", "symptoms/name", "symptoms/age")
    digests = [digest_of(name) for name in names]
    run = services.run_import(services.start_import(path, format_name="acn", name="notes").pk)
    assert (run.added, run.refused, run.detail) == (60, 0, "")
    assert value_counts() == dict.fromkeys(digests, 60)
    records = list(SourceRecord.objects.order_by("pk"))
    values_of_records = [SourceValues(record) for record in records]
    age = "patient information/age"
    drawn = [values.draw_sync(age, [f"{n} years"], "0") or "" for n, values in enumerate(values_of_records)]
    assert all(value != f"{n} years" and value.endswith(" years") for n, value in enumerate(drawn))
    assert drawn == [values.draw_sync(age, [f"{n} years"], "0") for n, values in enumerate(values_of_records)]
    assert drawn != [values.draw_sync(age, [f"{n} years"], "1") for n, values in enumerate(values_of_records)]
    assert len(set(drawn)) > 25
    # Sexes differ only in case and space, and no other record has a weight.
    assert values_of_records[0].draw_sync("patient information/sex", ["female"], "0") is None
    assert values_of_records[0].draw_sync("patient information/weight", ["70 kg"], "0") is None
    services.run_import(services.start_import(path, format_name="acn", name="notes").pk)
    assert value_counts() == dict.fromkeys(digests, 60)
    path.write_bytes(jsonl(*(notes(n, summary(n)) for n in range(55, 65))))
    services.run_import(services.start_import(path, format_name="acn", name="notes").pk)
    assert value_counts() == dict.fromkeys(digests, 65)  # new ones follow the old ones
    drawn_values = {values_of_records[0].draw_sync(age, ["0 years"], str(seed)) for seed in range(400)}
    assert drawn_values == {f"{n} years" for n in range(1, 65)}
    path.write_bytes(jsonl(notes(99, {"patient information": {"age": "1 year"}})))
    services.run_import(services.start_import(path, format_name="acn", name="others").pk)
    # Values of another source are never drawn.
    assert values_of_records[0].draw_sync(age, [f"{n} years" for n in range(65)], "0") is None


@pytest.mark.django_db
def test_a_replaced_revision_is_never_drawn(tmp_path):
    def import_ages(*ages: int) -> None:
        path = tmp_path / "notes.jsonl"
        path.write_bytes(jsonl(*(notes(n, {"patient": {"age": f"{age} years"}}) for n, age in enumerate(ages))))
        services.run_import(services.start_import(path, format_name="acn", name="notes", updates=True).pk)

    import_ages(1, 2, 3)
    import_ages(1, 20, 3)
    first, replaced, _third, revision = (SourceValues(record) for record in SourceRecord.objects.order_by("pk"))
    for values, drawn in ((first, {"20 years", "3 years"}), (replaced, {"1 years", "3 years"})):
        assert {values.draw_sync("patient/age", [], str(seed)) for seed in range(40)} == drawn
    assert {revision.draw_sync("patient/age", [], str(seed)) for seed in range(40)} == {"1 years", "3 years"}


@pytest.mark.django_db
@pytest.mark.parametrize("lengths", [[1] * 130, [70_000] * 4, [300_000, 1, 1], []])
def test_a_row_has_dozens_of_values_or_fewer_long_ones(lengths: list[int]) -> None:
    fields = {"format": "acn", "label": "", "licence": "", "citation": ""}
    source = Source.objects.create(name="long", created_at=timezone.now(), **fields)
    values_by_record = [(pk, [("name", chr(97 + pk % 26) * length)]) for pk, length in enumerate(lengths)]
    with transaction.atomic():
        other_values.store_values(source, values_by_record[:3])
        other_values.store_values(source, values_by_record[3:])
    rows = NamedValues.objects.order_by("first")
    stored = [value for row in rows for value in zip(row.values[::2], row.values[1::2], strict=True)]
    assert stored == [(pk, values[0][1]) for pk, values in values_by_record]
    assert all(row.end - row.first == len(row.values) // 2 <= other_values.VALUES_PER_ROW for row in rows)
    assert all(
        row.end - row.first == 1 or sum(map(len, row.values[1::2])) <= other_values.MAX_ROW_LENGTH for row in rows
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_the_migration_gathers_values_stored_one_per_row() -> None:
    loader = MigrationLoader(connection, replace_migrations=False)
    migration = loader.disk_migrations["generation", "0014_named_values"]
    state = loader.project_state([("generation", "0013_near_matches")])
    migration.operations[0].state_forwards("generation", state)
    create, gather, _drop = migration.operations
    assert isinstance(create, CreateModel)
    assert isinstance(gather, RunPython)
    old_model = state.apps.get_model("generation", "RecordValue")
    fields = {"format": "acn", "label": "", "licence": "", "citation": "", "created_at": timezone.now()}
    with connection.schema_editor() as editor:
        editor.create_model(old_model)
    try:
        for name in ("notes", "others"):
            source = Source.objects.create(name=name, **fields)
            for number in range(70):
                record = SourceRecord.objects.create(source=source, external_id=str(number), title="", content={})
                for key in ("age", "sex"):
                    values = {
                        "name": digest_of(key),
                        "digest": f"{number}",
                        "place": 70 - number,
                        "text": f"{key} {number}",
                    }
                    old_model.objects.create(source_id=source.pk, record_id=record.pk, **values)
        with connection.schema_editor() as editor:
            gather.code(state.apps, editor)
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(old_model)
    record = SourceRecord.objects.get(source__name="notes", external_id="3")
    drawn = {SourceValues(record).draw_sync("age", ["AGE 3"], str(seed)) for seed in range(500)}
    assert drawn == {f"age {number}" for number in range(70) if number != 3}
    assert value_counts() == {digest_of("age"): 70, digest_of("sex"): 70}


@pytest.mark.django_db
def test_a_contradiction_is_found_by_its_premise_anywhere_in_the_file(tmp_path):
    path = tmp_path / "mli_train_v1.jsonl"
    rows = [mednli(n, gold_label="entailment", sentence1=f"Premise {n}.") for n in range(3)]
    rows += [mednli(10 + n, sentence1=f"PREMISE  {n}.") for n in range(3)]
    path.write_bytes(jsonl(*rows))
    services.run_import(services.start_import(path, format_name="mednli", name="nli").pk)
    entailed = list(SourceRecord.objects.filter(content__kind="nli-entailment").order_by("pk"))
    joined = partner_contents(entailed)
    assert [[other["hypothesis"] for other in joined[record.pk]["mednli"]] for record in entailed] == [
        [f"The patient has normal creatinine ({10 + n})."] for n in range(3)
    ]


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ({"text": "a\x00b"}, True),
        ({"text": "\ud800"}, True),
        ({"number": float("nan")}, True),
        ({"key\x00": "b"}, True),
        ({"text": "\\u0000 and \\ud800, written out"}, False),
        ({"text": "😀 膝痛"}, False),
        ({"text": "plain", "number": 1.5, "list": [None, True, {"a": "b"}]}, False),
    ],
)
def test_values_that_cannot_be_stored_are_refused_and_others_stored_unchanged(
    value: dict[str, Any], refused: bool
) -> None:
    if refused:
        with pytest.raises(Malformed):
            storable_json(value)
    else:
        assert json.loads(storable_json(value)) == value
