"""The action on a restored site."""

from typing import Any, Literal

from mhb_site.backup import services
from review.common.commands import Action, Positional


class ControlSite(Action):
    """Let a restored site make calls and send e-mails and webhooks again, or stop both."""

    action: Positional[Literal["pause", "resume"]]

    def perform(self) -> dict[str, Any]:
        if self.action == "pause":
            return {"changed": services.pause_site()}
        return {"changed": services.resume_site()}
