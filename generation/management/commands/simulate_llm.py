"""simulate_llm --port N [--know SOURCE] [--labels FILE]"""

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from generation.llm.simulator.server import make_app, serve
from generation.models import SourceRecord
from generation.recipes import registry
from generation.sources.importers.base import Malformed, json_lines


class Command(BaseCommand):
    help = "Serve the simulated models over the chat completions protocol, until interrupted."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, required=True)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
        parser.add_argument("--batch-delay", type=float, default=0.0, help="seconds until a provider batch is done")
        parser.add_argument(
            "--vary",
            type=float,
            default=0.0,
            metavar="SHARE",
            help="how often a repeated request is answered anew, from 0 to 1; by default, never",
        )
        parser.add_argument("--fault", action="append", default=[], metavar="KIND@SHARE", help="for example 429@0.1")
        parser.add_argument(
            "--know",
            action="append",
            default=[],
            metavar="SOURCE",
            help="an imported source; models that see know the true answers to its images",
        )
        parser.add_argument(
            "--labels",
            type=Path,
            metavar="FILE",
            help="the same from JSON Lines of question, images (SHA-256) and answer",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        scripts = [registry.module(name, "simulate").SCRIPT for name in registry.names()]
        seeing_scripts = [script for script in scripts if hasattr(script, "learn")]
        for record in _known_records(options["know"], options["labels"]):
            for script in seeing_scripts:
                script.learn(record)
        try:
            app = make_app(
                scripts,
                seed=options["seed"],
                faults=tuple(options["fault"]),
                latency=options["latency"],
                batch_delay=options["batch_delay"],
                vary=options["vary"],
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        serve(app, options["host"], options["port"], lambda url: self.stdout.write(f"Simulated models at {url}"))


def _known_records(sources: list[str], labels: Path | None) -> Iterator[Mapping[str, Any]]:
    """The records of sources and of a file whose answers models that see images shall know."""
    if sources:
        rows = SourceRecord.objects.filter(source__name__in=sources)
        yield from rows.values_list("content", flat=True).iterator(chunk_size=500)
    if labels is None:
        return
    try:
        for number, record in json_lines(labels):
            if isinstance(record, Malformed) or not isinstance(record, dict):
                raise CommandError(
                    f"{labels.name}, line {number}: {record if isinstance(record, Malformed) else 'no object.'}"
                )
            yield record
    except OSError as error:
        raise CommandError(f"{labels}: {error.strerror}.") from None
