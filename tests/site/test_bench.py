"""The benches on tiny data: every row of their tables is filled. Durations are not checked."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench import chaos, core, coverage, engine, medhal, release, report, results, review, scale, seed, workers
from bench.servers import Missing
from review.models import Assignment, Case, Event
from review.rules.state_machine import position
from tests import databases

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give benches databases that are migrated already: migrating takes longer than a tiny run."""
    database = databases.migrated_sqlite()

    class MigratedFolder(tempfile.TemporaryDirectory[str]):
        def __init__(self, prefix: str = "mhb-") -> None:
            super().__init__(prefix=prefix)
            for folder in (Path(self.name), Path(self.name, "empty")):
                folder.mkdir(exist_ok=True)
                shutil.copy(database, folder / "mhb.sqlite3")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", MigratedFolder)


@pytest.mark.plain
def test_benches_need_no_package_that_only_tests_use() -> None:
    """They import with neither the tests nor the packages of requirements-dev.txt."""
    code = (
        "import importlib, pkgutil, sys\n"
        "for name in ('tests', 'pytest', 'hypothesis', 'playwright', 'schemathesis', 'krippendorff', 'xdist'):\n"
        "    sys.modules[name] = None\n"
        "import django\n"
        "django.setup()\n"
        "import bench\n"
        "for module in pkgutil.iter_modules(bench.__path__):\n"
        "    importlib.import_module(f'bench.{module.name}')\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "mhb_site.settings"}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.plain
@pytest.mark.parametrize("bench", [chaos, coverage, engine, medhal, release, report, results, review, scale, workers])
def test_help_is_printed_and_nothing_is_measured(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["--help"], 0), (["--no-such-option"], 2)):
        with pytest.raises(SystemExit) as exit_info:
            bench.main(arguments)
        assert exit_info.value.code == code
    output = capsys.readouterr()
    assert f"usage: python -m {bench.__name__}" in output.out
    assert "--json" in output.out
    assert "--no-such-option" in output.err


@pytest.mark.plain
def test_the_coverage_bench_has_a_column_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        coverage, "families", lambda: [coverage.rates((0.3,), (10, 20)), coverage.means(("even",), (10,))]
    )
    monkeypatch.setattr(coverage, "trials", lambda: [coverage.Trial("raw, 10 samples", lambda _random: 0.01)])
    results = list(coverage.measure(5, 1))
    assert {row.name for row in results if row.goal} == {
        *(f"rate: 0.3, ICC {icc}, {samples} samples" for icc in coverage.ICC for samples in (10, 20)),
        "mean of scores: even, 10 samples",
        "mean of scores: even, unequal clusters, 10 samples",
    }
    assert results[-1].value == 100
    assert core.by_size(results).splitlines()[0] == "| | 10 | 20 |"


def test_the_release_bench_downloads_every_suitable_format(db: None) -> None:
    release.seed(3)
    assert release.freeze() == {"samples": 3, "rubrics": 5 + 6 + 6}
    formats = release.formats()
    assert {"csv", "hf", "inspect", "jsonl", "parquet"} <= set(formats)
    assert "supervision" not in formats
    assert all(release.export(name)["bytes"] for name in formats)


def test_the_report_bench_reads_page_file_and_poll(db: None) -> None:
    seeded = report.seed(2)
    measured = report.ask(seeded["run"], seeded["session"])
    reports = {f"{form}, {when}" for form in ("page", "JSON") for when in ("nothing kept", "first", "again")}
    assert measured.keys() == {*reports, "the worker counts", "poll", "responses, page"}


def test_the_scale_bench_reads_every_page(db: None) -> None:
    seeded = report.seed(1, runs=2)
    assert seeded["judgments"] == 2 * report.MODELS * 5
    measured = scale.pages(seeded["run"], seeded["session"])
    assert measured.keys() == {*scale.PAGES, "bundle of a run", "round of the sweeper"}


def test_the_results_bench_launches_and_imports(db: None) -> None:
    results.seed(2)
    assert results.launch()["responses"] == 2 * results.MODELS
    assert results.results(12).keys() == {
        f"{study}, {when}" for study in ("small", "bench") for when in ("first", "again")
    }


@pytest.mark.plain
@pytest.mark.processes
def test_a_tiny_run_fills_every_row(migrated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHB_DATABASE_URL", "")
    rows = list(review.measure(review.TINY, ["SQLite"]))
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    for action in ("next", "reveal", "draft", "submit"):
        assert f"SQLite, 70 cases, 1 user: {action} p95" in names
    assert all(row.value is not None for row in rows)
    assert all((row.goal is None) == (row.met is None) for row in rows)
    exact = {row.name: row for row in rows if row.goal and row.goal.startswith("=")}
    assert len(exact) == 3
    assert all(row.met for row in exact.values()), exact
    parsed = json.loads(core.as_json(rows))
    assert {frozenset(row) for row in parsed} == {frozenset({"name", "value", "unit", "goal", "met"})}
    lines = core.table(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert len({len(line) for line in lines}) == 1


@pytest.mark.plain
def test_a_missing_database_is_a_row_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(folder: Path, sizes: object) -> object:
        raise Missing("PostgreSQL is not installed (no initdb)")

    monkeypatch.setitem(review.DATABASES, "PostgreSQL", missing)
    (row,) = review.measure(review.TINY, ["PostgreSQL"])
    assert row.name == "PostgreSQL: skipped, PostgreSQL is not installed (no initdb)"
    assert (row.value, row.met) == (None, None)


@pytest.mark.plain
@pytest.mark.parametrize(("share", "expected"), [(0.5, 5), (0.95, 10), (0.1, 1), (1, 10)])
def test_percentiles_are_measured_values(share: float, expected: int) -> None:
    assert core.percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == expected


@pytest.mark.plain
def test_goals_are_judged_before_rounding() -> None:
    assert core.at_most("a", 20.0, "ms", 20).met
    assert not core.at_most("a", 20.001, "ms", 20).met
    assert not core.exactly("a", 1, "", 0).met
    assert core.without_goal("a", 1, "ms").met is None
    with pytest.raises(ValueError, match="no values"):
        core.percentile([], 0.5)


def test_a_copied_case_equals_one_that_the_site_opened(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed, "SHAPES", 2)
    seed.fill(5)
    assert Case.objects.count() == Assignment.objects.count() == 5
    opened, copied = Case.objects.get(lineage__startswith="bench", title__endswith=" 0"), Case.objects.latest("pk")
    individual = {
        "id",
        "_state",
        "lineage",
        "title",
        "opened_at",
        "case_id",
        "sequence",
        "previous",
        "hash",
        "at",
        "spec",
    }

    def common(row: Case | Assignment | Event) -> dict[str, object]:
        return {name: value for name, value in vars(row).items() if name not in individual}

    for row_of in (lambda case: case, lambda case: case.assignments.get(), lambda case: case.events.get()):
        assert common(row_of(opened)) == common(row_of(copied))
    assert copied.frozen.form == opened.frozen.form
    assert position(copied.frozen.policy, []).openings


@pytest.mark.plain
@pytest.mark.processes
def test_a_tiny_run_of_the_engine_fills_every_row(migrated: None, tmp_path: Path) -> None:
    rows = list(engine.measure(engine.TINY, tmp_path))
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    for latency in ("fixed 200 ms", "log-normal (σ 0.8)"):
        for contender in ("raw aiohttp", engine.LOOP, "SQLite, one lane"):
            assert f"{latency}: {contender}" in names
        assert f"{latency}: SQLite, one lane to the loop" in names
    missing = [row for row in rows if row.value is None]
    assert [row.name.partition(":")[0] for row in missing] == ["inspect_ai", "lm-eval"]
    assert all((row.value or 0) >= 0 for row in rows)
    assert all((row.goal is None) == (row.met is None) for row in rows)
    in_flight = {row.name: row.value for row in rows}["SQLite, 5 slots at 0.1 s: in flight at once"]
    assert in_flight == 5, "exactly as many as there are slots"


@pytest.mark.plain
def test_a_tiny_run_of_statements_fills_every_row(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_site: medhal.Site, part: str, *arguments: str) -> dict[str, Any]:
        return {} if part == "migrate" else medhal.run_part(part, *arguments)

    monkeypatch.setattr(medhal.Site, "run", run)  # in this process instead of one of its own
    rows = medhal.measure(400, 0, ["SQLite"])  # of fewer rows, all are drawn for review
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    for part in (
        "import of 400 rows",
        "samples without a call",
        "freeze full",
        "freeze lf-bal",
        "export training",
        "export parquet",
    ):
        assert {f"SQLite: {part}", f"SQLite: {part}: in Python", f"SQLite: {part}: memory"} <= set(names)
    missing = [row.name for row in rows if row.value is None]
    assert all(name.startswith("SQLite: the same rows by datasets: skipped") for name in missing)
    assert all((row.goal is None) == (row.met is None) for row in rows)


@pytest.mark.plain
def test_without_any_database_the_engine_bench_gives_reasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> object:
        raise Missing("PostgreSQL is not installed (no initdb)")

    monkeypatch.setitem(engine.DATABASES, "PostgreSQL", missing)
    plan = replace(engine.TINY, databases=("PostgreSQL",))
    skipped = [row.name for row in engine.measure(plan, tmp_path) if row.value is None]
    assert skipped == ["PostgreSQL: skipped, PostgreSQL is not installed (no initdb)"]
