"""Verdicts made elsewhere become a run like any other.

Rows that do not fit are refused one by one, and nothing is added twice.
"""

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from evaluation import errors
from evaluation.interchange import importing, rows
from evaluation.models import Judgment, Response, Run
from evaluation.reports import formats
from evaluation.reports import queries as reports_queries
from evaluation.runs.kind import RUNS
from generation.endpoints.testing import test_endpoint as ask_endpoint
from generation.jobs import services as jobs_services
from generation.models import Call, Endpoint, Release
from generation.models.work import Work
from tests.engine import Manage, bare_release, endpoint
from tests.evaluation.toy import toy, toy_release

__all__ = ["toy"]

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
FIRST, SECOND = "mhb-dialogue-000000", "mhb-report-000001"


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(("dialogue", [["A1"], ["C2"]]), ("report", [["A1"], ["A3"]]))


def row(sample: str = FIRST, rubric: str = "R1", met: Any = True, model: str = "their-model", **fields: Any) -> Any:
    return {"sample": sample, "rubric": rubric, "model": model, "met": met, **fields}


def write_rows(folder: Path, *lines: Any) -> Path:
    path = folder / "results.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def import_rows(release: Release, folder: Path, *lines: Any, **options: Any) -> importing.ImportResult:
    entries = rows.read(write_rows(folder, *lines))
    return importing.import_results(entries, release=release, **{"study": "study", **options})


ALL = [row(sample, rubric, met=rubric == "R1") for sample in (FIRST, SECOND) for rubric in ("R1", "R2")]


def test_a_file_becomes_a_run_like_any_other(release: Release, tmp_path: Path, manage: Manage) -> None:
    second_model = [
        {**line, "model": "org/Other-7B", "met": True, "response": "No.", "judge": "their-judge"} for line in ALL
    ]
    output = manage.json(
        "import_results", write_rows(tmp_path, *ALL, *second_model), "--release", "bare", "--name", "study"
    )
    assert (output["rows"], output["added"], output["known"], output["refused"]) == (8, 8, 0, 0)
    assert output["models"] == ["their-model", "org-Other-7B"]
    run = Run.objects.get(pk=output["run"])
    assert (run.origin, run.study, run.status, run.judge and run.judge.name) == (
        "imported", "study", Run.Status.FINISHED, "their-judge"
    )  # fmt: skip
    report = reports_queries.report(run)
    combined = {row.endpoint: row.measured for row in report.numbers.overall if row.dataset == "combined"}
    assert (combined["their-model"].numerator, combined["their-model"].denominator) == (2, 4)
    assert (combined["org-Other-7B"].numerator, combined["org-Other-7B"].denominator) == (0, 4)
    progress = RUNS.progress(run)
    assert (progress.percent, progress.responses.total, progress.rubrics_total) == (100, 4, 8)
    assert set(run.responses.values_list("outcome", flat=True)) == {"answered"}
    assert json.loads(manage("report", run.pk, "--format", "json")[1])["finished"]


def test_the_same_file_twice_adds_nothing_twice(release: Release, tmp_path: Path) -> None:
    first = import_rows(release, tmp_path, *ALL)
    again = import_rows(release, tmp_path, *ALL, *ALL)
    assert first.run == again.run
    assert (again.added, again.known, again.refused) == (0, 8, 0)
    assert (Response.objects.count(), Judgment.objects.count()) == (2, 4)
    assert import_rows(release, tmp_path, *ALL, study="another").run != first.run


def test_texts_are_stored_as_they_stand_in_more_rows_than_a_statement_takes(release: Release, tmp_path: Path) -> None:
    text = "5\t%s of\n\\N, \\. and \\t; 'a', \"b\"\n\\.\n"
    lines = [row(met=n % 2 == 0, repeat=n, response=f"{n} {text}", explanation=text) for n in range(200)]
    assert import_rows(release, tmp_path, *lines).added == 200
    stored = Judgment.objects.order_by("response__repeat").values_list("response__text", "explanation", "verdict")
    assert list(stored) == [(f"{n} {text}", text, "met" if n % 2 == 0 else "not_met") for n in range(200)]


def test_every_outcome_is_stored_with_the_right_state(release: Release, tmp_path: Path) -> None:
    lines = [
        row(FIRST, "R1", None, "m1", outcome="refused", response="I cannot."),
        row(FIRST, "R1", False, "m2", outcome="refused"),
        row(FIRST, "R1", None, "m3"),
        row(FIRST, "R1", None, "m4", outcome="failed"),
        row(FIRST, "R1", True, "m5", outcome="cut_off"),
        row(FIRST, "R1", None, "m6", outcome="empty"),
        row(FIRST, "R1", None, "m7", outcome="filtered"),
    ]
    result = import_rows(release, tmp_path, *lines)
    assert (result.added, result.refused, result.without_verdict) == (7, 0, 7)
    stored = {
        row.response.endpoint.name: (row.response.outcome, row.response.status, row.status, row.verdict, row.error)
        for row in Judgment.objects.select_related("response__endpoint")
    }
    assert stored == {
        "m1": ("refused", "done", "failed", "", "NotJudged"),
        "m2": ("refused", "done", "done", "not_met", ""),
        "m3": ("answered", "done", "failed", "", "BrokenReply"),
        "m4": ("failed", "failed", "failed", "", "NoResponse"),
        "m5": ("cut_off", "done", "done", "met", ""),
        "m6": ("empty", "done", "failed", "", "NoResponse"),
        "m7": ("filtered", "done", "failed", "", "NoResponse"),
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["sample"]', "not a JSON object"),
        (row(sample=""), "sample: missing or not text"),
        ({"sample": FIRST, "rubric": "R1", "model": "m"}, "met: must be true, false or null"),
        (row(met="yes"), "met: must be true, false or null"),
        (row(met=1), "met: must be true, false or null"),
        (row(outcome="ok"), "outcome: must be one of"),
        (row(met=None, outcome="judged"), "outcome judged contradicts met null"),
        (row(outcome="failed"), "outcome failed contradicts met true"),
        (row(repeat=-1), "repeat: must be a whole number"),
        (row(repeat=True), "repeat: must be a whole number"),
        (row(response=["No."]), "response: not text"),
        (row(response="NUL \x00"), "contains a character that cannot be stored"),
        (row(response="half \ud800"), "contains a character that cannot be stored"),
        (row(sample="mhb-dialogue-999999"), "sample mhb-dialogue-999999: not in this release"),
        (row(rubric="R9"), "rubric R9: not a rubric of mhb-dialogue-000000"),
        (row(model="???"), "model ???: needs a letter or digit"),
        (row(model="taken/name"), "taken-name is the name of an endpoint with another model"),
        (row(release="0" * 63 + "1"), "release: not the checksum of this release"),
        (row(SECOND, judge="???"), "judge ???: needs a letter or digit"),
        (row(met=False), "met: contradicts an earlier verdict (met)"),
        (row(rubric="R2", response="Yes."), "response: differs from the text"),
        (row(rubric="R2", outcome="refused"), "outcome refused: contradicts another row on this answer (answered)"),
    ],
)
@pytest.mark.parametrize("two_files", [True, False])
def test_an_invalid_row_is_refused_with_its_reason_and_the_others_are_kept(
    release: Release, tmp_path: Path, line: Any, reason: str, two_files: bool
) -> None:
    endpoint("http://models.example/v1", "own-model", name="taken-name")
    good = row(response="No.", judge="their-judge", release="0" * 64)
    if two_files:
        import_rows(release, tmp_path, good)
    result = import_rows(release, tmp_path, *([] if two_files else [good]), line, row(SECOND))
    assert result.refused == 1, result.refusals
    [refusal] = result.refusals
    assert refusal.where == f"line {1 if two_files else 2}"
    assert reason in refusal.reason
    assert Judgment.objects.count() == 2


def test_a_table_of_verdicts_is_read_row_by_row(release: Release, tmp_path: Path) -> None:
    """As a spreadsheet saves it, joined from two, with a total below."""
    header = "sample;rubric;model;met;repeat;response\r\n"
    lines = [f"{FIRST};R1;m;TRUE;;No.", f"{FIRST};R2;m;0;;No.", f"{FIRST};R1;m;;1;Yes.", f"{FIRST};R2;m;rather;;No."]
    lines.append(f"{FIRST};R2;m;FALSCH;1.0;Yes.")
    path = tmp_path / "results.csv"
    path.write_text("\ufeff" + header + "\r\n".join(lines) + "\r\n\ufeff" + header + "Total;4;;;;\r\n")
    result = importing.import_results(rows.read(path), release=release, study="table")
    assert [(refusal.where, refusal.reason) for refusal in result.refusals] == [
        ("line 5", "met: must be true, false or empty"),
        ("line 8", "This is a line of totals, not a record."),
    ]
    stored = Judgment.objects.order_by("response__repeat", "rubric__key")
    assert list(stored.values_list("response__text", "rubric__key", "verdict")) == [
        ("No.", "R1", "met"), ("No.", "R2", "not_met"), ("Yes.", "R1", ""), ("Yes.", "R2", "not_met")
    ]  # fmt: skip


def test_files_that_were_joined_lose_no_row(release: Release, tmp_path: Path) -> None:
    lines = "".join("\ufeff" + json.dumps(row(rubric=rubric)) + "\n" for rubric in ("R1", "R2"))
    path = tmp_path / "results.jsonl"
    path.write_text(lines)
    assert importing.import_results(rows.read(path), release=release, study="s").added == 2


def _archive(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return data.getvalue()


OTHER_FILES = [
    (b"", "It is empty"),
    (gzip.compress(b"{}"), "a gzip archive: unpack it first"),
    (_archive("[Content_Types].xml", "xl/workbook.xml"), "a spreadsheet or document: save the table as CSV"),
    (_archive("results.jsonl"), "unpack this archive"),
    (b"<html></html>", "a web page"),
    (b"PAR1", "a Parquet file"),
    (b"Sample,Rubric,Model\nS,R,m\n", "no column 'sample', 'rubric', 'met'"),
]


# Named by the reason: the bytes of an archive contain the time, and workers must name a test alike.
@pytest.mark.plain
@pytest.mark.parametrize(("data", "reason"), OTHER_FILES, ids=[reason for _data, reason in OTHER_FILES])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "results"
    path.write_bytes(data)
    with pytest.raises(errors.WrongResults) as refused:
        list(rows.read(path))
    assert reason in refused.value.detail


def test_a_report_of_refusals_alone_says_what_is_not_there(release: Release, tmp_path: Path) -> None:
    import_rows(release, tmp_path, row(met=None, outcome="refused"))
    run = Run.objects.get()
    text = formats.as_markdown(reports_queries.report(run))
    assert "no verdicts on 'Hallucination rate'." in text
    assert f"Run {run.pk}, judge not stated." in text
    assert "read by code" not in text


def test_repeats_are_answers_of_their_own(release: Release, tmp_path: Path) -> None:
    result = import_rows(release, tmp_path, *(row(met=n > 0, repeat=n) for n in range(3)))
    assert result.added == 3
    assert sorted(Response.objects.values_list("repeat", flat=True)) == [0, 1, 2]


def test_a_text_may_come_with_a_later_row(release: Release, tmp_path: Path) -> None:
    import_rows(release, tmp_path, row())
    import_rows(release, tmp_path, row(rubric="R2", response="No."))
    assert Response.objects.get().text == "No."


def test_a_whole_file_may_be_refused(release: Release, toy: None, tmp_path: Path, manage: Manage) -> None:
    with pytest.raises(errors.OtherRelease):
        import_rows(release, tmp_path, row(), sha256="1" * 64)
    with pytest.raises(errors.WrongResults):
        import_rows(release, tmp_path)
    with pytest.raises(errors.WrongResults):
        import_rows(release, tmp_path, row(), study=" ")
    with pytest.raises(errors.NoCriteria):
        import_rows(toy_release(2), tmp_path, row(sample="toy-000"))
    for text in ("{\n", '{"version": 2, "eval": {}}\n', "PK\x03\x04"):
        with pytest.raises(errors.WrongResults):
            import_rows(release, tmp_path, text)
    assert not Run.objects.exists()
    path = write_rows(tmp_path, row(rubric="R9"))
    code, out, _err = manage("import_results", path, "--release", "bare", "--name", "study", "--json")
    assert (code, json.loads(out)["refused"]) == (1, 1)
    assert not Run.objects.exists()
    assert "No such file" in manage.refusal("import_results", tmp_path / "none", "--release", "bare", "--name", "s")


def test_imported_models_are_never_asked(release: Release, tmp_path: Path) -> None:
    run = import_rows(release, tmp_path, row(met=None, outcome="failed", model="their-model")).run
    assert run is not None
    with pytest.raises(errors.ImportedRun):
        jobs_services.retry_failed(run.pk)
    theirs = Endpoint.objects.get(name="their-model")
    assert theirs.url == ""
    assert not ask_endpoint(theirs, images=False).answered
    assert not Call.objects.exists()


def test_the_size_of_chunks_does_not_matter(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK", 3)
    result = import_rows(release, tmp_path, *ALL, *ALL, row(met=False))
    assert (result.rows, result.added, result.known, result.refused) == (9, 4, 4, 1)
    assert (Response.objects.count(), Judgment.objects.count()) == (2, 4)
