"""Data sets with images: layouts, refusals that name the image, and images that are stored once."""

import io
import itertools
import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generation.models import Import, SourceRecord, StoredImage
from generation.sources import importers, services
from generation.sources.importers import bundles
from generation.sources.importers.base import Malformed, Refusal, Row, WrongFormat
from generation.sources.importers.pickles import load_plain
from tests.generation.images.drawing import picture, png_header
from tests.memory import peak_memory
from tests.profile import by_profile, public

QUESTION = {"qid": 1, "image_name": "a.png", "image_organ": "HEAD", "answer": "Yes", "answer_type": "CLOSED "}
QUESTION |= {"question": "Is there a bright corner?", "question_type": "PRES, ATTRIB", "phrase_type": "freeform"}


@pytest.fixture(autouse=True)
def images(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings.MHB_IMAGES = tmp_path_factory.mktemp("images")
    return Path(settings.MHB_IMAGES)


def write_vqa_rad(
    folder: Path, *records: dict[str, Any], name: str = "testset.json", files: dict[str, bytes] | None = None
) -> Path:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(list(records)))
    for file, data in (files or {"a.png": picture()}).items():
        (folder / "images" / file).write_bytes(data)
    return folder


def read_bundle(name: str, path: Path) -> tuple[list[Row], list[Refusal]]:
    importer = importers.load(name)
    entries = list(importer.rows(path, importer.sniff(path)))
    return [entry for entry in entries if isinstance(entry, Row)], [
        entry for entry in entries if isinstance(entry, Refusal)
    ]


def run_import(name: str, path: Path) -> Import:
    return services.run_import(services.start_import(path, format_name=name, name=name).pk)


def zip_folder(folder: Path, to: Path) -> Path:
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return to


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


# ------------------------------------------------------------------------------------------ VQA-RAD


@pytest.mark.django_db
def test_every_real_row_of_vqa_rad_is_imported() -> None:
    run = run_import("vqa-rad", public("vqa_rad"))
    assert (run.rows, run.added, run.refused, run.status) == (124, 124, 0, "done")
    assert run.facets["split"] == {"test": 52, "train": 72}
    assert StoredImage.objects.count() == 30
    numbers = SourceRecord.objects.filter(content__answer__regex=r"^\d+$")
    assert numbers.count() == 10
    record = SourceRecord.objects.get(external_id="test-11")
    assert record.content | {"images": 1} == {
        "kind": "vqa", "question": "Is there evidence of an aortic aneurysm?", "options": [], "answer": "yes", "letter": "",
        "question_type": "yes_no", "dataset": "vqa-rad", "split": "test", "images": 1, "body_system": "chest",
        "phrase": "freeform",
    }  # fmt: skip
    assert StoredImage.objects.filter(sha256__in=record.content["images"]).exists()


def test_the_original_file_of_vqa_rad_marks_its_test_rows(tmp_path: Path) -> None:
    rows = [{**QUESTION, "qid": 1, "phrase_type": "test_para"}, {**QUESTION, "qid": "2"}]
    folder = write_vqa_rad(tmp_path / "VQA", *rows, name="VQA_RAD Dataset Public.json")
    (folder / "images").rename(folder / "VQA_RAD Image Folder")
    good, bad = read_bundle("vqa-rad", folder)
    assert [(row.external_id, row.content["split"], row.content["phrase"]) for row in good] == [
        ("test-1", "test", "para"),
        ("train-2", "train", "freeform"),
    ]
    assert not bad
    assert good[0].images[0].read() == picture()
    assert good[0].private == {"kinds": ["ATTRIB", "PRES"]}


def test_the_parquet_files_of_vqa_rad_contain_the_images(tmp_path: Path) -> None:
    published = {"image": {"bytes": picture(), "path": None}, "question": "What is it?", "answer": "A square"}
    write_parquet(tmp_path / "data" / "train-00000-of-00001.parquet", [published])
    [row], _ = read_bundle("vqa-rad", tmp_path)
    assert (row.external_id, row.content["question_type"]) == ("train-0", "open_ended")
    assert row.images[0].read() == picture()


@pytest.mark.django_db
def test_an_image_damaged_inside_the_archive_is_refused_and_the_others_kept(tmp_path: Path) -> None:
    good, bad = {**QUESTION, "image_name": "a.png"}, {**QUESTION, "image_name": "b.png", "qid": 2}
    folder = write_vqa_rad(tmp_path / "set", good, bad, files={"a.png": picture(), "b.png": b"x" * 5000})
    file = zip_folder(folder, tmp_path / "set.zip")
    with zipfile.ZipFile(file) as archive:
        entry = next(member for member in archive.infolist() if member.filename.endswith("b.png"))
    data = bytearray(file.read_bytes())
    start = entry.header_offset + 30 + len(entry.filename)
    data[start : start + entry.compress_size] = b"\xff" * entry.compress_size  # no deflate block
    file.write_bytes(data)
    run = run_import("vqa-rad", file)
    assert (run.status, run.added, run.refusals.count()) == ("done", 1, 1)


@pytest.mark.django_db
@pytest.mark.parametrize("as_zip", [False, True])
def test_bad_images_are_refused_by_name_and_row_and_the_others_kept(tmp_path: Path, as_zip: bool) -> None:
    animation = io.BytesIO()
    from PIL import Image

    frames = [Image.new("L", (8, 8), shade) for shade in (0, 255)]
    frames[0].save(animation, "GIF", save_all=True, append_images=frames[1:])
    files = {
        "a.png": picture(), "cut.png": picture()[:60], "moves.gif": animation.getvalue(), "words.jpg": b"not an image",
        "dicom.png": b"\x00" * 128 + b"DICM", "wide.png": png_header(60_000, 60_000), "heavy.png": bytes(33 * 2**20),
    }  # fmt: skip
    names = [*files, "gone.png", "../../etc/passwd", "a.png"]
    rows = [{**QUESTION, "qid": number, "image_name": name} for number, name in enumerate(names)]
    folder = write_vqa_rad(tmp_path / "set", *rows, files=files)
    run = run_import("vqa-rad", zip_folder(folder, tmp_path / "set.zip") if as_zip else folder)
    assert (run.rows, run.added, run.refused, run.status) == (10, 2, 8, "done")
    reasons = dict(run.refusals.values_list("where", "reason"))
    for number, (name, reason) in enumerate(
        [
            ("cut.png", "cut off"),
            ("moves.gif", "frames"),
            ("words.jpg", "not a JPEG"),
            ("dicom.png", "DICOM"),
            ("wide.png", "pixels"),
            ("heavy.png", "larger than 33,554,432 bytes"),
            ("gone.png", "missing"),
        ],
        2,
    ):
        assert name in reasons[f"testset.json record {number}"]
        assert reason in reasons[f"testset.json record {number}"]
    assert "outside the data set" in reasons["testset.json record 9"]
    assert StoredImage.objects.count() == 1
    assert run.facets["left out"] == {"image": 7}


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(picture())
    folder = write_vqa_rad(tmp_path / "set", QUESTION, files={"b.png": b""})
    (folder / "images" / "a.png").symlink_to(tmp_path / "secret.png")
    [row], _ = read_bundle("vqa-rad", folder)
    with bundles.open_bundle(folder, lambda _: False) as bundle, pytest.raises(Malformed, match="points outside"):
        bundle.picture(row.images[0].name).read()


def test_an_archive_that_expands_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("testset.json", b" " * 5_000_000 + b"[]")
    with pytest.raises(WrongFormat, match="larger than a file of rows"):
        read_bundle("vqa-rad", tmp_path / "bomb.zip")
    monkeypatch.setattr(bundles, "MAX_IMAGE_FILE", 100)
    folder = write_vqa_rad(tmp_path / "set", QUESTION, files={"a.png": bytes(200)})
    for path in (folder, zip_folder(folder, tmp_path / "set.zip")):
        with bundles.open_bundle(path, lambda _: False) as bundle, pytest.raises(Malformed, match="larger"):
            bundle.picture("a.png").read()


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    complete = zip_folder(write_vqa_rad(tmp_path / "set", QUESTION), tmp_path / "set.zip").read_bytes()
    (tmp_path / "half.zip").write_bytes(complete[: len(complete) // 2])
    with pytest.raises(WrongFormat, match="damaged"):
        read_bundle("vqa-rad", tmp_path / "half.zip")


# ------------------------------------------------------------------------------------------ PathVQA

PATHVQA_ROWS = [
    ("what is present?", "a.jpg", "liver"),
    ("What is present?", "a.jpg", "Liver"),
    ("what is present?", "b.jpg", "bone"),
]
PATHVQA_ROWS += [("is it bone?", "a.jpg", "yes"), ("Is it bone?", "a.jpg", "no"), ("is it skin?", "a.jpg", "no")]


def write_pathvqa(folder: Path) -> Path:
    records = [
        {"image": image.removesuffix(".jpg"), "question": question, "answer": answer}
        for question, image, answer in PATHVQA_ROWS
    ]
    (folder / "qas" / "test").mkdir(parents=True)
    (folder / "images" / "test").mkdir(parents=True)
    (folder / "qas" / "test" / "test_qa.pkl").write_bytes(pickle.dumps(records))
    for name, shade in (("a.jpg", 50), ("b.jpg", 90)):
        (folder / "images" / "test" / name).write_bytes(picture("JPEG", shade=shade))
    return folder


def write_pathvqa_parquet(folder: Path) -> Path:
    images = {
        name: {"bytes": picture("JPEG", shade=shade), "path": name} for name, shade in (("a.jpg", 50), ("b.jpg", 90))
    }
    rows = [
        {"image": images[image], "question": question, "answer": answer} for question, image, answer in PATHVQA_ROWS
    ]
    return write_parquet(folder / "data" / "test-00000.parquet", rows).parent.parent


@pytest.mark.django_db
@pytest.mark.parametrize("write_set", [write_pathvqa, write_pathvqa_parquet])
def test_pathvqa_leaves_out_and_counts_duplicates_and_contradictions(tmp_path: Path, write_set: Any) -> None:
    run = run_import("pathvqa", write_set(tmp_path / "set"))
    assert (run.rows, run.added, run.refused) == (6, 3, 3)
    assert run.facets["left out"] == {"different answers": 2, "repeated": 1}
    stored = SourceRecord.objects.order_by("pk").values_list("content__question", "content__answer")
    assert list(stored) == [("what is present?", "liver"), ("what is present?", "bone"), ("is it skin?", "no")]
    assert "record 1" in run.refusals.get(reason__contains="kept once").reason
    assert StoredImage.objects.count() == 2


def test_a_damaged_pickle_beside_a_good_one_is_not_left_out(tmp_path: Path) -> None:
    folder = write_pathvqa(tmp_path / "set")
    (folder / "qas" / "val_qa.pkl").write_bytes(b"\x80\x04]")
    with pytest.raises(WrongFormat, match="damaged"):
        importers.load("pathvqa").sniff(folder)


def test_pickles_of_other_names_are_read_too(tmp_path: Path) -> None:
    folder = write_pathvqa(tmp_path / "set")
    questions = folder / "qas" / "test" / "test_qa.pkl"
    (folder / "qas" / "test" / "test.pkl").write_bytes(pickle.dumps(tuple(pickle.loads(questions.read_bytes()))))
    questions.unlink()
    assert importers.load("pathvqa").sniff(folder).name == "pickle"


def test_a_refusal_names_the_kinds_of_files_in_one_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b")
    with pytest.raises(WrongFormat, match="on each line or one JSON array or Parquet or a pickle"):
        importers.load("pathvqa").sniff(tmp_path / "a.csv")


class RunsCode:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("/tmp/ran"),))


@pytest.mark.parametrize("value", [RunsCode(), {"image": Path("x")}, [{"question": RunsCode()}]])
def test_a_pickle_that_could_run_code_is_not_read(tmp_path: Path, value: Any) -> None:
    (tmp_path / "test_qa.pkl").write_bytes(pickle.dumps(value))
    with pytest.raises(WrongFormat, match="could run code"):
        importers.load("pathvqa").sniff(tmp_path / "test_qa.pkl")
    assert not Path("/tmp/ran").exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04", b"\x80\x04]", b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", b"garbage"]
)
def test_a_broken_pickle_is_refused_as_damaged(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "test_qa.pkl").write_bytes(data)
    with pytest.raises(WrongFormat, match="damaged"):
        load_plain(tmp_path / "test_qa.pkl")


# --------------------------------------------------------------------------- MedXpertQA, MedFrameQA


def medxpertqa_row(**changes: Any) -> dict[str, Any]:
    return {
        "id": "MM-26", "question": "What is most likely?\nAnswer Choices: (A) Pneumonia (B) TB (C) Cancer",
        "options": {"A": "Pneumonia", "B": "TB", "C": "Cancer"}, "label": "C", "images": ["MM-26-a.jpeg", "MM-26-b.jpeg"],
        "medical_task": "Diagnosis", "body_system": "Respiratory", "question_type": "Reasoning", **changes,
    }  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_medxpertqa_takes_the_options_out_of_the_question(tmp_path: Path, packed: bool) -> None:
    (tmp_path / "MM").mkdir()
    lines = [medxpertqa_row(), medxpertqa_row(id="Text-1", images=[]), medxpertqa_row(id="MM-2", label="F")]
    (tmp_path / "MM" / "test.jsonl").write_text("\n".join(map(json.dumps, lines)))
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("MM-26-a.jpeg", "MM-26-b.jpeg"):
        (folder / name).write_bytes(picture("JPEG"))
    if packed:
        zip_folder(folder, tmp_path / "images.zip")
        for path in folder.iterdir():
            path.unlink()
    importer = importers.load("medxpertqa")
    entries: Iterator[Row | Refusal] = importer.rows(tmp_path, importer.sniff(tmp_path))
    row = next(entries)
    assert isinstance(row, Row)
    assert [image.read() for image in row.images] == [picture("JPEG")] * 2
    assert (row.content["question"], row.content["letter"], row.content["answer"]) == (
        "What is most likely?",
        "C",
        "Cancer",
    )
    assert row.content["options"] == [["A", "Pneumonia"], ["B", "TB"], ["C", "Cancer"]]
    assert (row.content["split"], row.content["body_system"]) == ("test", "Respiratory")
    reasons = [entry.reason for entry in entries if isinstance(entry, Refusal)]
    assert ["text part" in reasons[0], "not one of its options" in reasons[1]] == [True, True]


@pytest.mark.parametrize("options", [["A. One", "B. Two"], ["One", "Two"]])
def test_medframeqa_has_several_images_per_question(tmp_path: Path, options: list[str]) -> None:
    frame = {"bytes": picture(), "path": "f.jpg"}
    row = {
        "question_id": "q_1", "system": "central_nervous_system", "organ": "brain", "keyword": "k", "modality": "CT",
        "video_id": "v", "question": "From both frames?", "options": options, "correct_answer": "B",
        "image_url": ["images/f.jpg"], "reasoning_chain": "As one sees.", "image_1": frame,
        "image_2": {**frame, "bytes": picture(shade=9)}, "image_3": None, "image_4": None, "image_5": None,
    }  # fmt: skip
    path = write_parquet(tmp_path / "test.parquet", [row])
    [good], bad = read_bundle("medframeqa", path)
    assert not bad
    assert [image.read() for image in good.images] == [picture(), picture(shade=9)]
    assert (good.content["options"], good.content["answer"]) == ([["A", "One"], ["B", "Two"]], "Two")
    assert good.content["body_system"] == "central nervous system"
    assert "As one sees." not in json.dumps(good.content)


# ---------------------------------------------------------------------------------------- ClinHallu


def converted_row(**changes: Any) -> dict[str, Any]:
    return {
        "question": "is the heart enlarged?", "answer": "yes", "images": ["a.png"], "question_type": "yes_no",
        "source": "vqa-rad", "split": "test", "original_index": 7, **changes,
    }  # fmt: skip


def gold_row(**changes: Any) -> dict[str, Any]:
    stages = {"visual_recognition": {"text": "A wide heart."}, "knowledge_recall": {"text": "Half is the limit."}}
    stages |= {"reasoning": {"text": "It is wider.", "answer": "yes"}}
    return converted_row(
        gold_cot={"raw": "...", **stages}, gold_cot_meta={"model": "m"}, **{"cot_valid": True, **changes}
    )


def test_clinhallu_is_read_as_its_authors_lay_it_out(tmp_path: Path) -> None:
    data = tmp_path / "data" / "vqa-rad" / "input" / "test"
    results = tmp_path / "results" / "vqa-rad-test" / "gold" / "model"
    write_vqa_rad(data, QUESTION, name="other.json")
    results.mkdir(parents=True)
    choice = {
        "source": None, "source_id": "MM-26", "options": ["A. Pneumonia", "B. Cancer"], "answer": "B. Cancer",
        "answer_letter": "B", "question_type": "multiple_choice",
    }  # fmt: skip
    (data / "converted.jsonl").write_text("\n".join(map(json.dumps, [converted_row(), converted_row(**choice)])))
    (results / "gold_cot.jsonl").write_text(
        "\n".join(map(json.dumps, [gold_row(), gold_row(cot_valid=False), converted_row(gold_cot=3)]))
    )
    (results / "rejected_invalid_cot.jsonl").write_text(json.dumps(gold_row()))
    importer = importers.load("clinhallu")
    entries = list(importer.rows(tmp_path, importer.sniff(tmp_path)))
    good = [entry for entry in entries if isinstance(entry, Row)]
    assert [row.external_id for row in good] == ["vqa-rad-test-7", "vqa-rad-test-MM-26", "gold-vqa-rad-test-7"]
    assert (good[1].content["answer"], good[1].content["letter"]) == ("Cancer", "B")
    assert good[2].content["kind"] == "vqa-trace"
    assert good[2].content["trace"] == {
        "visual": "A wide heart.", "knowledge": "Half is the limit.", "reasoning": "It is wider.", "answer": "yes",
    }  # fmt: skip
    reasons = [entry.reason for entry in entries if isinstance(entry, Refusal)]
    assert ["not marked as valid" in reasons[0], "not marked as valid" in reasons[1]] == [True, True]


# --------------------------------------------------------------------------------------------- size


@pytest.mark.django_db
def test_memory_does_not_grow_with_the_number_of_images(tmp_path: Path) -> None:
    names = (f"vqa-{number}" for number in itertools.count())

    def peak_of_import(count: int) -> int:
        folder = write_vqa_rad(
            tmp_path / str(count),
            *({**QUESTION, "qid": n, "image_name": f"{n}.bmp"} for n in range(count)),
            files={f"{n}.bmp": picture("BMP", size=(200, 200), shade=n) for n in range(count)},
        )

        def import_all() -> None:
            run = services.start_import(folder, format_name="vqa-rad", name=next(names))
            assert services.run_import(run.pk).added == count

        return peak_memory(import_all)

    peak_of_import(2)
    few, many = by_profile((10, 50), (20, 120))
    assert peak_of_import(many) < peak_of_import(few) + many * 10_000  # each image has 40,000 bytes
