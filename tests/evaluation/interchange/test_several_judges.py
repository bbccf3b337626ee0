"""A study with several judges is imported as votes, like those of a panel.

Their majority decides, and their agreement is shown.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from evaluation.interchange import bundle, importing, rows, several_judges
from evaluation.interchange.programs import verify_run
from evaluation.judges import summary
from evaluation.models import Judgment, Run, Vote
from evaluation.reports import queries as reports_queries
from evaluation.runs import queries
from evaluation.runs.verdicts import RunVerdicts
from generation.models import Release
from tests.engine import bare_release
from tests.evaluation.interchange.test_importing import FIRST, SECOND, import_rows, row, write_rows
from tests.evaluation.test_pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def release(db: None) -> Release:
    return bare_release(("dialogue", [["A1"], ["C2"]]), ("report", [["A1"], ["A3"]]))


def verdicts(run: Run) -> list[tuple[str, str]]:
    judgments = Judgment.objects.filter(run=run).order_by("rubric")
    return [(judgment.verdict, judgment.error) for judgment in judgments]


def rows_of(judge: str, *met: Any) -> list[Any]:
    """The verdicts of a judge on R1 and R2 of either sample, in this order; "-" leaves one out."""
    criteria = [(FIRST, "R1"), (FIRST, "R2"), (SECOND, "R1"), (SECOND, "R2")]
    return [
        row(sample, rubric, verdict, judge=judge)
        for (sample, rubric), verdict in zip(criteria, met, strict=False)
        if verdict != "-"
    ]


@pytest.mark.parametrize("chunk", [2, 5000])
@pytest.mark.parametrize("files", [1, 3])
def test_the_majority_of_the_judges_decides(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, files: int
) -> None:
    """In one file or in three, of which only the second shows that the study has several judges."""
    monkeypatch.setattr(importing, "CHUNK", chunk)
    by_judge = [
        rows_of("a", True, True, True, False),
        rows_of("b", True, False, None, "-"),
        rows_of("c", False, False, "-", "-"),
    ]
    lines = [line for judge_lines in by_judge for line in judge_lines]
    for file_lines in [lines] if files == 1 else by_judge:
        result = import_rows(release, tmp_path, *file_lines)
    run = result.run
    assert run is not None
    assert result.refusals == []
    assert (run.panel, [judge.name for judge in queries.judges_of(run)]) == ("majority", ["a", "b", "c"])
    # Met 2:1, not met 2:1, met against a failed vote, and a criterion that one judge decided alone.
    assert verdicts(run) == [("met", ""), ("not_met", ""), ("", "NoMajority"), ("not_met", "")]
    assert Vote.objects.filter(run=run).count() == 9
    second_import = import_rows(release, tmp_path, *lines, row(FIRST, "R1", False, judge="a"), row(FIRST, "R1", True))
    assert (second_import.added, second_import.known) == (0, 9)
    assert sorted(refusal.reason for refusal in second_import.refusals) == [
        "judge: missing, in a study with several judges", "met: contradicts an earlier verdict (met)"
    ]  # fmt: skip
    assert verdicts(run) == [("met", ""), ("not_met", ""), ("", "NoMajority"), ("not_met", "")]


def test_the_agreement_of_the_judges_is_on_the_page_and_in_the_bundle(
    release: Release, tmp_path: Path, admin_client: Client
) -> None:
    result = import_rows(
        release, tmp_path, *rows_of("a", True, True, False, False), *rows_of("b", True, False, False, "-")
    )
    run = result.run
    assert run is not None
    agreement = summary.judges(RunVerdicts(run)) or pytest.fail("none")
    [pair] = agreement["pairs"]
    assert (agreement["panel"], list(pair["judges"]), pair["n"], round(pair["raw"], 3)) == (
        "majority",
        ["a", "b"],
        3,
        0.667,
    )
    page = text_of(admin_client.get(reverse("evaluation:run", args=[run.pk])))
    assert "majority of the judges" in page.lower()
    out = tmp_path / "out"
    bundle.export_run(run, out)
    assert verify_run.check(out)["faults"] == []
    votes = [json.loads(line) for line in (out / "votes.jsonl").read_text().splitlines()]
    votes[0]["verdict"] = "not_met"
    (out / "votes.jsonl").write_text("".join(json.dumps(vote) + "\n" for vote in votes))
    assert any("the panel decides" in fault for fault in verify_run.check(out)["faults"])


def test_a_report_counts_votes_that_are_imported_later(release: Release, tmp_path: Path) -> None:
    run = import_rows(release, tmp_path, *rows_of("a", True, True, True, True)).run
    assert run is not None
    assert reports_queries.report(run).numbers.overall[0].measured.numerator == 0
    for judge in ("b", "c"):
        import_rows(release, tmp_path, *rows_of(judge, False, True, True, True))
    assert reports_queries.report(Run.objects.get(pk=run.pk)).numbers.overall[0].measured.numerator == 1


def test_a_refused_judge_is_looked_up_once(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(several_judges, "judge_named", lambda _run, name: looked_up.append(name))
    result = import_rows(release, tmp_path, *rows_of("???", True, True, True, True))
    assert [refusal.reason for refusal in result.refusals] == ["judge ???: needs a letter or digit"] * 4
    assert looked_up == ["???"]


def test_a_judge_may_be_named_by_its_model(release: Release, tmp_path: Path) -> None:
    path = write_rows(tmp_path, row(judge="org/judge-7B"), row(FIRST, "R2", judge="org-judge-7B"))
    result = importing.import_results(rows.read(path), release=release, study="s")
    assert result.run is not None
    assert (result.refused, result.run.panel, Vote.objects.count()) == (0, "", 0)


def test_one_judge_that_two_tools_name_is_one_judge(release: Release, tmp_path: Path) -> None:
    import_rows(release, tmp_path, *rows_of("openai/gpt-x", True, True))
    result = import_rows(release, tmp_path, *rows_of("gpt-x", "-", "-", True, False))
    assert result.run is not None
    assert (result.run.panel, [judge.model for judge in queries.judges_of(result.run)]) == ("", ["openai/gpt-x"])
    assert result.remarks == ["judge gpt-x is taken for openai-gpt-x: only one of the names has a provider"]
    assert [verdict for verdict, _error in verdicts(result.run)] == ["met", "met", "met", "not_met"]


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("openai/gpt-x", "gpt-x", True),
        ("openai:chat:gpt-x", "GPT-X", True),
        ("openrouter/openai/gpt-x", "openai/gpt-x", True),
        ("azure/gpt-x", "openai/gpt-x", False),
        ("gpt-x", "gpt-x-mini", False),
        ("", "gpt-x", False),
    ],
)
def test_names_are_of_one_model_if_one_adds_the_provider(first: str, second: str, is_same: bool) -> None:
    assert several_judges.is_same_model(first, second) is is_same
