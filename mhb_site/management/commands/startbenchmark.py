"""startbenchmark NAME: write the folder of a new benchmark that runs, and its test."""

from argparse import ArgumentParser
from collections.abc import Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from generation.recipes import registry

TEMPLATES = Path(__file__).parents[1] / "new_benchmark"
BENCHMARKS, TESTS = Path("mhb_site/benchmarks"), Path("tests/benchmarks")


class Command(BaseCommand):
    help = (
        "Write the folder of a new benchmark (one prompt, one question, one rate), its simulated models and its test."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="of the folder: lower-case letters, digits and _")
        parser.add_argument("--under", type=Path, default=settings.BASE_DIR, help="where mhb_site/ and tests/ are")

    def handle(self, *args: Any, **options: Any) -> None:
        name, under = options["name"], options["under"]
        is_name = name.isidentifier() and name.isascii() and name == name.lower() and not iskeyword(name)
        if not is_name or name in registry.names():
            raise CommandError(f"{name!r} is not the name of a new benchmark: use lower-case letters, digits and _.")
        targets = {"folder": under / BENCHMARKS / name, "tests": under / TESTS / name}
        try:
            self._write(name, targets)
        except OSError as error:
            raise CommandError(f"Cannot write to {error.filename or under}: {error.strerror}.") from error
        self.stdout.write(f"Run it: .venv/bin/python -m pytest {targets['tests']}. Then change it: docs/benchmarks.md.")

    def _write(self, name: str, targets: Mapping[str, Path]) -> None:
        if existing := [str(target) for target in targets.values() if target.exists()]:
            raise CommandError(f"{', '.join(existing)} exists already.")
        for part, target in targets.items():
            for template in sorted((TEMPLATES / part).rglob("*-tpl")):
                path = target / template.relative_to(TEMPLATES / part).with_name(template.name.removesuffix("-tpl"))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(template.read_text("utf-8").replace("{{ name }}", name), "utf-8")
                self.stdout.write(str(path))
