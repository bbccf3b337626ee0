"""The action that tries a prompt."""

from dataclasses import asdict
from typing import Annotated, Any

from django.core.management.base import CommandError
from pydantic import Field

from evaluation import tasks
from evaluation.playground import services
from evaluation.playground.services import PlaygroundSettings
from generation.endpoints import queries as endpoints_queries
from generation.management.command_line import SettingsOptions, given_settings
from review.common.commands import Action, Positional, Shell


class TryPrompt(Action):
    """Show a prompt as it would be sent to an endpoint and, with --send, send it once. Without
    WHAT: what there is.
    """

    what: Positional[str | None] = Field(
        None, description="own, step:BENCHMARK:NAME, model:RELEASE:DATA SET or judge:RELEASE"
    )
    options: Annotated[dict[str, Any], SettingsOptions(settings=PlaygroundSettings, omit=("what", "turns"))]
    endpoint: Annotated[str | None, Shell(metavar="NAME")] = None
    send: bool = Field(False, description="send it once: priced, in the ledger, in no result")

    def perform(self) -> dict[str, Any]:
        if self.what is None:
            choices: list[str] = []
            for _group, offered in services.choices():
                choices += [what for what, _label in offered]
            return {"choices": choices}
        if self.endpoint is None:
            raise CommandError("Give --endpoint.")
        asked = PlaygroundSettings(**given_settings(self.options, PlaygroundSettings))
        endpoint = endpoints_queries.endpoint(self.endpoint)
        prepared = services.prepare(asked, endpoint.model)
        shown: dict[str, Any] = {"what": prepared.label, "on": prepared.on, "role": prepared.role}
        if not self.send:
            return {**shown, "body": services.shown_body(prepared.body(endpoint)), "failed": 0}
        outcome = tasks.try_out(asked, prepared, endpoint)
        return {**shown, **asdict(outcome), "failed": int(bool(outcome.error))}
