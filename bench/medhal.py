"""Statements by the million: `python -m bench.medhal`.

Published rows are imported, become samples, are frozen as a release and exported. The report of a
run on a million scored statements is computed. Each part runs in its own process, so that memory is
measured separately. `--on` selects one database for the rows; the scored statements are always on
PostgreSQL. On a shared processor, CPU time says more than the clock: that of this process and of
its PostgreSQL backend.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROWS, SCORED = 1_000_000, 1_000_000
QUICK = 2_000
DATABASES = ("SQLite", "PostgreSQL")
SOURCES = (
    ("medmcqa", ""),
    ("acm", "A 60-year-old man was admitted with fever. " * 60),
    ("medqa", ""),
    ("mednli", "Cr was 1.7."),
)
TASKS = ("qa", "ie", "qa", "nli")
MODELS = 4


def write_rows(path: Path, count: int) -> None:
    """Write rows as MedHal's authors publish them, in pairs."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            (source, context), label = SOURCES[number // 2 % len(SOURCES)], number % 2 == 0
            row = {
                "id": f"row-{number}",
                "context": f"Record {number // 2}. {context}" if context else None,
                "statement": f"Drug {number // 2} {'lowers' if label else 'raises'} blood pressure in adults.",
                "label": label,
                "explanation": f"Drug {number // 2} lowers blood pressure in adults.",
                "inner_id": str(number // 2),
                "source": source,
                "synthetic": source == "acm",
            }
            file.write(json.dumps(row) + "\n")


def import_rows(path: str, format_name: str = "medhal") -> dict[str, Any]:
    from generation.sources import services

    run = services.run_import(services.start_import(Path(path), format_name=format_name, name="bench").pk)
    return {"rows": run.source.records.count()}


def make_samples() -> dict[str, Any]:
    """Complete a batch of all records: published rows become samples without a call."""
    from generation.batches import launch, services
    from generation.batches.launch import BatchSettings
    from generation.models import Sample, Source

    batch = launch.launch_batch(
        BatchSettings(benchmark="medhal", source=Source.objects.get(name="bench"), roles={}, checks=())
    )
    while services.work_on_batch(batch.pk):  # a lane ends after some minutes; then start another
        pass
    return {"rows": Sample.objects.filter(benchmark="medhal").count()}


def freeze(configuration: str) -> dict[str, Any]:
    from generation.releases import services
    from generation.releases.freezing.composition import Composition

    composition = Composition(with_unreviewed=True, configuration=configuration)
    release = services.freeze_release("bench", benchmark="medhal", composition=composition)
    return {"rows": release.samples_count}


def export(format_name: str) -> dict[str, Any]:
    from generation.models import Release
    from generation.releases import archive, export

    release = Release.objects.filter(name="bench").latest("pk")
    size = sum(len(block) for block in archive.stream(export.Export(release, format_name)))
    return {"rows": release.samples_count, "bytes": size}


def convert(path: str) -> dict[str, Any]:
    """Convert the rows with `datasets` into JSON Lines of conversations, for comparison."""
    import datasets  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder:
        loaded = datasets.load_dataset("json", data_files=path, split="train", cache_dir=folder)
        conversations = loaded.map(
            lambda row: {"messages": [{"role": "user", "content": f"{row['context']}\n{row['statement']}"}]}
        )
        conversations.to_json(Path(folder) / "out.jsonl")
        return {"rows": len(loaded)}


def seed_scored(count: int) -> dict[str, Any]:
    """Create a finished run of `MODELS` models with `count` responses and their scores, in SQL."""
    from django.db import connection
    from django.utils import timezone

    from bench.rows import bare_release
    from evaluation.models import Run, RunEndpoint
    from generation.models import Endpoint, Release

    now, version = timezone.now(), bare_release(("dialogue", [["A1"]])).samples.get().version_id
    samples = count // MODELS
    release = Release.objects.create(
        name="scored", version=1, benchmark="medhal", samples_count=samples, rubrics_count=samples, simulated=False,
        counts={"task": {task: {"samples": 1, "rubrics": 1} for task in ("qa", "ie", "nli", "summarization")}},
        generators=[], sources=[], sha256="0" * 64, created_at=now,
    )  # fmt: skip
    models = [Endpoint.objects.create(name=f"m{n}", url="http://127.0.0.1:1/v1", model=f"m{n}") for n in range(MODELS)]
    run = Run.objects.create(
        release=release,
        status="finished",
        created_at=now,
        finished_at=now,
        variants=["qa", "ie", "nli", "summarization"],
    )
    RunEndpoint.objects.bulk_create(RunEndpoint(run=run, endpoint=model) for model in models)
    statements = [
        (
            "INSERT INTO generation_releasedsample (release_id, position, version_id, key, task, exported, split)"
            " SELECT %s, g, %s, 's' || g, (ARRAY['qa','ie','nli','summarization'])[1 + g %% 4], '{}', 'public'"
            f" FROM generate_series(0, {samples - 1}) g",
            [release.pk, version],
        ),
        (
            "INSERT INTO generation_releasedrubric (sample_id, key, criterion, traps, severity, polarity)"
            " SELECT id, 'label', 'Says rightly whether it is factual.', '[]', '', '' FROM generation_releasedsample"
            " WHERE release_id = %s ORDER BY position",
            [release.pk],
        ),
        (
            "INSERT INTO generation_facet (rubric_id, name, value) SELECT r.id, f.name, f.value FROM"
            " generation_releasedrubric r JOIN generation_releasedsample s ON s.id = r.sample_id CROSS JOIN LATERAL"
            " (VALUES ('source', (ARRAY['medqa','acn','mednli','sumpubmed'])[1 + s.position %% 4]),"
            " ('length', (ARRAY['none','short','medium','long'])[1 + (s.position / 4) %% 4])) f(name, value)"
            " WHERE s.release_id = %s",
            [release.pk],
        ),
        (
            "INSERT INTO evaluation_response (run_id, endpoint_id, sample_id, variant, repeat, outcome, status, about, text,"
            " reasoning, tries, error, detail, live)"
            " SELECT %s, e.endpoint_id, s.id, 'plain', 0, 'answered', 'done', '{}', 'Factual: NO', '', 1, '', '', false"
            " FROM generation_releasedsample s, evaluation_runendpoint e WHERE s.release_id = %s AND e.run_id = %s"
            " ORDER BY s.position, e.id",
            [run.pk, release.pk, run.pk],
        ),
        (
            "INSERT INTO evaluation_judgment (run_id, response_id, rubric_id, status, verdict, explanation, tries, error,"
            " detail, live) SELECT %s, r.id, c.id, 'done',"
            " (ARRAY['tn','tn','tn','fp','tp','tp','fn','unparsed-factual'])[1 + (r.id * 7919) %% 8], '', 1, '', '', false"
            " FROM evaluation_response r JOIN generation_releasedrubric c ON c.sample_id = r.sample_id WHERE r.run_id = %s"
            " ORDER BY r.id",
            [run.pk, run.pk],
        ),
        (
            "INSERT INTO evaluation_responsescore (run_id, response_id, rubric_id, names, numbers) SELECT %s, response_id,"
            " rubric_id, 'bleu rouge1 rouge2', '0.' || lpad((response_id * 7919 %% 1000000)::text, 6, '0') || ' 0.' ||"
            " lpad((response_id * 104729 %% 1000000)::text, 6, '0') || ' 0.123456'"
            " FROM evaluation_judgment WHERE run_id = %s AND verdict = 'tn' ORDER BY response_id",
            [run.pk, run.pk],
        ),
    ]
    with connection.cursor() as cursor:
        for sql, values in statements:
            cursor.execute(sql, values)
        Run.objects.filter(pk=run.pk).update(rubrics_total=count, responses_total=count)
        cursor.execute("VACUUM ANALYZE")
    return {"rows": count}


def report() -> dict[str, Any]:
    """Compute the report of the run without any cache."""
    from evaluation.models import Run
    from evaluation.reports import queries

    computed = queries.report(Run.objects.get())
    overall = [row.scores["bleu"] for row in computed.numbers.scores if row.dataset == "combined"]
    return {"rows": sum(score.n + score.without for score in overall), "with_scores": sum(score.n for score in overall)}


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "import": import_rows,
    "samples": make_samples,
    "freeze": freeze,
    "export": export,
    "convert": convert,
    "seed-scored": lambda count: seed_scored(int(count)),
    "report": report,
}


def part(name: str, *arguments: str) -> None:
    if name != "convert":
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
        import django

        django.setup()
        from django.core.cache import cache
        from django.core.management import call_command
        from django.db import connection

        if name == "migrate":
            call_command("migrate", verbosity=0)
            print("{}")
            return
        from evaluation import registry
        from evaluation.reports import queries  # noqa: F401
        from generation.recipes import registry as recipes
        from generation.releases import archive, services  # noqa: F401 - preloaded, as in a worker

        registry.protocol("medhal")
        if name in ("samples", "freeze"):
            recipes.recipe("medhal")
        connection.ensure_connection()
        cache.clear()
    print(json.dumps(run_part(name, *arguments)))


def run_part(name: str, *arguments: str) -> dict[str, Any]:
    """Run a part; returns its result with its time, CPU and memory."""
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    server_before = server_seconds() if name != "convert" else 0.0
    started, cpu_before = time.perf_counter(), time.process_time()
    result = PARTS[name](*arguments)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_before
    database = server_seconds() - server_before if name != "convert" else 0.0
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before) / 1024
    return {**result, "seconds": seconds, "cpu": cpu, "database": database, "memory": memory}


def server_seconds() -> float:
    """CPU seconds of our PostgreSQL backend process; 0 on SQLite, which runs in this process."""
    from django.db import connection

    if connection.vendor != "postgresql":
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Site:
    """An empty site with its own database; each part runs in its own process."""

    folder: str
    url: str  # of the database; empty: SQLite
    bench: str = "bench.medhal"  # the module with the parts

    def run(self, *arguments: str) -> dict[str, Any]:
        from bench.core import in_process

        environment = {"MHB_DATABASE_URL": self.url, "MHB_DATA_DIR": self.folder}
        line = in_process(self.bench, environment, *arguments)
        print(arguments, line, file=sys.stderr, flush=True)
        return line


@contextmanager
def site(database: str, bench: str = "bench.medhal") -> Iterator[Site]:
    from bench.servers import postgres

    with tempfile.TemporaryDirectory() as folder:
        if database == "SQLite":
            yield Site(folder, "", bench)
        else:
            with postgres() as url:
                yield Site(folder, url, bench)


def _time_rows(name: str, line: dict[str, Any]) -> list[Any]:
    from bench.core import without_goal

    database_rows = [without_goal(f"{name}: in the database", line["database"], "s")] if line["database"] else []
    return [without_goal(f"{name}: in Python", line["cpu"], "s"), *database_rows]


def measure_rows(rows: int, database: str) -> list[Any]:
    """Published rows from the import to the exports."""
    from bench.core import at_least, at_most, skipped, without_goal

    results: list[Any] = []

    def tell(name: str, line: dict[str, Any], least: float = 0) -> None:
        speed = line["rows"] / line["seconds"]
        results.append(
            at_least(name, speed, "rows a second", least) if least else without_goal(name, speed, "rows a second")
        )
        results.extend(_time_rows(name, line))
        results.append(at_most(f"{name}: memory", line["memory"], "MB", 200))

    with site(database) as empty:
        run, path = empty.run, Path(empty.folder) / "medhal.jsonl"
        run("migrate")
        write_rows(path, rows)
        tell(f"{database}: import of {rows} rows", run("import", str(path)), 5_000)
        tell(f"{database}: samples without a call", run("samples"))
        for configuration in ("full", "lf-bal"):
            tell(f"{database}: freeze {configuration}", run("freeze", configuration))
        for name in ("jsonl", "training", "parquet"):
            tell(f"{database}: export {name}", run("export", name))
        title = f"{database}: the same rows by datasets"
        if find_spec("datasets"):
            tell(title, run("convert", str(path)))
        else:
            results.append(skipped(title, "not installed: make interchange"))
    return results


def measure_report(scored: int) -> list[Any]:
    """The report of a run on `scored` statements."""
    from bench.core import at_most

    with site("PostgreSQL") as empty:
        empty.run("migrate")
        empty.run("seed-scored", str(scored))
        line = empty.run("report")
    name = f"report over {line['rows']} scored statements"
    memory = at_most(f"{name}: memory", line["memory"], "MB", 200)
    return [at_most(name, line["seconds"], "s", 2), *_time_rows(name, line), memory]


def measure(rows: int, scored: int, databases: Sequence[str] = DATABASES) -> list[Any]:
    """All figures; a part whose size is 0 is left out."""
    from bench.core import skipped
    from bench.servers import Missing

    results: list[Any] = []
    for database in databases if rows else ():
        try:
            results += measure_rows(rows, database)
        except Missing as missing:
            results.append(skipped(database, str(missing)))
    if scored:
        try:
            results += measure_report(scored)
        except Missing as missing:
            results.append(skipped("report", str(missing)))
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if arguments is None else arguments
    if argv[:1] == ["part"]:
        part(*argv[1:])
        return 0
    from bench.core import as_json, table

    parser = argparse.ArgumentParser(prog="python -m bench.medhal", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} rows and statements")
    parser.add_argument("--rows", type=int, help=f"imported, frozen and exported (default {ROWS:,})")
    parser.add_argument("--scored", type=int, help=f"statements in the report (default {SCORED:,})")
    parser.add_argument("--on", choices=DATABASES, help="the rows on this database alone")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    options = parser.parse_args(argv)
    rows, scored = (QUICK, QUICK) if options.quick else (ROWS, SCORED)
    rows = options.rows if options.rows is not None else rows
    scored = options.scored if options.scored is not None else scored
    results = measure(rows, scored, (options.on,) if options.on else DATABASES)
    print(as_json(results) if options.json else table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
