"""The examiner: a model that checks a finished sample before physicians see it.

It looks for text that gives the trap away and for inventions that exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict

from generation.llm.fencing import as_data
from generation.llm.types import Request
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import Check, CheckFinding, Draft, Models
from review.rules.blocks import Block, Table

EXAMINE = read_prompt(Path(__file__).parent / "prompts" / "examine.md")
ROLE = "examiner"
GIVES_AWAY, EXISTS = "gives-away", "exists"
MAX_QUOTE = 1_000  # characters of the examiner's reply in a finding


class Existing(BaseModel):
    """Something that the sample treats as invented, and that exists: the trap's code, its name, what it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    name: str
    what: str


class Examined(BaseModel):
    """Whether the text gives away that something is wrong, by which words and why; and which inventions exist."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gives_away: bool
    words: str
    why: str
    existing: list[Existing]


async def examine(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the examiner, which sees what a model under test sees and the list of traps."""
    content = draft.data["content"]
    if content["task"] == "dialogue":
        *context, last = content["turns"]
        question = last["content"]
    else:
        context, question = content["report"], content["question"]
    traps = [{key: trap[key] for key in ("code", "name", "where", "false")} for trap in content["traps"]]
    messages = EXAMINE.messages(context=as_data(context), question=as_data(question), traps=as_data(traps))
    reply = await models.ask_structured(ROLE, Request(messages, prompt=EXAMINE.label), Examined)
    return [replace(draft, data={**draft.data, "examined": reply.model_dump()})]


def is_needed(draft: Draft) -> bool:
    """Whether the batch runs one of the checks that need the examiner."""
    return bool({GIVES_AWAY, EXISTS} & set(draft.checks))


def role_prompts(draft: Draft) -> Sequence[tuple[str, str]]:  # noqa: ARG001
    """The (role, prompt label) of each request for a draft."""
    return ((ROLE, EXAMINE.label),)


def find_giveaway(draft: Draft) -> CheckFinding | None:
    """The finding that the text gives the trap away."""
    reply = draft.data.get("examined")
    if not reply or not reply["gives_away"]:
        return None
    return CheckFinding(GIVES_AWAY, f"“{reply['words'][:MAX_QUOTE]}” {reply['why'][:MAX_QUOTE]}".strip())


def find_existing(draft: Draft) -> CheckFinding | None:
    """The finding that something meant to be invented exists."""
    reply = draft.data.get("examined")
    if not reply or not reply["existing"]:
        return None
    inventions = (f"{trap['code'][:20]} {trap['name'][:200]}: {trap['what'][:MAX_QUOTE]}" for trap in reply["existing"])
    return CheckFinding(EXISTS, "; ".join(inventions))


def examiner_table(examined: Mapping[str, Any]) -> Block:
    """The examiner's reply as a table for the sample's page."""
    rows = [
        (
            gettext("Gives itself away"),
            f"“{examined['words']}” {examined['why']}" if examined["gives_away"] else gettext("no"),
        )
    ]
    existing = "; ".join(f"{trap['code']} {trap['name']}: {trap['what']}" for trap in examined["existing"])
    rows.append((gettext("Inventions that exist"), existing or gettext("none found")))
    return Table(gettext("Examiner"), (gettext("Question"), gettext("Answer")), tuple(rows))


CHECKS = (
    Check(GIVES_AWAY, _("The examiner noticed that something is wrong"), find_giveaway),
    Check(EXISTS, _("The examiner says that something invented exists"), find_existing),
)
