"""PubMedQA, MedHallu and MeSH: every layout, every refusal, references between them, real rows."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generation.sources.importers import base, medhallu, mesh, pubmedqa, tables
from generation.sources.importers.base import Refusal, Row, digest_of
from tests.generation.rows import (
    ANSWER,
    CONTEXTS,
    QUESTION,
    array,
    descriptor,
    entry,
    hub,
    jsonl,
    keyed,
    pair,
    parquet,
    table,
    vocabulary,
)
from tests.profile import public


def without(record, *keys):
    return {key: value for key, value in record.items() if key not in keys}


# PubMedQA


EXPECTED = {
    "kind": "qa",
    "question": QUESTION,
    "contexts": CONTEXTS,
    "sections": ["BACKGROUND", "METHODS"],
    "answer": ANSWER,
    "decision": "yes",
    "pmid": "12345678",
    "year": "2011",
    "mesh": ["Adult", "Madeupitis"],
    "split": "labelled",
}
LAYOUTS = {
    "json-object": (keyed(entry()), "record 1 (PMID 12345678)", "2011"),
    "jsonl": (jsonl(hub()), "line 1", ""),
    "parquet": (parquet(hub()), "row 1", ""),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_layouts_of_pubmedqa_give_the_same_row(tmp_path, layout):
    data, where, year = LAYOUTS[layout]
    path = tmp_path / "file"
    path.write_bytes(data)
    detected_layout = pubmedqa.sniff(path)
    assert detected_layout.name == layout
    [row] = pubmedqa.rows(path, detected_layout)
    assert row == Row(
        external_id="12345678",
        title="Does the made-up drug lower the made-up pressure?",
        language="en",
        content=EXPECTED | {"year": year},
        private={},
        where=where,
        match=QUESTION,
        references={"mesh": ("Adult", "Madeupitis")},
        facets={"decision": "yes", "split": "labelled"},
    )


def test_optional_fields_may_be_missing_or_null(read_rows):
    bare = without(entry(), "LABELS", "MESHES", "YEAR", "reasoning_required_pred", "reasoning_free_pred")
    null = bare | {"LABELS": None, "MESHES": None, "YEAR": None, "final_decision": None}
    first, second = read_rows(pubmedqa, keyed(bare, null))
    assert first.content == EXPECTED | {"sections": [], "mesh": [], "year": "", "split": "artificial"}
    assert (first.references, first.facets) == ({}, {"decision": "yes", "split": "artificial"})
    assert second.content == EXPECTED | {"sections": [], "mesh": [], "year": "", "split": "", "decision": ""} | {
        "pmid": "12345679"
    }
    assert second.facets == {}


def test_numbers_of_a_table_with_gaps_are_whole_numbers(read_rows):
    """pandas writes 2009.0 where another record has no year."""
    [of_authors] = read_rows(pubmedqa, keyed(entry() | {"YEAR": 2009.0}))
    [of_hub] = read_rows(pubmedqa, jsonl(hub() | {"pubid": 12345678.0}))
    assert (of_authors.content["year"], of_hub.content["pmid"]) == ("2009", "12345678")


def test_artificial_rows_of_the_hub_are_read(read_rows):
    context = {"contexts": CONTEXTS, "labels": ["A", "B"], "meshes": ["Adult"]}
    row = hub() | {"context": context}
    for data in (jsonl(row), parquet(row)):
        [one] = read_rows(pubmedqa, data)
        assert (one.content["split"], one.content["mesh"]) == ("artificial", ["Adult"])
    [one] = read_rows(pubmedqa, jsonl(without(row, "final_decision")))
    assert (one.content["split"], one.content["decision"]) == ("", "")


def test_an_object_may_have_many_lines_and_begin_with_bad_records(read_rows):
    data = json.dumps({"1": 7, "2": {}, "3": entry()}, indent=2).encode()
    first, second, row = read_rows(pubmedqa, data)
    assert (first.where, second.where, row.where) == ("record 1 (PMID 1)", "record 2 (PMID 2)", "record 3 (PMID 3)")
    assert first.reason == "The record is not a JSON object."


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"QUESTION": " "}, "'QUESTION' is blank"),
        ({"QUESTION": None}, "'QUESTION' is not a text"),
        ({"LONG_ANSWER": ""}, "'LONG_ANSWER' is blank"),
        ({"CONTEXTS": "one text"}, "'CONTEXTS' is not a list of texts"),
        ({"CONTEXTS": [1]}, "'CONTEXTS' is not a list of texts"),
        ({"CONTEXTS": [], "LABELS": []}, "no context"),
        ({"CONTEXTS": [" "], "LABELS": []}, "no context"),
        ({"LABELS": ["BACKGROUND"]}, "as many sections as contexts"),
        ({"LABELS": {"a": 1}}, "'LABELS' is not a list of texts"),
        ({"MESHES": [None]}, "'MESHES' is not a list of texts"),
        ({"YEAR": "about 2011"}, "The year is not valid"),
        ({"YEAR": 2011.5}, "The year is not valid"),
        ({"final_decision": "perhaps"}, "'final_decision'"),
        ({"final_decision": ["yes"]}, "'final_decision'"),
        ({"CONTEXTS": ["a\x00b", "c"]}, "NUL"),
    ],
)
def test_a_bad_record_of_pubmedqa_is_refused_and_the_next_one_kept(read_rows, changes, reason):
    refusal, row = read_rows(pubmedqa, keyed(entry(**changes), entry()))
    assert isinstance(refusal, Refusal)
    assert refusal.where == "record 1 (PMID 12345678)"
    assert reason in refusal.reason
    assert isinstance(row, Row)


@pytest.mark.parametrize("key", ["", "PMC1", "１２", "1" * 300, "12 34"])
def test_a_key_that_is_no_pmid_is_refused(read_rows, key):
    refusal, row = read_rows(pubmedqa, json.dumps({key: entry(), "7": entry()}).encode())
    assert isinstance(refusal, Refusal)
    assert refusal.where == "record 1" or len(key) == 300
    assert row.external_id == "7"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pubid": None}, "'pubid'"),
        ({"pubid": True}, "'pubid'"),
        ({"pubid": "PMC1"}, "not a PMID"),
        ({"pubid": -1}, "not a PMID"),
        ({"context": None}, "'context' is not an object"),
        ({"context": "a text"}, "'context' is not an object"),
        ({"context": {"contexts": [1]}}, "'context.contexts' is not a list of texts"),
        ({"context": {}}, "no context"),
        ({"question": ""}, "'question' is blank"),
        ({"long_answer": None}, "'long_answer' is not a text"),
        ({"final_decision": "perhaps"}, "'final_decision'"),
    ],
)
def test_a_bad_line_of_the_hub_is_refused_and_the_others_kept(read_rows, changes, reason):
    first, refusal, last = read_rows(pubmedqa, jsonl(hub(), hub() | changes, hub(3)))
    assert (first.external_id, refusal.where, last.external_id) == ("12345678", "line 2", "3")
    assert reason in refusal.reason


def test_a_bad_row_of_a_parquet_file_is_refused(read_rows):
    good, bad = hub(), hub(3, context={"contexts": ["", " "]})
    assert [type(one) for one in read_rows(pubmedqa, parquet(good, bad, hub(4)))] == [Row, Refusal, Row]


@pytest.mark.parametrize("cut", [1, 2, 50, 300])
def test_a_truncated_object_keeps_the_rows_before_the_break(read_rows, cut):
    *rows, refusal = read_rows(pubmedqa, keyed(entry(), entry())[:-cut])
    assert [type(row) for row in rows] == [Row]
    assert refusal == Refusal(
        "record 2 and everything after it", "The object breaks off here: the file ends before it does."
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (array(hub()), "JSON array"),
        (b'{"train": [1, 2]}', "'QUESTION'"),
        (jsonl(pair()), "'QUESTION'"),
        (parquet(pair()), "'pubid'"),
        (parquet(hub())[:-100], "damaged or not complete"),
        (b"pubid,question\n1,Is it?\n", "It is not JSON; PubMedQA is one JSON object on each line or Parquet."),
    ],
)
def test_a_file_that_is_not_pubmedqa_is_refused(refusal_reason, data, reason):
    assert reason in refusal_reason(pubmedqa, data)


# MedHallu


EXPECTED_PAIR = {
    "kind": "qa-pair",
    "question": QUESTION,
    "knowledge": CONTEXTS,
    "answer": ANSWER,
    "hallucinated": "The made-up drug lowers the made-up pressure only in children.",
    "difficulty": "hard",
    "category": "MQ",
    "split": "",
}


@pytest.mark.parametrize(
    ("make", "layout", "where"), [(jsonl, "jsonl", "line 1"), (table, "csv", "line 2"), (parquet, "parquet", "row 1")]
)
def test_all_layouts_of_medhallu_give_the_same_row(tmp_path, make, layout, where):
    path = tmp_path / "file"
    path.write_bytes(make(pair()))
    detected_layout = medhallu.sniff(path)
    assert detected_layout.name == layout
    [row] = medhallu.rows(path, detected_layout)
    assert row == Row(
        external_id=digest_of(QUESTION)[:24],
        title="Does the made-up drug lower the made-up pressure?",
        language="en",
        content=EXPECTED_PAIR,
        private={},
        where=where,
        match=QUESTION,
        references={"pubmedqa": (QUESTION,)},
        facets={"difficulty": "hard", "category": "MQ"},
    )


@pytest.mark.parametrize("make", [jsonl, table, parquet])
def test_column_names_may_be_written_differently(read_rows, make):
    other = {name.lower().replace(" ", "_"): value for name, value in pair().items()}
    for record in (other, dict(reversed(pair().items())), pair() | {"more": "x"}):
        assert read_rows(medhallu, make(record))[0].content == EXPECTED_PAIR


@pytest.mark.parametrize(
    ("published", "code"),
    [
        ("Misinterpretation of #Question#", "MQ"),
        ("misinterpretation  of the question", "MQ"),
        ("Incomplete Information", "II"),
        (" INCOMPLETE INFORMATION\n", "II"),
        ("Mechanism and Pathway Misattribution", "MP"),
        ("Mechanism/pathway misattribution", "MP"),
        ("Methodological and Evidence Fabrication", "MF"),
    ],
)
def test_published_categories_become_codes(read_rows, published, code):
    [row] = read_rows(medhallu, jsonl(pair(Category_of_Hallucination=published)))
    assert (row.content["category"], row.facets["category"]) == (code, code)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Question": ""}, "'Question' is blank"),
        ({"Ground_Truth": " "}, "'Ground Truth' is blank"),
        ({"Hallucinated_Answer": ""}, "'Hallucinated Answer' is blank"),
        ({"Difficulty_Level": "very hard"}, "'Difficulty Level' is not one of easy, medium, hard"),
        ({"Category_of_Hallucination": "Overgeneralisation"}, "'Category of Hallucination' is not one"),
        ({"Category_of_Hallucination": "##"}, "'Category of Hallucination' is not one"),
        ({"Knowledge": []}, "'Knowledge' has no text"),
        ({"Knowledge": [" "]}, "'Knowledge' has no text"),
    ],
)
@pytest.mark.parametrize("make", [jsonl, table, parquet])
def test_a_bad_row_of_medhallu_is_refused_and_the_others_kept(read_rows, make, changes, reason):
    first, refusal, last = read_rows(medhallu, make(pair(), pair(**changes), pair(Question="Is it?")))
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
    assert (first.content, last.content["question"]) == (EXPECTED_PAIR, "Is it?")


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ("""['one', "it's two"]""", ["one", "it's two"]),
        (r"""['a\nb', 'c\'d', 'é\u00e9']""", ["a\nb", "c'd", "éé"]),
        ("""['one' "it's two"\n 'three']""", ["one", "it's two", "three"]),
        ("[ 'one', ]", ["one"]),
    ],
    ids=["python", "escapes", "numpy", "spaces"],
)
def test_lists_written_as_text_are_read(read_rows, written, texts):
    [row] = read_rows(medhallu, table(pair(Knowledge=written)))
    assert row.content["knowledge"] == texts


@pytest.mark.parametrize(
    "written",
    [
        "one text",
        "['one', 2]",
        "['one'",
        "'one'",
        "('one', 'two')",
        "{'contexts': ['one']}",
        "['one', ['two']]",
        "[__import__('os').system('true')]",
        "['a' + 'b']",
        "[f'{1}']",
        "[b'one']",
        "['''one''']extra",
        "[" * 5000 + "]" * 5000,
        "[" + "-" * 5000 + "'x']",
        "['\\x']",
        "['one'; 'two']",
    ],
)
def test_any_other_value_in_place_of_a_list_is_refused(read_rows, written):
    refusal, row = read_rows(medhallu, table(pair(Knowledge=written), pair()))
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "'Knowledge' is not a list of texts."
    assert isinstance(row, Row)


def test_a_list_written_as_text_has_a_maximum_length(read_rows):
    refusal, _ = read_rows(medhallu, table(pair(Knowledge="['" + "x" * medhallu._MAX_LITERAL + "']"), pair()))
    assert "longer than 1,048,576 characters" in refusal.reason


def test_the_id_depends_only_on_the_question(read_rows):
    one, other, same = read_rows(
        medhallu, jsonl(pair(), pair(Question="Is it?"), pair(Question=f" {QUESTION.upper()}", Difficulty_Level="easy"))
    )
    assert one.external_id == same.external_id != other.external_id


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (jsonl(hub()), "Its records lack 'Knowledge'"),  # they do have a question
        (parquet(hub()), "It has no column"),
        (table(without(pair(), "Knowledge", "Ground Truth")), "It has no column 'Knowledge', 'Ground Truth'"),
        (array(pair()), "JSON array"),
    ],
)
def test_a_file_that_is_not_medhallu_is_refused(refusal_reason, data, reason):
    assert reason in refusal_reason(medhallu, data)


# MeSH


def test_mesh_descriptors_are_read(read_rows):
    adult = descriptor(2, "Adult &amp; old", "M01.060.116", "Z99")
    first, second = read_rows(mesh, vocabulary(descriptor(), adult))
    assert first == Row(
        external_id="D000001",
        title="Madeupitis",
        language="en",
        content={"kind": "term", "name": "Madeupitis", "trees": ["C14.280"]},
        private={},
        where="record 1",
        match="Madeupitis",
    )
    assert second.content == {"kind": "term", "name": "Adult & old", "trees": ["M01.060.116", "Z99"]}


def test_a_descriptor_may_have_no_tree_number(read_rows):
    [row] = read_rows(mesh, vocabulary(descriptor().replace("<TreeNumber>C14.280</TreeNumber>", ""), language="fre"))
    assert (row.content["trees"], row.language) == ([], "")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("<DescriptorUI>D000001</DescriptorUI>\n", "", "no DescriptorUI"),
        ("D000001", "Q000001", "DescriptorUI is not"),
        ("<String>Madeupitis</String>", "", "no DescriptorName/String"),
        ("Madeupitis", " ", "no DescriptorName/String"),
        ("<String>Madeupitis</String>", "<String>a</String><String>b</String>", "more than one"),
        ("C14.280", "heart", "TreeNumber"),
        ("Madeupitis", "Made&up;itis", "entity"),
        ('DescriptorRecord DescriptorClass="1"', "SupplementalRecord", "not a DescriptorRecord"),
    ],
)
def test_a_bad_descriptor_is_refused_and_the_others_kept(read_rows, old, new, reason):
    bad = descriptor().replace(old, new)
    if "Supplemental" in new:
        bad = bad.replace("</DescriptorRecord>", "</SupplementalRecord>")
    first, refusal, last = read_rows(mesh, vocabulary(descriptor(7), bad, descriptor(8)))
    assert (first.external_id, refusal.where, last.external_id) == ("D000007", "record 2", "D000008")
    assert reason in refusal.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<html><body>Sign in</body></html>", "web page"),
        (b"<?xml version='1.0'?><SupplementalRecordSet></SupplementalRecordSet>", "other XML"),
        (vocabulary(), "without descriptors"),
        (b"<DescriptorRecordSet", "web page or other XML"),
        (parquet(hub()), "Parquet"),
    ],
)
def test_a_file_that_is_not_mesh_is_refused(refusal_reason, data, reason):
    assert reason in refusal_reason(mesh, data)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:-60], "it ends before its last element does"),
        (lambda text: text.replace(b"D000002", b"<"), "what follows is not XML"),
        (lambda text: text.replace(b"D000002", b"\xff"), "what follows is not XML"),
        (lambda text: text.replace(b"D000002", b"D" * 2 * base.MAX_RECORD), "longer than 8,388,608 bytes"),
        (lambda text: text.replace(b"D000002", b"<a>" * 2_000_000), "more than 50 deep"),
    ],
    ids=["cut", "markup", "bytes", "text without end", "nesting without end"],
)
def test_broken_xml_keeps_the_descriptors_before_the_break(read_rows, damage, reason):
    row, refusal = read_rows(mesh, damage(vocabulary(descriptor(), descriptor(2))))
    assert isinstance(row, Row)
    assert refusal.where == "record 2 and everything after it"
    assert reason in refusal.reason


# Tables


def test_a_text_in_parquet_that_is_not_utf_8_spoils_only_its_row(tmp_path):
    columns = {name: [json.dumps(value) if isinstance(value, list) else value] * 3 for name, value in pair().items()}
    columns["Knowledge"] = ["['one']"] * 3
    columns["Ground Truth"] = pa.array([b"fine", b"\xff\xfe", b"fine"]).view(pa.string())
    path = tmp_path / "file"
    pq.write_table(pa.table(columns), path)
    results = list(medhallu.rows(path, medhallu.sniff(path)))
    assert [type(one) for one in results] == [Row, Refusal, Row]
    assert results[1] == Refusal("row 2", "A cell of the row cannot be read.")


def test_a_parquet_file_is_read_in_pieces(tmp_path):
    """Of one row group of a hundred megabytes, Arrow holds only a small part at any moment."""
    path = tmp_path / "file"
    rows = [pair(Question=f"Is it {n}?", Knowledge=[f"{n} " + "x" * 5000]) for n in range(20_000)]
    pq.write_table(pa.Table.from_pylist(rows), path, use_dictionary=False, compression="none")
    del rows
    assert path.stat().st_size > 100_000_000
    before = pa.total_allocated_bytes()
    with tables.open_parquet(path) as file:
        peak = max(pa.total_allocated_bytes() for _ in tables.parquet_batches(file, list(pair())))
    assert peak - before < 20_000_000


def test_thrift_out_of_memory_is_the_limit_and_not_a_damaged_file(tmp_path, monkeypatch):
    def out_of_memory(*_about, **_options):
        raise OSError("Couldn't deserialize thrift: std::bad_alloc\n")

    path = tmp_path / "file"
    path.write_bytes(parquet(pair()))
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", out_of_memory)
    with pytest.raises(MemoryError):
        tables.parquet_columns(path)


# The real rows


def test_200_real_questions_of_pubmedqa_are_read():
    path = public("pubmedqa/ori_pqal.json")
    layout = pubmedqa.sniff(path)
    assert layout.name == "json-object"
    rows = [row for row in pubmedqa.rows(path, layout) if isinstance(row, Row)]
    published = json.loads(path.read_text(encoding="utf-8"))
    assert len(rows) == len(published) == 200
    for row, (pmid, record) in zip(rows, published.items(), strict=True):
        assert (row.external_id, row.content["pmid"]) == (pmid, pmid)
        assert row.content["contexts"] == record["CONTEXTS"]
        assert row.content["sections"] == record["LABELS"]
        assert row.content["year"] == (record["YEAR"] or "")
        assert (row.content["split"], row.language) == ("labelled", "en")
    decisions = Counter(record["final_decision"] for record in published.values())
    assert Counter(row.facets["decision"] for row in rows) == decisions


def test_200_real_pairs_of_medhallu_are_read_in_every_layout(tmp_path):
    path = public("medhallu/pqa_labeled.jsonl")
    published = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    codes = {
        "Misinterpretation of #Question#": "MQ",
        "Incomplete Information": "II",
        "Mechanism and Pathway Misattribution": "MP",
        "Methodological and Evidence Fabrication": "MF",
    }
    rows = list(medhallu.rows(path, medhallu.sniff(path)))
    assert len(rows) == len(published) == 200
    for facet, column in (("difficulty", "Difficulty Level"), ("category", "Category of Hallucination")):
        expected = Counter(codes.get(record[column], record[column]) for record in published)
        assert Counter(row.facets[facet] for row in rows if isinstance(row, Row)) == expected
    for row, record in zip(rows, published, strict=True):
        assert isinstance(row, Row)
        assert row.content["knowledge"] == record["Knowledge"]
        assert row.content["answer"] == record["Ground Truth"]
    contents = [row.content for row in rows if isinstance(row, Row)]
    for make in (table, parquet):
        other = tmp_path / make.__name__
        other.write_bytes(make(*published))
        rows_again = medhallu.rows(other, medhallu.sniff(other))
        assert [row.content if isinstance(row, Row) else row for row in rows_again] == contents
