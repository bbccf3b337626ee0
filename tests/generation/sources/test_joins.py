"""Records of several sources are joined by their content, over up to two steps.

The order of the imports does not matter, and the number of queries is constant.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from generation.batches import queries as batches_queries
from generation.common import chunks
from generation.models import Batch, Draft, Import, Reference, Source, SourceRecord
from generation.sources import queries as sources_queries
from generation.sources import services
from generation.sources.importers.base import digest_of
from tests.engine import Manage, conversations_file, import_file
from tests.generation.rows import QUESTION, descriptor, entry, jsonl, keyed, pair, vocabulary
from tests.profile import public

pytestmark = [pytest.mark.django_db, pytest.mark.both]

TERMS = vocabulary(descriptor(1, "Madeupitis", "C14.280", "C23.550"), descriptor(2, "Adult", "M01.060.116"))


@pytest.fixture
def import_data(tmp_path: Path) -> Any:
    """Return a function that imports data in a format, into a source named like the format."""

    def import_data(format_name: str, data: bytes, name: str = "") -> Import:
        path = tmp_path / "file"
        path.write_bytes(data)
        return services.run_import(services.start_import(path, format_name=format_name, name=name or format_name).pk)

    return import_data


FILES = {"pubmedqa": keyed(entry()), "medhallu": jsonl(pair(Question=f"  {QUESTION.upper()} ")), "mesh": TERMS}
ORDERS = [
    ("mesh", "pubmedqa", "medhallu"),
    ("medhallu", "pubmedqa", "mesh"),
    ("pubmedqa", "mesh", "medhallu"),
]


def partner_contents_of(external_id: str) -> dict[str, tuple[Any, ...]]:
    record = SourceRecord.objects.get(external_id=external_id)
    return sources_queries.partner_contents([record])[record.pk]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_the_order_of_imports_does_not_matter(import_data: Any, order: tuple[str, ...]) -> None:
    for name in order:
        import_data(name, FILES[name])
    headings = (
        {"kind": "term", "name": "Adult", "trees": ["M01.060.116"]},
        {"kind": "term", "name": "Madeupitis", "trees": ["C14.280", "C23.550"]},
    )
    assert partner_contents_of("12345678") == {"mesh": headings}, "in the order in which the record names them"
    partners = partner_contents_of(digest_of(QUESTION)[:24])
    assert partners.keys() == {"pubmedqa", "mesh"}
    assert partners["mesh"] == headings
    assert [paper["pmid"] for paper in partners["pubmedqa"]] == ["12345678"]
    assert partner_contents_of("D000001") == {}


def test_an_import_counts_its_facets_and_joins(import_data: Any) -> None:
    first = import_data("medhallu", jsonl(pair(), pair(Question="Is it?", Difficulty_Level="easy"), {"Question": "?"}))
    assert (first.rows, first.added, first.refused) == (3, 2, 1)
    assert first.facets == {"difficulty": {"hard": 1, "easy": 1}, "category": {"MQ": 2}}
    assert first.joined == {"pubmedqa": 0}, "there is nothing to join them with yet"
    second = import_data("pubmedqa", keyed(entry(), entry(QUESTION="Is it not?", MESHES=["Nowhere"])))
    assert second.joined == {"mesh": 0, "medhallu": 1}
    assert second.facets == {"decision": {"yes": 2}, "split": {"labelled": 2}}
    assert import_data("mesh", TERMS).joined == {"pubmedqa": 2}
    repeated = import_data("medhallu", jsonl(pair(), pair(Question="Is it?", Difficulty_Level="easy")))
    assert (repeated.added, repeated.same, repeated.joined) == (0, 2, {"pubmedqa": 1})
    assert repeated.facets == first.facets
    assert import_data("pubmedqa", keyed(entry())).joined == {"mesh": 1, "medhallu": 1}


@pytest.mark.parametrize("chunk", [1, 500], ids=["across chunks", "in one chunk"])
def test_counts_do_not_depend_on_chunks(import_data: Any, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    import_data("pubmedqa", keyed(*(entry(QUESTION=f"Is it {n}?") for n in range(5))))
    run = import_data("medhallu", jsonl(*(pair(Question=f"Is it {n}?", Difficulty_Level="easy") for n in range(2, 9))))
    assert (run.joined, run.facets["difficulty"]) == ({"pubmedqa": 3}, {"easy": 7})


def test_the_first_of_two_rows_with_one_id_has_the_references(import_data: Any, monkeypatch: Any) -> None:
    for chunk, name in ((1, "one"), (500, "two")):
        monkeypatch.setattr(chunks, "CHUNK", chunk)
        other = json.dumps(entry(QUESTION="Is it?", MESHES=["Nowhere"])).encode()
        import_data("pubmedqa", keyed(entry())[:-1] + b', "12345678": ' + other + b"}", name)
        record = SourceRecord.objects.get(source__name=name)
        assert record.match == digest_of(QUESTION)
        assert set(record.refers.values_list("digest", flat=True)) == {digest_of("Adult"), digest_of("Madeupitis")}


def test_formats_without_joins_have_none(tmp_path: Path) -> None:
    import_file(conversations_file(tmp_path / "own.jsonl", 2))
    run = Import.objects.get()
    assert (run.facets, run.joined) == ({}, {})
    assert not Reference.objects.exists()
    assert not SourceRecord.objects.exclude(match="").exists()


def test_a_record_does_not_join_itself_and_cycles_end(import_data: Any) -> None:
    import_data("pubmedqa", keyed(entry()))
    record = SourceRecord.objects.get()
    Reference.objects.create(record=record, format="pubmedqa", digest=record.match)
    assert sources_queries.partners([record]) == {record.pk: []}


@pytest.mark.parametrize("count", [1, 40])
def test_joining_many_records_needs_as_many_queries_as_joining_one(
    import_data: Any, count: int, django_assert_num_queries: Any
) -> None:
    import_data("mesh", TERMS)
    import_data("pubmedqa", keyed(*(entry(QUESTION=f"Is it {n}?") for n in range(count))))
    import_data("medhallu", jsonl(*(pair(Question=f"Is it {n}?") for n in range(count))))
    records = list(SourceRecord.objects.filter(source__format="medhallu"))
    with django_assert_num_queries(4):
        contents = sources_queries.partner_contents(records)
    assert len(contents) == count
    assert all(
        {name: len(partners) for name, partners in by_format.items()} == {"pubmedqa": 1, "mesh": 2}
        for by_format in contents.values()
    )


def test_partners_are_found_by_index(import_data: Any) -> None:
    """Every query finds records and references by an index."""
    for name, data in FILES.items():
        import_data(name, data)
    record = SourceRecord.objects.get(source__format="medhallu")
    with CaptureQueriesContext(connection) as queries:
        sources_queries.partners([record])
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL scans tables of three rows, whatever indexes there are")
    for query in queries.captured_queries:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
            plan = [row[-1] for row in cursor.fetchall()]
        assert not [line for line in plan if line.startswith("SCAN generation")], plan


def test_a_draft_has_the_partners_of_its_record(import_data: Any) -> None:
    for name, data in FILES.items():
        import_data(name, data)
    source = Source.objects.get(name="medhallu")
    batch = Batch.objects.create(benchmark="mhb", source=source, created_at=source.created_at)
    draft = Draft.objects.create(batch=batch, record=SourceRecord.objects.get(source=source))
    value = batches_queries.draft_value(draft)
    assert value.record.joined["pubmedqa"][0]["pmid"] == "12345678"
    assert [term["name"] for term in value.record.joined["mesh"]] == ["Adult", "Madeupitis"]
    alone = Draft.objects.create(batch=batch, record=SourceRecord.objects.filter(source__name="mesh")[0])
    with CaptureQueriesContext(connection) as queries:
        assert batches_queries.draft_value(alone).record.joined == {}
    # The record, its batch, the added terms, and the specialties of physicians.
    assert len(queries) == 4, "a record without references needs no further queries"


def test_partners_have_no_private_data(import_data: Any) -> None:
    for name, data in FILES.items():
        import_data(name, data)
    SourceRecord.objects.update(private={"secret": "do not show"})
    [record] = SourceRecord.objects.filter(source__format="medhallu")
    assert "do not show" not in repr(sources_queries.partner_contents([record]))
    assert all("private" in partner.get_deferred_fields() for partner in sources_queries.partners([record])[record.pk])
    assert all("private" in partner.get_deferred_fields() for partner in sources_queries.records_referring_to(record))


def test_a_record_shows_its_texts_and_partners(import_data: Any, client: Client, adela: Any) -> None:
    for name, data in FILES.items():
        import_data(name, data)
    client.force_login(adela)
    pages = {}
    for record in SourceRecord.objects.select_related("source"):
        pages[record.external_id] = client.get(
            reverse("generation:record", args=[record.source.name, record.pk])
        ).content.decode()
    hallucinated = pages[digest_of(QUESTION)[:24]]
    for text in (
        "Hallucinated answer",
        "only in children",
        "True answer",
        "in adults",
        "that&#x27;s all",
        "12345678",
        "Adult; Madeupitis",
        "C14.280, C23.550",
        "<dd>hard</dd>",
    ):
        assert text in hallucinated, text
    paper = pages["12345678"]
    for text in ("<h3>METHODS</h3>", "M01.060.116", "<dd>yes</dd>", 'id="joined"', 'id="referring"'):
        assert text in paper, text
    assert "True answer" not in paper
    term = pages["D000001"]
    assert 'id="joined"' not in term
    assert "12345678" in term.partition('id="referring"')[2]


def test_facets_and_joins_of_an_import_are_on_its_page_and_in_the_api(
    import_data: Any, client: Client, adela: Any
) -> None:
    import_data("pubmedqa", FILES["pubmedqa"])
    run = import_data("medhallu", FILES["medhallu"])
    client.force_login(adela)
    page = client.get(reverse("generation:source", args=["medhallu"])).content.decode()
    assert "difficulty: hard 1" in page
    assert "linked with pubmedqa: 1" in page
    import_json = client.get(reverse("api:import", args=[run.pk])).json()
    assert (import_json["facets"], import_json["joined"]) == (
        {"difficulty": {"hard": 1}, "category": {"MQ": 1}},
        {"pubmedqa": 1},
    )


@pytest.mark.parametrize("order", [("pubmedqa", "medhallu"), ("medhallu", "pubmedqa")], ids="-".join)
def test_200_of_200_real_rows_join(manage: Manage, order: tuple[str, str]) -> None:
    files = {"pubmedqa": public("pubmedqa/ori_pqal.json"), "medhallu": public("medhallu/pqa_labeled.jsonl")}
    outputs = {name: manage.json("import_source", "--format", name, "--name", name, files[name]) for name in order}
    for output in outputs.values():
        assert (output["rows"], output["added"], output["same"], output["refused"]) == (200, 200, 0, 0)
        assert output["refusals"] == []
    first, second = order
    assert outputs[second]["joined"][first] == 200
    rows = [json.loads(line) for line in files["medhallu"].read_text(encoding="utf-8").split("\n") if line]
    facets = outputs["medhallu"]["facets"]
    assert facets["difficulty"] == Counter(row["Difficulty Level"] for row in rows)
    published = Counter(row["Category of Hallucination"] for row in rows)
    assert sorted(facets["category"].values()) == sorted(published.values())
    assert facets["category"]["MQ"] == published["Misinterpretation of #Question#"]

    by_question = {value["QUESTION"]: pmid for pmid, value in json.loads(files["pubmedqa"].read_text("utf-8")).items()}
    records = list(SourceRecord.objects.filter(source__name="medhallu"))
    partners = sources_queries.partner_contents(records)
    assert len(records) == 200
    for record in records:
        [paper] = partners[record.pk]["pubmedqa"]
        assert paper["pmid"] == by_question[record.content["question"]]
        assert paper["contexts"] == record.content["knowledge"]
        assert paper["mesh"]


@pytest.mark.parametrize("options", [{"A": "Veltrine", "B": "Oxamarol"}, [["A", "Veltrine"], ["B", "Oxamarol"]]])
def test_options_are_shown_in_every_shape(import_data: Any, client: Client, adela: Any, options: Any) -> None:
    import_data(*next(iter(FILES.items())))
    record = SourceRecord.objects.earliest("pk")
    SourceRecord.objects.filter(pk=record.pk).update(content={**record.content, "options": options})
    client.force_login(adela)
    page = client.get(reverse("generation:record", args=[record.source.name, record.pk])).content.decode()
    assert "A. Veltrine" in page
    assert "B. Oxamarol" in page
