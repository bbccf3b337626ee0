"""playground [WHAT] [--on ID | --text TEXT] [--answer TEXT] [--prompts SET] [--endpoint NAME] [--send]"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from evaluation import tasks
from evaluation.playground import services
from evaluation.playground.services import PlaygroundSettings
from generation.endpoints import queries as endpoints_queries
from generation.management.command_line import add_settings, given_settings
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Show a prompt as it would be sent to an endpoint and, with --send, send it once. Without WHAT: what there is."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", nargs="?", help="own, step:BENCHMARK:NAME, model:RELEASE:DATA SET or judge:RELEASE")
        add_settings(parser, PlaygroundSettings, omit=("what", "turns"))
        parser.add_argument("--endpoint", metavar="NAME")
        parser.add_argument("--send", action="store_true", help="send it once: priced, in the ledger, in no result")

    def step(self, **options: Any) -> dict[str, Any]:
        if options["what"] is None:
            choices: list[str] = []
            for _group, offered in services.choices():
                choices += [what for what, _label in offered]
            return {"choices": choices}
        if options["endpoint"] is None:
            raise CommandError("Give --endpoint.")
        asked = PlaygroundSettings(**given_settings(options, PlaygroundSettings))
        endpoint = endpoints_queries.endpoint(options["endpoint"])
        prepared = services.prepare(asked, endpoint.model)
        shown: dict[str, Any] = {"what": prepared.label, "on": prepared.on, "role": prepared.role}
        if not options["send"]:
            return {**shown, "body": services.shown_body(prepared.body(endpoint)), "failed": 0}
        outcome = tasks.try_out(asked, prepared, endpoint)
        return {**shown, **asdict(outcome), "failed": int(bool(outcome.error))}
