"""Ten thousand images.

`python -m bench.images [--quick] [--few N] [--many N] [--imports] [--on DATABASE] [--json]`.

Distinct small JPEG and PNG files are imported in VQA-RAD's layout, as a folder and as a zip. The
same with reference traces in ClinHallu's own layout become samples without a call, and are frozen,
exported and shown. Each part runs in its own process, once with few images and once with many: what
counts is how much more memory the many need. `--imports` runs only the imports.
"""

import json
import os
import random
import resource
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.medhal import DATABASES, Site, server_seconds, site

FEW, MANY = 1_000, 10_000
QUICK = (20, 60)
GROWTH = 40  # MB that ten times as many images may add
SIDE = 192  # pixels
PAGES = 50  # of records, samples and images, each
TRACE = {
    "raw": "",
    "visual_recognition": {"text": "A round shadow stands left of the midline."},
    "knowledge_recall": {"text": "Round shadows there are often cysts."},
}


def write_images(folder: Path, count: int) -> None:
    """Write `testset.json` (VQA-RAD) and `gold_cot.jsonl` (ClinHallu) beside their images."""
    from PIL import Image

    images = folder / "images"
    images.mkdir(parents=True)
    questions, traces = [], []
    for number in range(count):
        noise = random.Random(number).randbytes(48 * 48)
        picture = Image.frombytes("L", (48, 48), noise).resize((SIDE, SIDE))
        name = f"synpic{number:05}.{'jpg' if number % 2 else 'png'}"
        picture.convert("RGB" if number % 3 else "L").save(images / name)
        text, answer = f"Is finding {number} there?", "yes" if number % 2 else "no"
        questions.append(
            {
                "qid": number, "image_name": name, "image_organ": "CHEST", "answer": answer, "answer_type": "CLOSED",
                "question_type": "PRES", "question": text, "phrase_type": "freeform",
            }
        )  # fmt: skip
        reasoning = {"text": "The shadow is where a cyst would be.", "answer": answer}
        traces.append(
            {
                "question": text, "answer": answer, "images": [name], "question_type": "yes_no", "source": "vqa-rad",
                "split": "train" if number % 4 else "test", "original_index": number, "cot_valid": True,
                "gold_cot": {**TRACE, "reasoning": reasoning},
            }
        )  # fmt: skip
    (folder / "testset.json").write_text(json.dumps(questions))
    with (folder / "gold_cot.jsonl").open("w") as file:
        file.writelines(json.dumps(trace) + "\n" for trace in traces)


def write_zip(folder: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for file in [folder / "testset.json", *(folder / "images").iterdir()]:
            archive.write(file, file.relative_to(folder).as_posix())


def import_images(format_name: str, path: str) -> dict[str, Any]:
    from generation.sources import services

    run = services.run_import(services.start_import(Path(path), format_name=format_name, name=format_name).pk)
    return {"rows": run.source.records.count(), "refused": run.refused}


def make_samples() -> dict[str, Any]:
    from generation.batches import launch, services
    from generation.batches.launch import BatchSettings
    from generation.models import Sample, Source
    from generation.outcomes.services import apply_outcomes

    source = Source.objects.get(name="clinhallu")
    batch = launch.launch_batch(BatchSettings(benchmark="clinhallu", source=source, roles={}, checks=()))
    while services.work_on_batch(batch.pk):
        pass
    apply_outcomes()  # closes cases that need no review
    return {"rows": Sample.objects.count()}


def freeze() -> dict[str, Any]:
    from generation.releases import services
    from generation.releases.freezing.composition import Composition

    release = services.freeze_release("bench", benchmark="clinhallu", composition=Composition(with_unreviewed=True))
    return {"rows": release.samples_count}


def export(format_name: str, stages: str = "") -> dict[str, Any]:
    from generation.models import Release
    from generation.releases import archive, export

    release = Release.objects.get()
    size = sum(len(block) for block in archive.stream(export.Export(release, format_name, stages=stages)))
    return {"rows": release.samples_count, "bytes": size}


def show() -> dict[str, Any]:
    """Load pages with images as an admin, with their images and thumbnails.

    `worst`: seconds of the slowest page.
    """
    from django.test import Client

    from generation.models import Release, Sample, Source, SourceRecord, StoredImage
    from review.models import User

    admin = User.objects.create_superuser("bench", password=None)
    client = Client(SERVER_NAME="localhost")
    client.force_login(admin)
    release = Release.objects.get()
    source = Source.objects.get(name="clinhallu")
    records = SourceRecord.objects.filter(source=source).order_by("pk").values_list("pk", flat=True)[:PAGES]
    samples = Sample.objects.order_by("pk").values_list("pk", flat=True)[:PAGES]
    digests = StoredImage.objects.order_by("pk").values_list("sha256", flat=True)[:PAGES]
    source_url, release_url = f"/generation/sources/{source.name}/", f"/generation/releases/bench/{release.version}/"
    lists = [source_url, "/generation/samples/", "/review/cases/", "/generation/batches/"]
    pages = [
        *lists,
        release_url,
        f"{release_url}samples/",
        *(f"{source_url}records/{pk}/" for pk in records),
        *(f"/generation/samples/{pk}/" for pk in samples),
        *(f"/generation/images/{sha256}/{size}" for sha256 in digests for size in ("", "?size=thumbnail")),
    ]
    client.get(pages[0])  # the first page of a process loads what all pages need
    times = {}
    for page in pages:
        started = time.perf_counter()
        response = client.get(page)
        times[page] = time.perf_counter() - started
        if response.status_code != 200:
            raise RuntimeError(f"{page}: {response.status_code}")
    slowest = max(times, key=lambda page: times[page])
    return {"rows": len(pages), "worst": times[slowest], "slowest": slowest}


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "import": import_images,
    "samples": make_samples,
    "freeze": freeze,
    "export": export,
    "show": show,
}


def part(name: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    if name == "migrate":
        call_command("migrate", verbosity=0)
        print("{}")
        return
    from PIL import Image

    from evaluation import registry
    from generation.recipes import registry as recipes
    from generation.releases import archive, services  # noqa: F401 - preloaded, as in a worker

    Image.init()
    registry.protocol("clinhallu")
    recipes.recipe("clinhallu")
    connection.ensure_connection()
    memory_before, server_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, server_seconds()
    started, cpu_before = time.perf_counter(), time.process_time()
    result = PARTS[name](*arguments)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                **result, "seconds": seconds, "cpu": cpu, "database": server_seconds() - server_before,
                "peak": peak / 1024, "memory": (peak - memory_before) / 1024,
            }
        )
    )  # fmt: skip


def run_parts(count: int, database: str, *, imports: bool) -> dict[str, dict[str, Any]]:
    """The results of each part with this many images."""
    results: dict[str, dict[str, Any]] = {}

    def run(name: str, empty: Site, *arguments: str) -> None:
        results[name] = empty.run(*arguments)

    with site(database, "bench.images") as empty:
        empty.run("migrate")
        folder, zip_file = Path(empty.folder) / "files", Path(empty.folder) / "files.zip"
        write_images(folder, count)
        write_zip(folder, zip_file)
        run("import of a folder", empty, "import", "vqa-rad", str(folder))
        # The images are already stored: this measures the rows alone.
        run("import with traces", empty, "import", "clinhallu", str(folder))
        if not imports:
            run("samples", empty, "samples")
            run("freeze", empty, "freeze")
            run("export jsonl", empty, "export", "jsonl")
            run("export supervision", empty, "export", "supervision", "V+K")
            run("pages", empty, "show")
        with site(database, "bench.images") as other:
            other.run("migrate")
            run("import of a zip", other, "import", "vqa-rad", str(zip_file))
    return results


def measure(few: int, many: int, database: str, *, imports: bool) -> list[Any]:
    from bench.core import at_most, without_goal

    small, large = (run_parts(count, database, imports=imports) for count in (few, many))
    rows = []
    for name, line in large.items():
        title = f"{database}: {name}"
        rows.append(without_goal(f"{title}, {line['rows']}", line["rows"] / line["seconds"], "a second"))
        rows.append(without_goal(f"{title}: in Python", line["cpu"], "s"))
        if line["database"]:
            rows.append(without_goal(f"{title}: in the database", line["database"], "s"))
        rows.append(without_goal(f"{title}: peak memory of {many}", line["peak"], "MB"))
        growth = line["peak"] - small[name]["peak"]
        rows.append(at_most(f"{title}: peak of {many} over that of {few}", growth, "MB", GROWTH))
        if "worst" in line:
            rows.append(without_goal(f"{title}: the slowest ({line['slowest']})", line["worst"] * 1000, "ms"))
    return rows


def main() -> None:
    if sys.argv[1:2] == ["part"]:
        part(*sys.argv[2:])
        return
    from bench.core import as_json, skipped, table
    from bench.servers import Missing

    def number(name: str, usual: int) -> int:
        return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else usual

    few, many = QUICK if "--quick" in sys.argv else (FEW, MANY)
    databases = (sys.argv[sys.argv.index("--on") + 1],) if "--on" in sys.argv else DATABASES
    if unknown := set(databases) - set(DATABASES):
        sys.exit(f"--on {unknown.pop()}: one of {', '.join(DATABASES)}")
    rows: list[Any] = []
    for database in databases:
        try:
            rows += measure(number("--few", few), number("--many", many), database, imports="--imports" in sys.argv)
        except Missing as missing:
            rows.append(skipped(database, str(missing)))
    print(as_json(rows) if "--json" in sys.argv else table(rows))


if __name__ == "__main__":
    main()
