"""A table of one's own: its columns are recognised, mapped and checked before it is imported."""

import importlib
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from generation import errors
from generation.batches.launch import BatchSettings, launch_batch
from generation.batches.queries import unused_record_counts
from generation.batches.services import work_on_batch
from generation.images.files import write_image
from generation.llm.simulator.server import make_app, run_in_background
from generation.models import Import, ImportRefusal, Sample, SavedMapping, Source, SourceRecord
from generation.models.work import Work
from generation.recipes import registry
from generation.sources import own_tables, services, uploads
from generation.sources.importers import Layout, Refusal, Row, table
from generation.sources.importers.base import WrongFormat
from generation.sources.importers.table_mapping import guess, role_of
from generation.sources.own_tables import OwnTable
from review.models import User
from tests.api.conftest import Api, api
from tests.engine import Manage, endpoint
from tests.generation.rows import jsonl, parquet

__all__ = ["api"]

EXCEL = (
    "Fall-Nr;Befund;Fachabteilung;Sprache;;\r\n"
    "1001.0;Schmerzen in der Brust seit zwei Tagen, Übelkeit;Kardiologie;Deutsch;;\r\n"
    "1002.0;;Chirurgie;de;;\r\n"
    ";;;;;\r\n"
    ";Schwellung der Füße ohne Fieber, seit gestern;Chirurgie;de-CH;;\r\n"
    "1001;Schmerzen im Bauch seit zwei Tagen, Übelkeit;Kardiologie;de;;\r\n"
).encode("cp1252")
EXCEL_COLUMNS = {
    "columns": {"id": ["Fall-Nr"], "text": ["Befund"], "language": ["Sprache"], "specialty": ["Fachabteilung"]},
    "values": {},
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Row | Refusal]]:
    """Return a function that reads data with a mapping, by default the one that is guessed."""

    def read_data(data: bytes, mapping: dict[str, Any] | None = None) -> list[Row | Refusal]:
        path = tmp_path / "file"
        path.write_bytes(data)
        used = mapping or next(table.preview(str(path), None))["mapping"]
        return list(table.rows(path, Layout(table.sniff(path).name, mapping=used)))

    return read_data


def contents(entries: Sequence[Row | Refusal]) -> list[Any]:
    return [entry.content if isinstance(entry, Row) else entry.reason for entry in entries]


# ------------------------------------------------------------------------------------ what is read


def test_a_table_of_a_spreadsheet_is_read(read) -> None:
    first, blank, unnamed, again = read(EXCEL)
    assert (first.external_id, first.language, first.content["specialty"]) == ("1001", "de", "Kardiologie")
    assert first.content["kind"] == "report"
    assert "Übelkeit" in first.content["text"]
    assert blank == Refusal("line 3", "'Befund' is blank.")
    assert (unnamed.language, len(unnamed.external_id), unnamed.where) == ("de", 24, "line 5")
    # The id does not depend on the place in the file.
    lines = EXCEL.split(b"\r\n")
    assert read(b"\r\n".join([lines[0], lines[4], *lines[1:4]]))[0].external_id == unnamed.external_id
    assert again.external_id == "1001"


@pytest.mark.parametrize(
    ("data", "columns"),
    [
        (
            "编号,病历,科室\n1,患者男，60岁，胸痛2小时。,心内科\n".encode("gb18030"),
            {"id": ["编号"], "text": ["病历"], "specialty": ["科室"]},
        ),
        (
            "رقم\tالتقرير\tالتخصص\n7\tمريض يعاني من ألم في الصدر منذ يومين\tالقلب\n".encode("utf-16"),
            {"id": ["رقم"], "text": ["التقرير"], "specialty": ["التخصص"]},
        ),
        (
            b"A,B\n1,the longest of the values\n",
            {"text": ["B"]},
        ),
        (
            jsonl({"id": 5, "annotations": [], "data": {"text": "A case.", "meta_info": {"x": 1}}}),  # Label Studio
            {"id": ["id"], "text": ["data.text"]},
        ),
        (
            json.dumps([{"id": "a", "status": "done", "fields": {"chat": []}, "metadata": {}}]).encode(),  # Argilla
            {"id": ["id"], "turns": ["fields.chat"]},
        ),
        (b"nr,patient_1,doctor_1\n1,It hurts,Where?\n", {"id": ["nr"], "turns": ["patient_1", "doctor_1"]}),
        (
            b"question,opa,opb,answer\nWhich?,Aspirin,E. coli,b\n",
            {"question": ["question"], "answer": ["answer"], "options": ["opa", "opb"]},
        ),
        (
            b"Frage;Antwort;Text\nWirkt es?;Ja;Es wirkt.\n",
            {"question": ["Frage"], "answer": ["Antwort"], "context": ["Text"]},
        ),
    ],
    ids=["Chinese", "Arabic", "longest", "Label Studio", "Argilla", "turns", "options", "passages"],
)
def test_columns_are_guessed_from_their_names(tmp_path: Path, data: bytes, columns: dict[str, list[str]]) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert next(table.preview(str(path), None))["mapping"] == {"columns": columns, "values": {}}


@pytest.mark.parametrize(
    "turns",
    [
        [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}, {"role": "ai", "content": "Oh"}],
        [{"author": "Patientin", "text": "Hi "}, {"author": "Dr. Kim", "text": "Oh"}],
        {"messages": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Oh"}]},
        json.dumps([{"speaker": "患者", "text": "Hi"}, {"speaker": "医生", "text": "Oh"}]),
        [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Oh"}]},
        ],
        "Patient: Hi\nArzt: Oh",
        "患者：Hi\r\n医生：Oh",
    ],
)
def test_turns_are_read_however_they_are_written(read, turns: object) -> None:
    [row] = read(jsonl({"id": "a", "turns": turns}), {"columns": {"turns": ["turns"], "id": ["id"]}})
    assert row.content["turns"] == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Oh"}]


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ("He says that it hurts.", "neither a list of turns nor lines"),
        ([{"role": "narrator", "content": "Hi"}], "The role of turn 1"),
        ([{"role": "user", "content": " "}], "Turn 1 has no text"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            "Turn 1 has a part that is not a text",
        ),
        ([{"role": "assistant", "content": "Oh"}], "The patient says nothing"),
        (None, "'turns' is blank"),
    ],
)
def test_what_is_no_conversation_is_refused(read, turns: object, reason: str) -> None:
    [refusal] = read(jsonl({"turns": turns}), {"columns": {"turns": ["turns"]}})
    assert reason in refusal.reason


@pytest.mark.parametrize(
    ("options", "answer", "letter"),
    [
        (["A. Aspirin", "B. Ibuprofen"], "B", "B"),
        (["B. Aspirin", "A. Ibuprofen"], "Aspirin", "B"),
        (["E. coli", "B. fragilis"], "B. fragilis", "B"),
        ("['Aspirin; Ibuprofen', 'None']", "A", None),
        (["Aspirin", "None"], "None", "B"),
        ({"b": "Aspirin", "a": "Ibuprofen"}, "aspirin", "B"),
        ("Aspirin\nIbuprofen", "(b)", "B"),
        ([{"key": "B", "value": "Aspirin"}, {"key": "A", "value": "Ibuprofen"}], "Aspirin", "B"),
        ([{"label": "A", "text": "Aspirin"}, {"label": "B", "text": "Ibuprofen"}], "B", "B"),
        ([{"A": "Aspirin"}, {"B": "Ibuprofen"}], "B", "B"),
        ({"label": ["A", "B"], "text": ["Aspirin", "Ibuprofen"]}, "B", "B"),
        ([{"key": "A", "value": "Aspirin"}, {"key": "A", "value": "Ibuprofen"}], "A", None),
        (["A bruise", "Fluid", "A torn ligament"], "A torn ligament", "C"),
        (["S. aureus", "P. vulgaris", "C. albicans"], "C. difficile", None),
        (["B", "A", "AB"], "A", None),  # a letter, or the text of another option
        (["−2.5", "2.5"], "-2.5", "A"),
        ("Aspirin | E. coli", "E. coli", "B"),
        (["A", "B"], "C", None),
        (["Aspirin"], "A", None),
    ],
)
def test_the_answer_is_one_of_the_options(read, options: object, answer: str, letter: str | None) -> None:
    mapping = {"columns": {"question": ["q"], "options": ["o"], "answer": ["a"]}}
    [entry] = read(jsonl({"q": "Which?", "o": options, "a": answer}), mapping)
    assert (entry.content["answer"] if isinstance(entry, Row) else None) == letter


@pytest.mark.parametrize(
    ("header", "cells"), [("opa,opb,opc,opd", "X,,Y,Z"), ("option 3,option 1,option 4,option 2", "Y,X,Z,")]
)
def test_columns_of_options_have_their_letters_whichever_are_empty(read, header: str, cells: str) -> None:
    [row] = read(f"question,answer,{header}\nWhich?,C,{cells}\n".encode())
    assert (row.content["options"], row.content["answer"]) == ({"A": "X", "C": "Y", "D": "Z"}, "C")


REDCAP = (
    "record_id,redcap_event_name,redcap_repeat_instrument,redcap_repeat_instance,note,flag___1\n"
    '7,first_visit_arm_1,,,"A woman of 51 with a rash,\nwithout fever.",1\n'
    "7,second_visit_arm_1,,,The rash had faded at the second visit.,\n"
    "7,second_visit_arm_1,labs,2,Ferritin was 12 µg/L.,\n"
    "8,first_visit_arm_1,,,,\n"
)


@pytest.mark.parametrize("mapping", [{"columns": {"id": ["record_id"], "text": ["note"]}}, None])
def test_each_visit_of_a_redcap_export_is_a_record_of_its_own(read, mapping) -> None:
    *visits, blank = read(REDCAP.encode(), mapping)
    assert [row.external_id for row in visits] == [
        "7_first_visit_arm_1",
        "7_second_visit_arm_1",
        "7_second_visit_arm_1_labs_2",
    ]
    assert blank.reason == "'note' is blank."


def test_visits_of_a_redcap_export_with_labels_are_records_of_their_own(read) -> None:
    header = "Record ID,Event Name,Repeat Instrument,Repeat Instance,Clinical note\n"
    rows = read(f"{header}1,Baseline,Visit,1,Chest pain.\n1,Baseline,Visit,2,It is gone.\n".encode())
    assert [row.external_id for row in rows] == ["1_Baseline_Visit_1", "1_Baseline_Visit_2"]


@pytest.mark.django_db
def test_an_id_may_be_of_several_columns(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("patient,visit,text\n1,1,It hurts.\n1,2,It is gone.\n")
    both = import_table(path, {"columns": {"id": ["patient", "visit"], "text": ["text"]}})
    assert (both.added, sorted(both.source.records.values_list("external_id", flat=True))) == (2, ["1_1", "1_2"])


def test_neither_a_header_that_stands_again_nor_a_footer_is_a_record(read) -> None:
    data = "id,text\n1,It hurts.\nid,text\n2,Total protein was 80 g/L.\n\nTotal,2\nTotal hip,It hurts.\n合计：2 例,\n"
    entries = read(data.encode(), {"columns": {"id": ["id"], "text": ["text"]}})
    assert [entry.external_id if isinstance(entry, Row) else (entry.where, entry.reason) for entry in entries] == [
        *("1", "2", ("line 6", "This is a line of totals, not a record."), "Total_hip"),
        ("line 8", "This is a line of totals, not a record."),
    ]


def test_a_line_of_units_is_no_record(read) -> None:
    data = "id,text,age\n(number),[free text],(years)\n1,(It hurts.),54\n"
    units, row = read(data.encode(), {"columns": {"id": ["id"], "text": ["text"]}})
    assert (units.where, units.reason, row.external_id) == ("line 2", "This is a line of units, not a record.", "1")


def test_the_line_that_markdown_draws_is_no_record(read) -> None:
    data = "| id | text |\n|:---|---:|\n| 1 | It hurts. |\n"
    line, row = read(data.encode(), {"columns": {"id": ["id"], "text": ["text"]}})
    assert (line.where, line.reason, row.external_id) == ("line 2", "This is a drawn line, not a record.", "1")


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "data": [{"id": 1, "text": "It hurts."}]},
        {"columns": ["id", "text"], "index": [0], "data": [[1, "It hurts."]]},
        {"text": {"0": "It hurts."}, "id": {"0": 1}},
    ],
)
def test_an_object_around_records_is_no_record(read, document: Any) -> None:
    with pytest.raises(WrongFormat, match="a JSON object of records: save it as an array"):
        read(json.dumps(document).encode())


def test_an_object_over_several_lines_is_told(read) -> None:
    with pytest.raises(WrongFormat, match="goes on over several lines: write each on one, or all in an array"):
        read(json.dumps({"id": 1, "text": "It hurts."}, indent=2).encode())


def test_a_key_to_the_answers_is_their_column(read) -> None:
    choices = {"text": ["Aspirin", "Heparin"], "label": ["A", "B"]}
    [row] = read(jsonl({"id": "q1", "question": "Which?", "choices": choices, "answerKey": "B"}))
    assert (row.content["options"], row.content["answer"]) == ({"A": "Aspirin", "B": "Heparin"}, "B")


def test_a_table_ends_where_another_one_begins(read) -> None:
    """Else texts would become ids, and ids texts."""
    data = "id,text\n1,It hurts.\ntext,id\nIt burns.,2\n"
    row, end = read(data.encode(), {"columns": {"id": ["id"], "text": ["text"]}})
    assert (row.external_id, end.where) == ("1", "line 3 and everything after it")
    assert "another header begins here" in end.reason


def test_a_group_of_columns_above_their_names_is_no_header(read) -> None:
    with pytest.raises(WrongFormat, match="has no name"):
        read(b"Case,,Meta\nid,text,specialty\n1,It hurts.,Cardiology\n")


@pytest.mark.parametrize(
    "data", ["id,text\n1,A.\n\ufeff2,B.\n", '{"id": 1, "text": "A."}\n\ufeff{"id": 2, "text": "B."}\n']
)
def test_a_mark_within_a_file_that_was_joined_is_no_text(read, data: str) -> None:
    assert [row.external_id for row in read(data.encode(), {"columns": {"id": ["id"], "text": ["text"]}})] == ["1", "2"]


@pytest.mark.parametrize(
    ("written", "code"), [("English", "en"), ("en-US", "en"), ("Deutsch", "de"), ("zh_Hans", "zh"), ("日语", "ja")]
)
def test_a_language_is_read_by_its_code_tag_or_name(read, written: str, code: str) -> None:
    [row] = read(f"id,text,language\n1,A case.,{written}\n".encode())
    assert row.language == code


@pytest.mark.parametrize("blank", ["None", "null", "nan", "#N/A", "<NA>", "\u200b\ufeff \u200f"])
def test_a_missing_text_is_none_however_a_tool_writes_it(read, blank: str) -> None:
    [row, refusal] = read(f"id,text,language\n1,A case.,eng\n2,{blank},en\n".encode())
    assert (row.language, refusal.reason) == ("en", "'text' is blank.")


def test_an_error_of_a_spreadsheet_is_no_text(read) -> None:
    data = "id,text,age\n1,#REF!,54\n#NAME?,A case.,33\n3,A case with # in it.,#VALUE!\n"
    first, second, third = read(data.encode(), {"columns": {"id": ["id"], "text": ["text"]}})
    assert first.reason == "'text' is the error #REF! of a spreadsheet."
    assert second.reason == "'id' is the error #NAME? of a spreadsheet."
    assert third.content["text"] == "A case with # in it.", "nobody reads the column with the error"


def test_a_title_above_the_names_of_columns_is_told(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("Export of November,,\nid,text,sex\n1,A case.,f\n")
    with pytest.raises(WrongFormat, match="If a title stands above the names of the columns, delete it"):
        table.sniff(path)


def test_a_passage_may_be_a_list_or_several_columns(read) -> None:
    record = {"q": "Does it?", "a": "Yes", "one": ["First.", "Second."], "two": '["Third."]', "three": "Fourth."}
    mapping = {"columns": {"question": ["q"], "answer": ["a"], "context": ["one", "two", "three"]}}
    [row] = read(jsonl(record), mapping)
    assert row.content["contexts"] == ["First.", "Second.", "Third.", "Fourth."]
    assert (row.content["kind"], row.content["answer"]) == ("qa", "Yes")


def test_parquet_with_objects_in_it_is_read(read) -> None:
    data = parquet({"id": 1, "data": {"text": "A case.", "n": 2}}, {"id": 2, "data": {"text": None, "n": 2}})
    row, refusal = read(data)
    assert (row.external_id, row.content["text"], refusal.where) == ("1", "A case.", "row 2")


def test_the_types_of_parquet_are_read_as_csv_has_them(read) -> None:
    record = {"id": Decimal("1001.00"), "text": b"A case.", "specialty": date(2026, 1, 2)}
    [row] = read(parquet(record))
    assert (row.external_id, row.content["text"], row.content["specialty"]) == ("1001", "A case.", "2026-01-02")


def test_parquet_with_two_columns_of_a_name_is_refused(read) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table([["1"], ["one"], ["other"]], names=["id", "text", "text"]), buffer)
    with pytest.raises(WrongFormat, match="two columns 'text'"):
        read(buffer.getvalue())


def test_parquet_with_two_columns_without_a_name_is_read(read) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table([["0"], ["0"], ["1"], ["A case."]], names=["", "", "id", "text"]), buffer)
    [row] = read(buffer.getvalue())
    assert (row.external_id, row.content["text"]) == ("1", "A case.")


def test_a_number_as_the_answer_is_refused_as_it_may_count_from_0_or_be_a_text(read) -> None:
    record = {"question": "How many?", "options": ["1", "2", "3"]}
    number, text = read(jsonl(record | {"answer": 1}, record | {"answer": "1"}))
    assert "none of the options" in number.reason
    assert text.content["answer"] == "A"


def test_a_role_is_a_word_of_its_own() -> None:
    assert [role_of(name) for name in ("doctor_2", "Frau Dr. Kim", "Patient A", "doctrine", "")] == [
        *("assistant", "assistant", "user", "", "")
    ]
    assert guess(["patient", "age"], {}).columns == {"text": ("patient",)}


# ---------------------------------------------------------------------------------------- imports


def import_table(path: Path, mapping: dict[str, Any], name: str = "clinic", **options: Any) -> Import:
    own = OwnTable(own_tables.read_mapping(mapping), licence="internal", restrictions="not for publication")
    run = services.start_import(path, format_name="table", name=name, table=own, **options)
    return services.run_import(run.pk)


@pytest.mark.django_db
@pytest.mark.both
def test_a_table_becomes_records_that_benchmarks_use(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_bytes(EXCEL)
    run = import_table(path, EXCEL_COLUMNS)
    assert (run.rows, run.added, run.differs, run.refused) == (4, 2, 1, 1)
    assert run.facets == {"specialty": {"Kardiologie": 2, "Chirurgie": 1}}
    source = Source.objects.get()
    assert (source.licence, source.restrictions) == ("internal", "not for publication")
    assert unused_record_counts(source, "mhb") == {"report": 2}
    again = import_table(path, EXCEL_COLUMNS, updates=True)
    assert (again.added, again.same, again.differs) == (0, 2, 1)
    for columns, rows, kind, benchmark in (
        (["q", "a", "context"], {"q": "Does it?", "a": "Yes, it does.", "context": "It does."}, "qa", "medhallu"),
        (["q", "a", "options"], {"q": "Which?", "a": "Yes", "options": ["Yes", "No"]}, "mcq", "medhal"),
        (["turns"], {"turns": "Patient: It hurts."}, "dialogue", "mhb"),
    ):
        path.write_bytes(jsonl(rows))
        names = {"q": "question", "a": "answer"}
        import_table(path, {"columns": {names.get(column, column): [column] for column in columns}}, kind)
        assert unused_record_counts(Source.objects.get(name=kind), benchmark) == {kind: 1}


REPORT = (
    "A 61-year-old man came with pain in the chest that had begun two hours before. The electrocardiogram showed ST"
    " elevation, and he was given aspirin and taken to the catheter laboratory, where a stent was placed."
)
SIMULATED = {"filter": "sim-critic", "critic": "sim-critic", "entailment": "sim-nli"} | {
    f"voter_{number}": f"sim-voter-{letter}" for number, letter in enumerate("abc", 1)
}
ANSWER = "Aspirin lowers the risk of a second infarction in adults who have had a first one."


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("benchmark", "columns", "record"),
    [
        ("mhb", {"text": ["report"]}, {"report": REPORT}),
        (
            "mhb",
            {"turns": ["said"]},
            {"said": f"Patient: {REPORT}\nDoctor: What else?\nPatient: I take aspirin daily."},
        ),
        (
            "medhallu",
            {"question": ["q"], "answer": ["a"], "context": ["c"]},
            {"q": "Does aspirin lower the risk of a second infarction?", "a": ANSWER, "c": [REPORT]},
        ),
        (
            "medhal",
            {"question": ["q"], "answer": ["a"], "options": ["o"]},
            {"q": f"{REPORT} Which drug was he given?", "a": "B", "o": ["Ibuprofen", "Aspirin", "Insulin"]},
        ),
    ],
    ids=["text", "turns", "passages", "options"],
)
def test_samples_are_made_from_a_table(tmp_path: Path, benchmark: str, columns: Any, record: Any) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(jsonl(record))
    source = import_table(path, {"columns": columns}).source
    script = importlib.import_module(f"mhb_site.benchmarks.{benchmark}.simulate").SCRIPT
    with run_in_background(make_app([script], seed=1, retry_after=0.001)) as url:
        needed = [
            role.name
            for role in registry.recipe(benchmark).roles
            if role.name in SIMULATED or not (role.default or role.optional or role.checks)
        ]
        roles = {name: endpoint(url, SIMULATED.get(name, f"sim-{name}")) for name in needed}
        batch = launch_batch(BatchSettings(benchmark=benchmark, source=source, roles=roles, checks=()))
        work_on_batch(batch.pk)
    assert Sample.objects.filter(batch=batch).exists(), list(batch.drafts.values())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        ({"columns": {"id": ["Fall-Nr"]}}, "one of these three"),
        ({"columns": {"text": ["Befund"], "turns": ["Sprache"]}}, "one of these three"),
        ({"columns": {"question": ["Befund"]}}, "A question needs its answer"),
        ({"columns": {"text": ["Befund"], "answer": ["Sprache"]}}, "These need a question: Correct answer"),
        ({"columns": {"text": ["Befund", "Sprache"]}}, "Choose one column only for: Text"),
        (
            {"columns": {"text": ["Befund"], "language": ["Sprache"]}, "values": {"language": "de"}},
            "not both, for: Language",
        ),
        ({"columns": {"body": ["Befund"]}}, "columns.body"),
        ({"columns": {"text": ["Text"]}}, "no column 'Text'. Recognised: semicolons; columns found: Fall-Nr, Befund"),
        (None, "Say which column is which field. Recognised: semicolons"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(tmp_path: Path, mapping: Any, reason: str) -> None:
    path = tmp_path / "cases.csv"
    path.write_bytes(EXCEL)

    def start() -> Import:
        own = None if mapping is None else OwnTable(own_tables.read_mapping(mapping))
        return services.start_import(path, format_name="table", name="clinic", table=own)

    with pytest.raises(errors.WrongMapping) as refused:
        start()
    assert reason in str(refused.value)
    assert not Source.objects.exists()


@pytest.mark.django_db
def test_a_table_is_mapped_from_the_shell_and_the_mapping_saved(manage: Manage, tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_bytes(EXCEL)
    options = ("import_source", path, "--format", "table", "--name", "clinic")
    assert "Suggested: id=Fall-Nr; text=Befund" in manage.refusal(*options)
    columns = ("--map", "text=Befund", "--map", "id=Fall-Nr", "--set", "language=de", "--save-mapping", "findings")
    assert manage.json(*options, *columns)["added"] == 2
    assert Import.objects.get().mapping == {
        "columns": {"text": ["Befund"], "id": ["Fall-Nr"]},
        "values": {"language": "de"},
    }
    assert manage.json(*options, "--mapping", "findings", "--map", "specialty=Fachabteilung")["differs"] == 3
    assert "findings-2" in manage.refusal(*options, "--mapping", "findings-2")
    assert "'nothing' is not FIELD=COLUMN" in manage.refusal(*options, "--map", "nothing")


# ------------------------------------------------------------------------------------------- pages


@pytest.fixture
def admin(client: Client, adela: User, settings: Any, tmp_path: Path) -> Client:
    settings.MEDIA_ROOT = tmp_path / "uploads"
    client.force_login(adela)
    return client


def upload(admin: Client, data: bytes = EXCEL, name: str = "clinic") -> str:
    """Upload a table; the address of the page where its columns are mapped."""
    file = SimpleUploadedFile("Fälle.csv", data)
    return str(admin.post(reverse("generation:sources"), {"format": "table", "name": name, "file": file})["Location"])


def posted(columns: dict[str, str], **more: str) -> dict[str, Any]:
    return {"column": [*columns], "field": [*columns.values()], **more}


def used(page: str) -> list[str]:
    """What each column is used as."""
    return re.findall(r'<option value="(\w*)" selected', page.partition('name="column"')[2].partition("</tbody>")[0])


@pytest.mark.django_db
def test_a_table_is_uploaded_mapped_previewed_and_imported(admin: Client, tmp_path: Path) -> None:
    address = upload(admin)
    page = admin.get(address).content.decode()
    for text in ("Fälle.csv", "semicolons", "Schmerzen in der Brust", "&#x27;Befund&#x27; is blank.", "1001"):
        assert text in page
    assert used(page) == ["id", "text", "specialty", "language"]
    wrong = admin.post(address, posted({"Fall-Nr": "id", "Befund": ""}, **{"import": ""}))
    assert (wrong.status_code, "one of these three" in wrong.content.decode()) == (422, True)
    columns = {"Fall-Nr": "id", "Befund": "text", "Fachabteilung": "specialty", "Sprache": ""}
    preview = admin.post(address, posted(columns, language="de", preview=""))
    assert preview.status_code == 200
    assert not Import.objects.exists()
    terms = {"licence": "internal", "restrictions": "none of it", "save_as": "findings"}
    done = admin.post(address, posted(columns, language="de", **terms, **{"import": ""}))
    assert done["Location"] == reverse("generation:source", args=["clinic"])
    run = services.run_import(Import.objects.get().pk)
    assert (run.status, run.added, run.file_name) == (Work.Status.DONE, 2, "Fälle.csv")
    assert Source.objects.get().licence == "internal"
    assert ImportRefusal.objects.filter(run=run, differs=False).get().reason == "'Befund' is blank."
    assert not list((tmp_path / "uploads").iterdir())
    # The upload is gone, and the next file starts with the columns of this one.
    assert admin.get(address)["Location"] == reverse("generation:sources")
    assert "findings" in SavedMapping.objects.values_list("name", flat=True)
    next_page = admin.get(upload(admin)).content.decode()
    assert used(next_page) == ["id", "text", "specialty", ""]
    assert "Restrictions" not in next_page
    other = upload(admin, name="other")
    assert used(admin.get(other).content.decode()) == ["id", "text", "specialty", "language"]
    assert used(admin.get(f"{other}?mapping=findings").content.decode()) == ["id", "text", "specialty", ""]


@pytest.mark.django_db
def test_an_upload_that_waits_is_kept_for_an_hour_after_its_last_use(admin: Client) -> None:
    token = upload(admin).split("/")[-2]
    waiting = uploads.kept(token)
    for again in range(2):
        os.utime(waiting.path, (0, 0))
        if not again:
            assert uploads.kept(token).name == "Fälle.csv"  # this is a use
        assert uploads.remove_orphans() == again
    for gone in (token, "forged"):
        with pytest.raises(errors.UnknownUpload):
            uploads.kept(gone)


@pytest.mark.django_db
def test_a_file_whose_writer_was_killed_is_removed(
    monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    settings.MHB_IMAGES = tmp_path
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", Mock(side_effect=KeyboardInterrupt))
        patch.setattr("pathlib.Path.unlink", Mock())
        with pytest.raises(KeyboardInterrupt):
            write_image("ab" * 32, b"half")
    [left] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert uploads.remove_orphans() == 0, "it may still be written"
    os.utime(left, (0, 0))
    assert uploads.remove_orphans() == 1
    assert not left.exists()


@pytest.mark.django_db
def test_a_table_is_previewed_and_imported_over_the_api(admin: Client, api: Api, adela: User) -> None:
    def file() -> SimpleUploadedFile:
        return SimpleUploadedFile("cases.csv", EXCEL)

    preview = api(adela).post(reverse("api:imports-preview"), {"file": file()}, "multipart").json()
    assert preview["mapping"] == EXCEL_COLUMNS
    assert preview["records"][1] == {"where": "line 3", "reason": "'Befund' is blank."}
    mappings = reverse("api:imports-mappings")
    saved = api(adela).post(mappings, {"name": "findings", "mapping": EXCEL_COLUMNS})
    assert saved.status_code == 201
    assert [each["name"] for each in api(adela).get(mappings).json()] == ["findings"]
    bad = api(adela).post(mappings, {"name": "findings", "mapping": {"columns": {"id": ["x"]}}})
    assert bad.status_code == 422
    body = {"format": "table", "name": "clinic", "licence": "internal"}
    for mapping in ("findings", json.dumps(EXCEL_COLUMNS)):
        answer = api(adela).post(reverse("api:imports"), {**body, "file": file(), "mapping": mapping}, "multipart")
        assert answer.status_code == 202
    broken = {**body, "file": file(), "mapping": "{"}
    assert api(adela).post(reverse("api:imports"), broken, "multipart").status_code == 422
    assert SourceRecord.objects.count() == 0
    assert Import.objects.count() == 2


@pytest.mark.parametrize("shape", ["[{}, {}]", "{}\n{}\n"])
def test_not_a_number_in_another_column_spoils_no_record(read: Callable[..., list[Row | Refusal]], shape: str) -> None:
    records = '{"id": "a", "text": "Two cups.", "score": NaN}', '{"id": "b", "text": NaN, "score": 1}'
    good, bad = read(shape.replace("{}", "%s").__mod__(records).encode(), {"columns": {"id": ["id"], "text": ["text"]}})
    assert isinstance(good, Row)
    assert isinstance(bad, Refusal)
    assert good.external_id == "a"
    assert bad.reason == "'text' is or contains NaN, which is not a number."


def test_not_a_number_is_blank_where_a_record_needs_no_value(read: Callable[..., list[Row | Refusal]]) -> None:
    data = b'[{"id": 1, "text": "Two cups.", "specialty": NaN, "language": "en", "licence": NaN}]'
    columns = {name: [name] for name in ("id", "text", "specialty", "language", "licence")}
    [row] = read(data, {"columns": columns})
    assert isinstance(row, Row)
    assert (row.external_id, row.language, row.facets) == ("1", "en", {})
