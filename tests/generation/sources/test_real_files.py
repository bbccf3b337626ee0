"""Files as other tools write them: encodings, separators, archives, missing values."""

import json
import zipfile
from pathlib import Path

import pytest

from generation.sources.importers import healthbench, pmc_patients, vqa_rad
from generation.sources.importers.base import Row, WrongFormat
from review.rules.text_files import open_text
from tests.generation.images.drawing import picture
from tests.generation.rows import array
from tests.generation.sources.test_importers import conversation, patient

TEXT = "Patiënt: 5 µg, “Müller” – 38 °C"
CHINESE = "患者，男，45岁，发热三天"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        *((name, f"{TEXT} {CHINESE}") for name in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        ("cp1252", TEXT),
        ("cp1252", "Âgé de 45 ans, il présente une fièvre à 39 °C. L’œdème a régressé."),
        ("gb18030", CHINESE),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text_in_any_usual_encoding_is_read(read_rows, encoding: str, text: str, end: str) -> None:
    table = f'patient_uid;patient;title{end}1-1;"{text}";a{end}1-2;"{text}";b{end}'
    lines = "".join(json.dumps(conversation(prompt_id=key), ensure_ascii=False) + end for key in ("a", "b"))
    records = json.dumps([patient(patient=text), patient(patient_uid="2-1")], ensure_ascii=False)
    assert [row.content["text"] for row in read_rows(pmc_patients, table.encode(encoding))] == [text, text]
    assert [row.external_id for row in read_rows(healthbench, lines.encode(encoding))] == ["a", "b"]
    assert next(row.content["text"] for row in read_rows(pmc_patients, records.encode(encoding))) == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("shift_jis", "患者は45歳の男性で、3日前から発熱と咳がある。"),
        ("euc_jp", "患者は45歳の男性で、3日前から発熱と咳がある。"),
        ("euc_kr", "환자는 45세 남성으로 3일 전부터 발열과 기침이 있었다."),
        ("big5", "患者為四十五歲男性，三天前開始發燒及咳嗽。"),
        ("cp874", "ผู้ป่วยชายอายุ 45 ปี มีไข้และไอ"),
        ("cp1250", "Pacjent, mężczyzna lat 45, zgłasza gorączkę i ból głowy."),
        ("cp1250", "Pacient, muž 45 let, má horečku a kašel již tři dny."),
        ("cp1251", "Пациент, мужчина 45 лет, жалуется на лихорадку."),
    ],
)
def test_text_in_an_encoding_that_is_not_known_is_refused_and_never_read_as_another(read_rows, encoding, text) -> None:
    [bad] = read_rows(pmc_patients, f"patient_uid\tpatient\n1-1\t{text}\n".encode(encoding))
    assert bad.reason == "A text in it contains bytes that are not UTF-8 text."


def test_a_damaged_byte_does_not_change_the_encoding_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("é ".encode() + b"\xe9 \xff")
    with open_text(tmp_path / "file") as file:
        assert file.read() == "é ".encode() + b"\xe9 \xff"


@pytest.mark.parametrize("first", ["", "sep=;\r\n", '"sep=;"\r\n'])
def test_semicolons_empty_columns_and_rows_are_read(read_rows, first: str) -> None:
    data = f'{first}patient_uid;patient;;\r\n1-1;"Fever, then;\r\nnone.";;\r\n;;;\r\n1-2;Cough.;;\r\n'
    rows = read_rows(pmc_patients, data.encode())
    assert [(row.external_id, row.content["text"]) for row in rows] == [
        ("1-1", "Fever, then;\r\nnone."),
        ("1-2", "Cough."),
    ]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("uid;text", "semicolons; columns found: uid, text"),
        ("uid\ttext", "tabs; columns found: uid, text"),
        ("\u200fuid\u200b,text", "commas; columns found: uid, text"),
        ("patient_uid,patient,patient", "two columns 'patient'"),
    ],
)
def test_a_table_is_refused_with_what_was_recognised(read_rows, header: str, reason: str) -> None:
    with pytest.raises(WrongFormat, match=reason):
        read_rows(pmc_patients, f"{header}\n1,2\n".encode())


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1001.0, "1001"),
        ("\u200f7\u200e", "7"),
        (1e3, "1000"),
        (" 1001 ", "1001"),
        ("0101", "0101"),
        ("1001.0", "1001"),
    ],
)
def test_an_id_is_read_however_it_is_written(read_rows, value: object, kept: str) -> None:
    rows = read_rows(pmc_patients, array(patient(patient_uid=value, PMID=value)))
    assert [(row.external_id, row.content["pmid"]) for row in rows] == [(kept, kept)]


def test_an_id_is_the_same_in_every_normal_form(read_rows) -> None:
    rows = read_rows(pmc_patients, array(patient(patient_uid="e\u0301"), patient(patient_uid="\u00e9")))
    assert [row.external_id for row in rows] == ["\u00e9"] * 2


@pytest.mark.parametrize("rounded", ["1.23E+05", "1,23E+05", float(2**53), 12345678901234567890.0])
def test_a_rounded_id_is_refused(read_rows, rounded: object) -> None:
    good, bad = read_rows(pmc_patients, array(patient(), patient(patient_uid=rounded)))
    assert isinstance(good, Row)
    assert "rounded" in bad.reason


@pytest.mark.parametrize("prefix", ["", "./", "VQA_RAD/", ".\\VQA_RAD\\", "a/b/"])
def test_the_members_of_an_archive_are_found_by_their_entry(tmp_path: Path, prefix: str) -> None:
    questions = [{"qid": 1, "question": "Is it?", "answer": "yes", "image_name": "A.PNG"}]
    path = tmp_path / "file"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("trainset.JSON", json.dumps(questions)), ("images/a.png", picture()), (".DS_Store", "x")):
            info = zipfile.ZipInfo()
            info.filename = prefix + name.replace("/", "\\" if "\\" in prefix else "/")
            archive.writestr(info, data)
        for name in ("__MACOSX/._trainset.json", "../outside.json", "/outside.json", "C:\\outside.json"):
            archive.writestr(name, "[]")
    for row in vqa_rad.rows(path, vqa_rad.sniff(path)):
        assert isinstance(row, Row)
        assert row.images[0].read() == picture()
