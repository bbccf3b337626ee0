"""Importers read good records, and refuse bad ones with place and reason.

Wrong files are refused before anything is imported.
"""

import contextlib
import csv
import gc
import gzip
import io
import json
import pickle
import zipfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generation.common.formats import UnknownFormat
from generation.common.languages import SURE, DetectedLanguage, detect
from generation.sources import importers
from generation.sources.importers import (
    acn,
    base,
    healthbench,
    medhal,
    medhallu,
    medmcqa,
    mednli,
    medqa,
    mesh,
    pmc_patients,
    pubmedqa,
)
from generation.sources.importers.base import Importer, Layout, Refusal, Row, WrongFormat
from review.rules.text import one_line
from tests.generation import statement_rows as shapes
from tests.generation.rows import array, descriptor, entry, hub, jsonl, keyed, pair, parquet, table, vocabulary
from tests.memory import peak_memory
from tests.profile import by_profile, public

CANARY = "canary GUID 00000000-made-up"


def conversation(**changes):
    return {
        "prompt_id": "made-up-1",
        "prompt": [
            {"role": "user", "content": "What should I do\nwith my mild headache?"},
            {"role": "assistant", "content": "How long have you had it?"},
            {"role": "user", "content": "Since this morning."},
        ],
        "rubrics": [
            {"criterion": "Advises rest and fluids.", "points": 5, "tags": ["axis:completeness"]},
            {"criterion": "Recommends an antibiotic.", "points": -6, "tags": []},
        ],
        "example_tags": ["theme:hedging"],
        "ideal_completions_data": None,
        "canary": CANARY,
    } | changes


def patient(**changes):
    return {
        "patient_id": "0",
        "patient_uid": "12345678-1",
        "PMID": "12345678",
        "file_path": "comm/PMC000/PMC0000000.xml",
        "title": "A case of made-up fever",
        "patient": "This 60-year-old man came with a fever that he had for two days.",
        "age": [[60.0, "year"]],
        "gender": "M",
        "relevant_articles": {"12345678": 2},
        "similar_patients": ["23456789-1"],
    } | changes


def test_formats_are_found_by_name():
    assert importers.available() == [
        *("acn", "clinhallu", "healthbench", "medframeqa", "medhal", "medhallu", "medmcqa"),
        *("medmistake", "medmistake-cases"),
        *("mednli", "mednli-test", "medpi", "medqa", "medxpertqa", "mesh", "mimic-di", "pathvqa"),
        *("pmc-patients", "pubmedqa", "sumpubmed", "table", "vqa-rad"),
    ]
    for name in importers.available():
        importer = importers.load(name)
        assert importer.name == name
        assert all([importer.label, importer.licence, importer.citation, importer.restrictions or name == "table"])


@pytest.mark.parametrize("name", ["nope", "base", "tables", "tabular", "pmc_patients", "../healthbench", "os"])
def test_an_unknown_format_is_refused_with_the_known_ones(name):
    with pytest.raises(UnknownFormat, match=", ".join(importers.available())):
        importers.load(name)


# HealthBench


def test_a_healthbench_row_is_read(read_rows):
    data = {"ideal_completion": "Rest, and see a doctor if …", "ideal_completions_group": "Group 1"}
    [row] = read_rows(healthbench, jsonl(conversation(ideal_completions_data=data, added_later={"any": 1})))
    assert row == Row(
        external_id="made-up-1",
        title="What should I do with my mild headache?",
        language="en",
        content={
            "kind": "dialogue",
            "turns": conversation()["prompt"],
            "rubrics": conversation()["rubrics"],
            "tags": ["theme:hedging"],
            "ideal_completion": "Rest, and see a doctor if …",
        },
        private={"canary": CANARY},
        where="line 1",
    )


def test_healthbench_extras_may_be_absent(read_rows):
    record = conversation(rubrics=[{"criterion": "Is kind.", "points": 0.5}])
    for key in ("example_tags", "ideal_completions_data", "canary"):
        del record[key]
    [row] = read_rows(healthbench, jsonl(record))
    assert row.content["rubrics"] == [{"criterion": "Is kind.", "points": 0.5, "tags": []}]
    assert (row.content["tags"], row.content["ideal_completion"], row.private) == ([], None, {})


def turn(role="user", content="Hello?"):
    return {"role": role, "content": content}


def rubric(criterion="Is kind.", points=1, **extra):
    return {"criterion": criterion, "points": points} | extra


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prompt_id": ""}, "'prompt_id' is blank"),
        ({"prompt_id": [7]}, "'prompt_id' is not a text"),
        ({"prompt_id": "two words"}, "Its id"),
        ({"prompt_id": "x" * 201}, "Its id"),
        ({"prompt": []}, "'prompt' is empty"),
        ({"prompt": "Hello?"}, "'prompt' is not a list"),
        ({"prompt": ["Hello?"]}, "Turn 1 is not an object"),
        ({"prompt": [turn("system"), turn()]}, "Turn 1: 'role' is not one of 'user' or 'assistant'"),
        ({"prompt": [turn(content=" \n")]}, "Turn 1: 'content' is blank"),
        ({"prompt": [turn(content=7)]}, "Turn 1: 'content' is not a text"),
        (
            {"prompt": [turn(content=[{"type": "image_url"}])]},
            "Turn 1: 'content' has a part that is not a text, such as",
        ),
        ({"prompt": [turn(), turn("assistant")]}, "does not end with the user"),
        ({"rubrics": None}, "'rubrics' is not a list"),
        ({"rubrics": ["Is kind."]}, "Rubric 1 is not an object"),
        ({"rubrics": [rubric(), rubric(criterion=" ")]}, "Rubric 2: 'criterion' is blank"),
        ({"rubrics": [rubric(points="5")]}, "Rubric 1: 'points' is not a number from -1000 to 1000"),
        ({"rubrics": [rubric(points=True)]}, "Rubric 1: 'points' is not a number from -1000 to 1000"),
        ({"rubrics": [rubric(points=10**400)]}, "Rubric 1: 'points' is not a number from -1000 to 1000"),
        ({"rubrics": [rubric(tags="axis")]}, "Rubric 1: 'tags' is not a list of texts"),
        ({"example_tags": [1]}, "'example_tags' is not a list of texts"),
        ({"ideal_completions_data": {"ideal_completion": 1}}, "'ideal_completions_data' contains no text"),
        ({"prompt": [turn(content="a\x00b")]}, "NUL"),
        ({"prompt": [turn(content="a\ud800b")]}, "not UTF-8"),
        ({"canary": "a\x00b"}, "NUL"),
        ({"canary": {"a\x00b": 1}}, "NUL"),
    ],
)
def test_a_bad_conversation_is_refused_and_the_next_one_kept(read_rows, changes, reason):
    refusal, row = read_rows(healthbench, jsonl(conversation(**changes), conversation(prompt_id="made-up-2")))
    assert isinstance(refusal, Refusal)
    assert refusal.where == "line 1"
    assert reason in refusal.reason
    assert isinstance(row, Row)
    assert (row.external_id, row.where) == ("made-up-2", "line 2")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"prompt_id": "made-up-2", "prompt": [', "not JSON"),
        (b'{"prompt_id": "\xff"}', "not UTF-8 (byte 16)"),
        (b'{"prompt_id": "a\x00b"}', "not JSON"),
        (b'{"prompt_id": NaN, "points": NaN}', "'prompt_id' is or contains NaN"),
        (b'{"points": ' + b"9" * 5000 + b"}", "out of range"),
        (b"[" * 100_000, "more than 100 deep"),
        (b'["an", "array"]', "not a JSON object"),
        (b'"' + b"x" * (2 * base.MAX_RECORD) + b'"', "longer than 8,388,608 bytes"),
        (json.dumps({"prompt": [turn()], "completion": "Hi.", "rubric": "Is kind."}).encode(), "HealthBench meta-eval"),
    ],
    ids=["truncated", "not utf-8", "nul", "nan", "digits", "deep", "array", "too long", "meta-eval"],
)
def test_a_bad_line_is_refused_and_the_others_kept(read_rows, line, reason):
    first, refusal, last = read_rows(
        healthbench, jsonl(conversation()) + line + b"\r\n\r\n" + jsonl(conversation(prompt_id="made-up-3"))
    )
    assert refusal.where == "line 2"
    assert reason in refusal.reason
    assert (first.where, last.where, last.external_id) == ("line 1", "line 4", "made-up-3")


def test_bom_crlf_blank_lines_and_a_missing_last_newline_are_accepted(read_rows):
    line = json.dumps(conversation()).encode()
    result = read_rows(healthbench, b"\xef\xbb\xbf\r\n" + line + b"\r\n  \r\n" + line)
    assert [(type(row), row.where) for row in result] == [(Row, "line 2"), (Row, "line 4")]


def test_nan_in_a_column_that_is_not_read_spoils_no_record(read_rows):
    [row] = read_rows(healthbench, jsonl(conversation(added_later=float("nan"))))
    assert row.external_id == "made-up-1"


@pytest.mark.parametrize("more", [{}, {"prompt_id": "made-up-1", "completion_id": "made-up-2"}])
def test_a_file_of_meta_eval_rows_is_refused_by_name(refusal_reason, more):
    row = {"prompt": [turn()], "completion": "Hi.", "rubric": "Is kind.", "binary_labels": [True], **more}
    assert "It is HealthBench meta-eval" in refusal_reason(healthbench, jsonl(row, row))


def test_no_refusal_quotes_the_canary(read_rows):
    line = json.dumps(conversation()).encode()
    for cut in range(len(line) + 1):
        for data in (line[:cut], line[cut:]):
            for result in read_rows(healthbench, jsonl(conversation()) + data):
                if isinstance(result, Refusal):
                    assert CANARY[:6] not in result.reason


def test_twenty_real_conversations_are_read():
    path = public("healthbench/healthbench.jsonl")
    rows = list(healthbench.rows(path, healthbench.sniff(path)))
    assert len(rows) == 20
    for row in rows:
        assert isinstance(row, Row)
        canary = row.private["canary"]
        assert canary
        assert canary not in json.dumps([row.external_id, row.title, row.content], ensure_ascii=False)
        assert row.content["turns"][-1]["role"] == "user"
        assert row.content["rubrics"]
        assert "\n" not in row.title
        assert 0 < len(row.title) <= 80
    assert len({row.external_id for row in rows if isinstance(row, Row)}) == 20


# PMC-Patients


EXPECTED = {
    "kind": "report",
    "text": patient()["patient"],
    "title": "A case of made-up fever",
    "age": [[60.0, "year"]],
    "gender": "M",
    "pmid": "12345678",
}


@pytest.mark.parametrize(("make", "where"), [(table, "line 2"), (array, "record 1")], ids=["csv-v1", "json-v2"])
def test_both_layouts_give_the_same_row(read_rows, make, where):
    for relations in ({"23456789-1": 1}, ["23456789-1"]):
        [row] = read_rows(pmc_patients, make(patient(similar_patients=relations, relevant_articles=relations)))
        assert row == Row(
            "12345678-1", "A case of made-up fever", "en", EXPECTED, {}, where, shares=[("document", "12345678")]
        )


def test_column_order_and_further_columns_do_not_matter(read_rows):
    record = patient(added_later="x") | {"": "0"}
    assert read_rows(pmc_patients, table(record, columns=list(record)[::-1]))[0].content == EXPECTED
    assert read_rows(pmc_patients, array(dict(reversed(record.items()))))[0].content == EXPECTED


@pytest.mark.parametrize("make", [table, array], ids=["csv-v1", "json-v2"])
def test_only_text_and_an_id_are_needed(read_rows, make):
    [row] = read_rows(pmc_patients, make({"patient": "发热两天。", "patient_id": "7"}))
    assert (row.external_id, row.title, row.language) == ("7", "发热两天。", "zh")
    assert (row.content["age"], row.content["gender"], row.content["pmid"]) == ([], "", "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"patient": " "}, "'patient' is blank"),
        ({"patient_uid": "", "patient_id": ""}, "'patient_uid' is blank"),
        ({"patient_uid": "a b"}, "Its id"),
        ({"gender": "male"}, "'gender'"),
        ({"age": "sixty"}, "'age'"),
        ({"age": "__import__('os')"}, "'age'"),
        ({"age": [[60.0]]}, "'age' is not a list of [number, unit]"),
        ({"age": [[60.0, "light-year"]]}, "'age' contains a unit"),
        ({"age": [[-1, "year"]]}, "'age' contains a number"),
        ({"age": "[" * 500}, "'age'"),
        ({"age": "-" * 900 + "1"}, "'age'"),
        ({"age": "[" + "1," * 600 + "]"}, "longer than 1000 characters"),
    ],
)
@pytest.mark.parametrize("make", [table, array], ids=["csv-v1", "json-v2"])
def test_a_bad_patient_is_refused_and_the_next_one_kept(read_rows, make, changes, reason):
    refusal, row = read_rows(pmc_patients, make(patient(**changes), patient(patient_uid="12345678-2")))
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
    assert row.external_id == "12345678-2"


def test_a_record_after_a_multi_line_text_has_the_right_line_number(read_rows):
    text = 'He had fever.\nHe said: "Doctor, help."\n\nHe was given fluids.'
    first, second = read_rows(pmc_patients, table(patient(patient=text), patient(patient_uid="12345678-2")))
    assert first.content["text"] == text
    assert (first.where, second.where) == ("line 2", "line 6")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda line: line.replace(b"fever that", b"fever \xff that"), "not UTF-8"),
        (lambda line: line.replace(b"fever that", b"fever \x00 that"), "NUL"),
        (lambda line: b"a,b,c\r\n", "The header has 10 columns, this record has 3"),
        (lambda line: b'"x"' + line, "not CSV"),
        (lambda line: line.replace(b"This 60", b"This " + b"x" * base.MAX_RECORD), "longer than 8,388,608 bytes"),
    ],
    ids=["not utf-8", "nul", "columns", "quote", "too long"],
)
def test_a_bad_csv_line_is_refused_and_the_others_kept(read_rows, damage, reason):
    good, bad, other = (table(patient(patient_uid=f"12345678-{n}")).splitlines(keepends=True)[1] for n in range(3))
    header = table(patient()).splitlines(keepends=True)[0]
    first, refusal, last = read_rows(pmc_patients, b"\xef\xbb\xbf" + header + good + damage(bad) + b"\r\n" + other)
    assert (first.external_id, last.external_id) == ("12345678-0", "12345678-2")
    assert refusal.where == "line 3"
    assert reason in refusal.reason


def test_an_unclosed_quote_is_refused(read_rows):
    data = b'patient_id,patient\r\n0,He had fever.\r\n1,"He had fever.\r\n2,He had fever.\r\n'
    result = read_rows(pmc_patients, data)
    assert [(type(entry), entry.where) for entry in result] == [(Row, "line 2"), (Refusal, "line 3"), (Row, "line 4")]


def test_bytes_that_are_not_text_spoil_only_their_own_element(read_rows):
    data = array(patient(), patient(patient_uid="12345678-2"), patient(patient_uid="12345678-3"))
    for damage in (
        b"fever \xff that",
        b"fever \x00 that",
        b"fever \xe5 that",
        b"fever \x1b that",
        b"fever \\u0000 that",
    ):
        parts = data.split(b"fever that")
        spoilt = parts[0] + b"fever that" + parts[1] + damage + parts[2] + b"fever that" + parts[3]
        first, refusal, last = read_rows(pmc_patients, b"\xef\xbb\xbf" + spoilt)
        assert (first.where, refusal.where, last.where) == ("record 1", "record 2", "record 3")
        assert isinstance(refusal, Refusal)
        assert (first.external_id, last.external_id) == ("12345678-1", "12345678-3")


@pytest.mark.parametrize("cut", [1, 2, 50, 100, 200, 300])
def test_a_truncated_array_keeps_the_rows_before_the_break(read_rows, cut):
    data = array(patient(), patient(patient_uid="12345678-2"))
    *rows, refusal = read_rows(pmc_patients, data[:-cut])
    assert rows
    assert all(isinstance(row, Row) for row in rows)
    where = f"record {len(rows) + 1} and everything after it"
    assert refusal == Refusal(where, "The array breaks off here: the file ends before it does.")


@pytest.mark.parametrize("damage", [b" oops]", b", {1: 2}]", b", {'1': 2}]"])
def test_a_broken_array_is_refused_at_the_broken_record(read_rows, damage):
    *rows, refusal = read_rows(pmc_patients, array(patient(), patient(patient_uid="2-1"))[:-1] + damage)
    assert all(isinstance(row, Row) for row in rows)
    where = f"record {len(rows) + 1} and everything after it"
    assert refusal == Refusal(where, "The array breaks off here: what follows is not JSON.")


@pytest.mark.parametrize("value", [b"NaN", b"[{}, [-Infinity]]", b'"\n"', b'{"a": "\\x]"}', b"9" * 5000, b"None"])
@pytest.mark.parametrize("place", [b', {"age": %s}, ', b", %s, "])
def test_a_value_that_is_no_json_spoils_only_its_own_record(read_rows, value, place):
    last = json.dumps(patient(patient_uid="3-1")).encode()
    result = read_rows(pmc_patients, array(patient())[:-1] + place % value + last + b"]")
    assert [(type(entry), entry.where) for entry in result] == [
        (Row, "record 1"),
        (Refusal, "record 2"),
        (Row, "record 3"),
    ]


def test_an_endless_element_is_not_read_into_memory(read_rows):
    row, refusal = read_rows(pmc_patients, array(patient())[:-1] + b', "' + b"x" * (2 * base.MAX_RECORD))
    assert isinstance(row, Row)
    assert refusal.where == "record 2 and everything after it"
    assert "longer than 8,388,608 bytes" in refusal.reason


def test_an_endless_csv_record_is_not_read_into_memory(read_rows):
    # Each field is below the limit of a field; together they exceed that of a record.
    long = b'"' + b"x" * (base.MAX_RECORD // 3) + b'\n",'
    row, refusal, *_ = read_rows(pmc_patients, b"patient_id,patient\n0,He had fever.\n" + long * 4)
    assert isinstance(row, Row)
    assert refusal == Refusal("line 3", "This is not CSV: record longer than 8,388,608 bytes.")


def test_elements_that_are_no_objects_are_refused(read_rows):
    result = read_rows(pmc_patients, b'[1, "x", null, [], [{}], ' + array(patient())[1:])
    assert [type(one) for one in result] == [Refusal] * 5 + [Row]


@pytest.mark.parametrize("make", [table, array], ids=["csv-v1", "json-v2"])
def test_missing_columns_are_named(refusal_reason, make):
    record = patient()
    del record["patient"]
    assert "'patient'" in refusal_reason(pmc_patients, make(record))
    del record["patient_uid"], record["patient_id"]
    record["patient"] = "He had fever."
    assert "'patient_uid' (or 'patient_id')" in refusal_reason(pmc_patients, make(record))


# Every importer


def zipped_conversations() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.jsonl", jsonl(conversation()))
    return file.getvalue()


WRONG_FILES = {
    "empty": (b"", "empty"),
    "blank": (b"\xef\xbb\xbf \r\n\n" + b" " * 100, "empty"),
    "gzip": (gzip.compress(jsonl(conversation())), "gzip"),
    "zip": (zipped_conversations(), "zip"),
    "pickle": (pickle.dumps(conversation()), "pickle"),
    "parquet": (b"PAR1\x15\x04\x15", "Parquet"),
    "lfs pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
    "web page": (b"<!doctype html><title>Sign in</title>", "web page"),
    "image": (b"\x89PNG\r\n\x1a\n\x00\x00", ""),
    "prose": (b"Dear colleague,\nthe file is attached.\n", ""),
    "empty array": (b"[]", "array"),
    "array of numbers": (b"[1, 2]", "array"),
    "object": (b'{"12345678": {"QUESTION": "Is it?"}}', ""),
    "broken array": (b'[{"patient": "x', ""),
}


@pytest.mark.parametrize("wrong_file", WRONG_FILES)
@pytest.mark.parametrize("name", importers.available())
def test_a_wrong_file_is_refused_with_its_kind(refusal_reason, name, wrong_file):
    data, kind = WRONG_FILES[wrong_file]
    assert kind in refusal_reason(importers.load(name), data)


@pytest.mark.parametrize("name", importers.available())
def test_a_folder_is_refused_and_a_missing_file_is_an_os_error(tmp_path, name):
    with pytest.raises(WrongFormat, match="folder"):
        importers.load(name).sniff(tmp_path)
    with pytest.raises(FileNotFoundError):
        importers.load(name).sniff(tmp_path / "nothing")


def test_a_wrong_layout_is_refused_before_any_row(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(array(patient()))
    with pytest.raises(WrongFormat):
        next(pmc_patients.rows(path, Layout("csv-v1")))


FILES = [
    (healthbench, "jsonl", jsonl(conversation(), conversation(prompt_id="made-up-2"))),
    (pmc_patients, "csv-v1", table(patient(), patient(patient_uid="12345678-2"))),
    (pmc_patients, "json-v2", array(patient(), patient(patient_uid="12345678-2"))),
    (pubmedqa, "json-object", keyed(entry(), entry(YEAR=None))),
    (pubmedqa, "jsonl", jsonl(hub(), hub(12345679))),
    (pubmedqa, "parquet", parquet(hub(), hub(12345679))),
    (medhallu, "jsonl", jsonl(pair(), pair(Question="Is it?"))),
    (medhallu, "csv", table(pair(), pair(Question="Is it?"))),
    (medhallu, "parquet", parquet(pair(), pair(Question="Is it?"))),
    (medhal, "csv", table(shapes.published(), shapes.published(2))),
    (medqa, "jsonl", jsonl(shapes.medqa(), shapes.medqa(2))),
    (medmcqa, "jsonl-from-1", jsonl(shapes.medmcqa(cop=4), shapes.medmcqa(2))),
    (mednli, "jsonl", jsonl(shapes.mednli(), shapes.mednli(2, gold_label="entailment"))),
    (acn, "jsonl", jsonl(shapes.notes(), shapes.notes(2))),
    (mesh, "xml", vocabulary(descriptor(), descriptor(2, "Adult", "M01.060.116"))),
]


def read_all(importer: Importer, path: Path, layout: Layout) -> bool:
    """Read a file to its end, and check that every row can be stored: JSON in UTF-8, without NUL.

    Returns whether no row was refused.
    """
    results = list(importer.rows(path, layout))
    for result in results:
        if isinstance(result, Row):
            stored = [result.external_id, result.title, result.content, result.private]
            assert "\x00" not in str(stored)
            json.dumps(stored, ensure_ascii=False, allow_nan=False).encode()
    return all(isinstance(result, Row) for result in results)


@settings(max_examples=by_profile(75, 150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(FILES), data=st.binary(max_size=200) | st.text("[]{}\",:\\'\n\r0e-ntf ", max_size=60))
def test_arbitrary_bytes_never_crash(tmp_path, file, data):
    importer, layout, _ = file
    path = tmp_path / "file"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    for choose_layout in (lambda: importer.sniff(path), lambda: Layout(layout)):
        try:
            read_all(importer, path, choose_layout())
        except WrongFormat:
            continue


@settings(max_examples=by_profile(75, 600), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(FILES), draw=st.data())
def test_damaged_files_never_crash(tmp_path, file, draw):
    importer, _, good = file
    start = draw.draw(st.integers(0, len(good)))
    end = draw.draw(st.integers(start, min(start + 40, len(good))))
    damage = draw.draw(st.binary(max_size=8) | st.sampled_from([b'"', b"\\", b"\n", b"\r", b"[", b"}", b"\\ud800"]))
    path = tmp_path / "file"
    path.write_bytes(good[:start] + damage + good[end:])
    with contextlib.suppress(WrongFormat):
        read_all(importer, path, importer.sniff(path))


def write_big_file(path: Path, importer: Importer, layout: str, count: int) -> None:
    """Write `count` short records, one at a time."""
    text = "He had fever."
    records = (short_record(importer, n, text) for n in range(count))
    with path.open("w", encoding="utf-8", newline="") as file:
        match layout:
            case "csv-v1":
                file.write("patient_uid,patient\n")
                file.writelines(f"{n}-1,{text}\n" for n in range(count))
            case "csv":
                writer = csv.DictWriter(file, list(short_record(importer, 0, text)))
                writer.writeheader()
                writer.writerows(records)
            case "json-v2":
                file.write("[")
                file.writelines(f"{',' if n else ''}{json.dumps(record)}" for n, record in enumerate(records))
                file.write("]")
            case "json-object":
                file.write("{")
                file.writelines(f'{"," if n else ""}"{n + 1}": {json.dumps(entry())}' for n in range(count))
                file.write("}")
            case "xml":
                head, tail = vocabulary("|").decode().split("|")
                file.write(head)
                file.writelines(descriptor(n, f"Madeupitis {n}") for n in range(count))
                file.write(tail)
            case "parquet":
                first = pa.Table.from_pylist([short_record(importer, 0, text)])
                with pq.ParquetWriter(path, first.schema) as writer:
                    for start in range(0, count, 1000):
                        rows = [short_record(importer, start + n, text) for n in range(1000)]
                        writer.write_table(pa.Table.from_pylist(rows, first.schema))
            case _:
                file.writelines(json.dumps(record) + "\n" for record in records)


def short_record(importer: Importer, n: int, text: str) -> dict[str, object]:
    match importer.name:
        case "pubmedqa":
            return hub(n + 1, long_answer=text)
        case "medhallu":
            return pair(Question=f"Is it {n}?")
        case "medhal" | "medqa" | "mednli":
            shape: dict[str, object] = getattr(shapes, {"medhal": "published"}.get(importer.name, importer.name))(n)
            return shape
        case "medmcqa":
            return shapes.medmcqa(n, cop=4)
        case "acn":
            return shapes.notes(n, {"age": "3"})
        case "pmc-patients":
            return {"patient_uid": f"{n}-1", "patient": text, "age": [[60.0, "year"]]}
    return {"prompt_id": str(n), "prompt": [turn(content=text)], "rubrics": [], "canary": "x"}


@pytest.mark.parametrize(("importer", "layout"), [(importer, layout) for importer, layout, _ in FILES])
def test_memory_does_not_grow_with_the_number_of_records(tmp_path, importer, layout, monkeypatch):
    # Language detection keeps nothing in memory, and would take most of the time.
    monkeypatch.setattr(base, "detect", lambda _text: DetectedLanguage("en", 1.0))

    def read_all(path: Path, count: int) -> None:
        assert sum(isinstance(row, Row) for row in importer.rows(path, importer.sniff(path))) == count

    peaks = []
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # as in a worker: uncollected garbage counts, too
    # Full collections are rarer the more objects there are: leave out what earlier tests created.
    gc.freeze()
    gc.collect()
    try:
        for count in (
            1_000,
            large_count := by_profile(4_000, 200_000 if importer in (healthbench, pmc_patients) else 20_000),
        ):
            path = tmp_path / str(count)
            write_big_file(path, importer, layout, count)
            peaks.append(peak_memory(partial(read_all, path, count)))
    finally:
        gc.set_threshold(*thresholds)
    assert peaks[0] < 1024 * 1024
    # In bytes; if only the ids were kept, it would be more than that.
    assert peaks[1] - peaks[0] < 20 * (large_count - 1_000)


# Languages and titles


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What should I do with my headache?", "en"),
        ("我头痛两天了，应该怎么办？", "zh"),
        ("我在吃 metformin，可以继续吗？血糖还是很高，最近一直头晕。", "zh"),
        ("頭が痛いのですが、どうすればいいですか？", "ja"),
        ("머리가 아픈데 어떻게 해야 하나요?", "ko"),
        ("Tengo dolor de cabeza desde ayer, ¿qué debo hacer para mejorar?", "es"),
        ("Ik heb sinds gisteren hoofdpijn en ik weet niet wat ik moet doen.", "nl"),
        ("Ich habe seit gestern starke Kopfschmerzen, was soll ich tun?", "de"),
        ("Headache?", ""),
        ("Paracetamol 500 mg", ""),
        ("sudden blurred vision in left eye", ""),  # detected as Danish, with 0.91
        ("https://example.org/firstaid/cuts/index.html", ""),
        ("ለሦስት ቀናት ራስ ምታት አለብኝ", ""),  # the detector knows no language with this script
        ("1234 !?", ""),
        ("", ""),
    ],
)
def test_the_language_is_detected_only_when_sure(text, language):
    detected = detect(text)
    assert detected.language == language
    assert 0 <= detected.confidence <= 1
    assert detected.confidence >= SURE or not detected.language


@given(st.text(), st.integers(2, 100))
def test_a_title_is_one_line_and_short(text, length):
    title = one_line(text, length)
    assert len(title) <= length
    assert len(title.splitlines()) <= 1
    assert bool(title) == bool(text[: length * 10].strip())


def test_a_title_is_cut_between_words_if_possible():
    assert one_line("one two three four", 12) == "one two…"
    assert one_line("我头痛两天了应该怎么办呢", 8) == "我头痛两天了应…"
