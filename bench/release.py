"""How long a release takes to freeze and to export, and how much memory: `python -m bench.release`.

Each part runs in its own process on a temporary PostgreSQL, so that memory is measured separately.
"""

import argparse
import gc
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

SAMPLES = 5_000
REVIEWS = 3  # of each sample
WORDS = "The patient reports that the pain began three days ago and asks what else could be done about it. " * 6


def seed(count: int) -> None:
    """Create approved samples with about six rubrics, three reviews and an audit trail each."""
    from review.models import User

    people = [User.objects.create_user(f"p{n}", password=None) for n in range(6)]
    for start in range(0, count, SAMPLES):
        _seed(min(SAMPLES, count - start), f"bare-{start}", people)


def _seed(count: int, name: str, people: Sequence[Any]) -> None:
    from django.utils import timezone

    from bench.rows import ALTERED, TURNS, _named_traps, drafts
    from generation.models import Rubric, Sample, SampleVersion
    from generation.recipes import registry
    from generation.recipes.recipe import NewRubric, NewSample
    from review.audit.trail import record, recording_events
    from review.cases import services as cases_services
    from review.models import Assignment, Case, Event, Review

    now = timezone.now()
    batch = drafts(count, name)
    rows = list(batch.drafts.order_by("pk"))
    turns = [{**turn, "content": f"{turn['content']} {WORDS}"} for turn in ALTERED]
    content = {"task": "dialogue", "source_turns": TURNS, "turns": turns, "traps": _named_traps()}
    new_sample = NewSample("dialogue", "Case", "en", content, (NewRubric("R1", "Says so.", ("A1",)),))
    first = cases_services.open_case(registry.case_spec("mhb", new_sample, name, 1))
    samples = Sample.objects.bulk_create(
        Sample(
            benchmark="mhb", task="dialogue", batch=batch, record_id=row.record_id, status="approved", created_at=now
        )
        for row in rows
    )
    fields = {field.attname: getattr(first, field.attname) for field in Case._meta.concrete_fields}
    del fields["id"]
    fields |= {"state": "approved", "ground": "consensus", "closed_at": now, "language": "en"}
    cases = Case.objects.bulk_create(Case(**{**fields, "lineage": sample.key}) for sample in samples)
    versions = SampleVersion.objects.bulk_create(
        SampleVersion(
            sample=sample, number=1, draft=row, case=case, title=f"Case {case.pk}", status="approved", created_at=now,
            content={**content, "turns": [{"role": "user", "content": f"Case {case.pk}. {WORDS}"}, *turns[1:]]},
        )
        for sample, row, case in zip(samples, rows, cases, strict=True)
    )  # fmt: skip
    Rubric.objects.bulk_create(
        Rubric(
            version=version, key=f"R{n}", criterion=f"Says {n} of case {at}.", traps=["A1", "C2"][: 1 + n % 2],
            approved=f"Says {n} of case {at}, plainly.", severity="moderate",
        )
        for at, version in enumerate(versions)
        for n in range(5 + (at % 5 > 0))
    )  # fmt: skip
    roles = [("primary", "commit"), ("secondary", "commit"), ("secondary", "confirm")][:REVIEWS]
    assignments = Assignment.objects.bulk_create(
        Assignment(case=case, role=role, hold="done", physician=people[(at + n) % 6], opened_at=now)
        for at, case in enumerate(cases)
        for n, role in enumerate(("primary", "secondary"))
    )
    answers = {"verdict": "approve", "questions": {"naturalness": {"value": "good"}}, "rubrics": {}}
    Review.objects.bulk_create(
        Review(
            case=case, assignment=assignments[2 * at + (role != "primary")], physician=people[(at + (role != "primary")) % 6],
            role=role, phase=phase, answers=answers, verdict="approve", inadequate=False, submitted_at=now,
        )
        for at, case in enumerate(cases)
        for role, phase in roles
    )  # fmt: skip
    for start in range(0, count, 1000):
        with recording_events():
            for case in cases[start : start + 1000]:
                record(case, Event.Kind.OPENED, None)
                record(case, Event.Kind.CLOSED, None, before="secondary", after="approved", ground="consensus")


def freeze() -> dict[str, Any]:
    from generation.releases import services

    release = services.freeze_release("bench", benchmark="mhb")
    return {"samples": release.samples_count, "rubrics": release.rubrics_count}


def formats() -> list[str]:
    """Names of the formats that the release can be exported in."""
    from generation.models import Release
    from generation.releases.export import fitting_formats

    return [name for name, _label in fitting_formats(Release.objects.get())]


def export(format_name: str) -> dict[str, Any]:
    """Download the release; returns its size and the time of the first byte."""
    from generation.models import Release
    from generation.releases import archive, export

    started = time.perf_counter()
    first, size = None, 0
    for block in archive.stream(export.Export(Release.objects.get(), format_name)):
        first = first if first is not None else time.perf_counter() - started
        size += len(block)
    return {"first": first, "bytes": size}


def export_samples_only(format_name: str) -> dict[str, Any]:
    """Write only the samples: reviews, audit trail and checksums of a release come after them."""
    from generation.models import Release
    from generation.releases import export

    with tempfile.TemporaryDirectory() as folder:
        for path in export.Export(Release.objects.get(), format_name).files(Path(folder)):
            if path.suffix != ".md":
                return {"bytes": path.stat().st_size}
    raise RuntimeError(f"{format_name}: no file")


def part(name: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    if name == "seed":
        call_command("migrate", verbosity=0)
        seed(int(arguments[0]))
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
        print("{}")
        return
    from django.template import engines

    from generation.recipes import registry
    from generation.releases import archive, services  # noqa: F401 - preloaded, as in a worker

    registry.recipe("mhb")
    engines.all()  # as in every process that has shown a page
    gc.collect()
    gc.freeze()  # as wsgi.py and the worker do
    gc.set_threshold(5_000, 20, 200)  # as wsgi.py does
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    if name == "formats":
        print(json.dumps({"formats": formats()}))
        return
    if arguments and arguments[0] in ("parquet", "hf"):
        import pyarrow as pa
        import pyarrow.parquet

        # Loads pandas, if installed: the memory of libraries is not part of the growth.
        pa.array([""])
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu_before = time.perf_counter(), time.process_time()
    parts: dict[str, Callable[..., dict[str, Any]]] = {
        "freeze": freeze,
        "export": export,
        "samples": export_samples_only,
    }
    result = parts[name](*arguments)
    seconds = time.perf_counter() - started
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before) / 1024
    print(json.dumps({**result, "seconds": seconds, "cpu": time.process_time() - cpu_before, "memory": memory}))


def measure(samples: int, only: Sequence[str] = ()) -> list[Any]:
    """All figures, with exports in the given formats (default: all that fit the release)."""
    from bench.core import at_least, at_most, in_process, without_goal
    from bench.servers import postgres

    rows = []
    with postgres() as url:
        run = partial(in_process, "bench.release", {"MHB_DATABASE_URL": url})
        run("seed", str(samples))
        result = run("freeze")
        rows.append(at_most(f"freeze {samples} samples, {result['rubrics']} rubrics", result["seconds"], "s", 3))
        rows.append(without_goal("freeze: of which in Python", result["cpu"], "s"))
        rows.append(without_goal("freeze: memory", result["memory"], "MB"))
        for name in only or run("formats")["formats"]:
            result = run("export", name)
            rows.append(at_most(f"export {name}", result["seconds"], "s", 1.2))
            rows.append(without_goal(f"export {name}: of which in Python", result["cpu"], "s"))
            rows.append(without_goal(f"export {name}: first byte", result["first"] * 1000, "ms"))
            rows.append(at_most(f"export {name}: memory", result["memory"], "MB", 30))
            rows.append(without_goal(f"export {name}: a second", samples / result["seconds"], "samples"))
            alone = run("samples", name)
            rows.append(
                at_least(f"export {name}: without reviews and trail", samples / alone["seconds"], "a second", 8_000)
            )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if arguments is None else arguments
    if argv[:1] == ["part"]:
        part(*argv[1:])
        return 0
    from bench.core import as_json, table

    parser = argparse.ArgumentParser(prog="python -m bench.release", description=__doc__)
    parser.add_argument("samples", nargs="?", type=int, default=SAMPLES, help="in the release (default %(default)s)")
    parser.add_argument("--format", action="append", default=[], help="only this one (more than once: these)")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    options = parser.parse_args(argv)
    rows = measure(options.samples, options.format)
    print(as_json(rows) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
