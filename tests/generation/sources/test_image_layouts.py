"""Data sets with images, in files as the publishers' libraries write them: shards and structs."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generation.models import Import, SourceRecord, StoredImage
from generation.sources import services
from tests.generation.images.drawing import picture

pytestmark = pytest.mark.django_db
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
VQA = pa.schema([("image", IMAGE), ("question", pa.string()), ("answer", pa.string())])
FRAMES = tuple(f"image_{number}" for number in range(1, 6))


@pytest.fixture(autouse=True)
def images(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    settings.MHB_IMAGES = tmp_path_factory.mktemp("images")


def shard(path: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    """Write a shard as `datasets` does.

    Images are structs, row groups have a hundred rows, and the schema's metadata has the features.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    features = {name: {"_type": "Image" if name.startswith("image") else "Value"} for name in schema.names}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.Table.from_pylist(rows, schema.with_metadata(metadata))
    pq.write_table(table, path, row_group_size=100, compression="snappy")


def image_struct(number: int) -> dict[str, Any]:
    return {"bytes": picture("JPEG", shade=number), "path": None if number % 2 else f"{number}.jpg"}


def vqa_row(number: int, question: str, answer: str) -> dict[str, Any]:
    return {"image": image_struct(number), "question": question, "answer": answer}


def run_import(name: str, path: Path, file_name: str = "") -> Import:
    return services.run_import(services.start_import(path, format_name=name, name=name, file_name=file_name).pk)


def test_rows_of_different_shards_have_different_ids(tmp_path: Path) -> None:
    for shard_number in range(2):
        rows = [vqa_row(10 * shard_number + n, f"is finding {n} there?", "yes") for n in range(3)]
        shard(tmp_path / "data" / f"train-0000{shard_number}-of-00002-eb8844602202be60.parquet", VQA, rows)
    shard(
        tmp_path / "data" / "test-00000-of-00001-e5bc3d208bb4deeb.parquet", VQA, [vqa_row(30, "what is it?", "a rib")]
    )
    run = run_import("vqa-rad", tmp_path)
    assert (run.status, run.rows, run.added, run.same) == ("done", 7, 7, 0)
    assert set(SourceRecord.objects.values_list("external_id", flat=True)) == {
        *(f"train-{shard_number}-{n}" for shard_number in range(2) for n in range(3)),
        "test-0",
    }
    assert run.facets["split"] == {"test": 1, "train": 6}
    assert StoredImage.objects.count() == 7


def test_a_single_file_has_the_split_of_its_original_name(tmp_path: Path) -> None:
    """An upload is stored under a generated name."""
    for number, name in enumerate(["train-00001-of-00002-eb88.parquet", "test-00000-of-00001-e5bc.parquet"]):
        path = tmp_path / f"{number:032x}"
        shard(path, VQA, [vqa_row(number, "what is it?", "a rib")])
        assert run_import("vqa-rad", path, file_name=name).added == 1
    assert set(SourceRecord.objects.values_list("external_id", "content__split")) == {
        ("train-1-0", "train"),
        ("test-0", "test"),
    }


def test_pathvqa_finds_duplicates_in_other_shards_of_the_split(tmp_path: Path) -> None:
    first = [vqa_row(1, "what is present?", "liver"), vqa_row(1, "is it bone?", "yes")]
    second = [vqa_row(1, "What is present?", "Liver"), vqa_row(1, "is it bone?", "no"), vqa_row(2, "is it bone?", "no")]
    shard(tmp_path / "data" / "test-00000-of-00002-a1.parquet", VQA, first)
    shard(tmp_path / "data" / "test-00001-of-00002-b2.parquet", VQA, second)
    shard(tmp_path / "data" / "train-00000-of-00001-c3.parquet", VQA, first[:1])
    run = run_import("pathvqa", tmp_path)
    assert (run.rows, run.added, run.refused) == (6, 3, 3)
    assert run.facets["left out"] == {"different answers": 2, "repeated": 1}
    assert set(SourceRecord.objects.values_list("external_id", flat=True)) == {"test-0-0", "test-1-2", "train-0"}


def test_the_original_pathvqa_has_pickles_besides_those_of_questions(tmp_path: Path) -> None:
    import pickle

    questions = tmp_path / "qas" / "test"
    questions.mkdir(parents=True)
    (tmp_path / "images" / "test").mkdir(parents=True)
    (tmp_path / "images" / "test" / "test_0001.jpg").write_bytes(picture("JPEG"))
    rows = [{"image": "test_0001", "question": "what is present?", "answer": "liver"}]
    (questions / "test_qa.pkl").write_bytes(pickle.dumps(rows))
    no_plain_values = {"words": pd.Series([1])}
    (tmp_path / "qas" / "qa_vocab.pkl").write_bytes(pickle.dumps(no_plain_values))
    run = run_import("pathvqa", tmp_path)
    assert (run.status, run.added, run.refused) == ("done", 1, 0)


def test_medframeqa_is_read_as_pandas_and_datasets_write_it(tmp_path: Path) -> None:
    def row(number: int, frames: int) -> dict[str, Any]:
        return {
            "question_id": f"brain_x_CT_abc_{number}", "system": "central_nervous_system", "organ": "brain",
            "keyword": "x_CT", "modality": "CT", "video_id": "abc", "question": "Based on both frames?",
            "options": ["A. P", "B. Q"], "correct_answer": "B",
            "image_url": [f"images/abc_{n}.jpg" for n in range(frames)], "reasoning_chain": "...",
            **{name: image_struct(20 * number + n) if n < frames else None for n, name in enumerate(FRAMES)},
        }  # fmt: skip

    texts = ["question_id", "system", "organ", "keyword", "modality", "video_id", "question", "correct_answer"]
    fields: list[tuple[str, pa.DataType]] = [(name, pa.string()) for name in [*texts, "reasoning_chain"]]
    fields += [(name, pa.list_(pa.string())) for name in ("options", "image_url")] + [(name, IMAGE) for name in FRAMES]
    shard(tmp_path / "a" / "test-00000-of-00001.parquet", pa.schema(fields), [row(1, 2), row(2, 5)])
    (tmp_path / "b").mkdir()
    pd.DataFrame([row(3, 3)]).to_parquet(tmp_path / "b" / "test-00000-of-00001.parquet")
    for folder in ("a", "b"):
        run = run_import("medframeqa", tmp_path / folder)
        assert (run.status, run.refused) == ("done", 0)
    contents = dict(SourceRecord.objects.values_list("external_id", "content"))
    assert [len(contents[f"brain_x_CT_abc_{number}"]["images"]) for number in (1, 2, 3)] == [2, 5, 3]
    assert {content["split"] for content in contents.values()} == {"test"}
    assert contents["brain_x_CT_abc_3"]["options"] == [["A", "P"], ["B", "Q"]]


def test_medxpertqa_is_read_as_its_repository_has_it(tmp_path: Path) -> None:
    line = {
        "id": "MM-1", "question": "… most likely diagnosis?\nAnswer Choices: (A) P (B) Q (C) R (D) S (E) T",
        "options": dict(zip("ABCDE", "PQRST", strict=True)), "label": "C", "images": ["MM-1-a.jpeg"],
        "medical_task": "Diagnosis", "body_system": "Respiratory", "question_type": "Reasoning",
    }  # fmt: skip
    text = {**{key: value for key, value in line.items() if key != "images"}, "id": "Text-1"}
    for name, row in (("MM/dev", {**line, "id": "MM-0"}), ("MM/test", line), ("Text/test", text), ("Text/dev", text)):
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("images/MM-1-a.jpeg", picture("JPEG"))
    (tmp_path / "images.zip").write_bytes(packed.getvalue())
    run = run_import("medxpertqa", tmp_path)
    assert (run.status, run.added, run.refused) == ("done", 2, 0), "the text part is another task"
    content = SourceRecord.objects.get(external_id="MM-1").content
    assert (content["question"], content["answer"], content["split"]) == ("… most likely diagnosis?", "R", "test")
    assert (content["medical_task"], content["asks"], content["body_system"]) == (
        "Diagnosis",
        "Reasoning",
        "Respiratory",
    )


def test_a_folder_without_images_says_once_what_is_missing(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"MM-{n}",
            "question": "What is it?",
            "options": {"A": "a", "B": "b"},
            "label": "A",
            "images": [f"MM-{n}.jpeg"],
        }
        for n in range(3)
    ]
    path = tmp_path / "MM" / "test.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = run_import("medxpertqa", tmp_path)
    assert (run.status, run.rows, run.refused) == ("failed", 0, 0)
    assert "The images are missing" in run.detail
    assert "MM-0.jpeg" in run.detail
    assert "images/, or images.zip" in run.detail
