"""simulate_llm --port N"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from generation.llm.simulator.server import make_app, serve
from generation.recipes import registry


class Command(BaseCommand):
    help = "Serve the simulated models over the chat completions protocol, until interrupted."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, required=True)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
        parser.add_argument("--batch-delay", type=float, default=0.0, help="seconds until a provider batch is done")
        parser.add_argument("--fault", action="append", default=[], metavar="KIND@SHARE", help="for example 429@0.1")

    def handle(self, *args: Any, **options: Any) -> None:
        scripts = [registry.module(name, "simulate").SCRIPT for name in registry.names()]
        try:
            app = make_app(
                scripts,
                seed=options["seed"],
                faults=tuple(options["fault"]),
                latency=options["latency"],
                batch_delay=options["batch_delay"],
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        serve(app, options["host"], options["port"], lambda url: self.stdout.write(f"Simulated models at {url}"))
