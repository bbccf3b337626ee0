"""A model looks at a finished sample before physicians do: does it give itself away, does what was invented exist after all?"""

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
from generation.recipes.recipe import Check, Draft, Finding, Models
from review.rules.blocks import Block, Table

EXAMINE = read_prompt(Path(__file__).parent / "prompts" / "examine.md")
ROLE = "examiner"
GIVES_AWAY, EXISTS = "gives-away", "exists"
SHOWN = 1_000  # characters of what the examiner said


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
    """Ask the examiner, who sees what a model under test sees, and the list of traps."""
    content = draft.data["content"]
    if content["task"] == "dialogue":
        *context, last = content["turns"]
        question = last["content"]
    else:
        context, question = content["report"], content["question"]
    traps = [{key: trap[key] for key in ("code", "name", "where", "false")} for trap in content["traps"]]
    messages = EXAMINE.messages(context=as_data(context), question=as_data(question), traps=as_data(traps))
    found = await models.ask_structured(ROLE, Request(messages, prompt=EXAMINE.label), Examined)
    return [replace(draft, data={**draft.data, "examined": found.model_dump()})]


def is_asked(draft: Draft) -> bool:
    """Whether the batch makes one of the checks that need it."""
    return bool({GIVES_AWAY, EXISTS} & set(draft.checks))


def asks(draft: Draft) -> Sequence[tuple[str, str]]:  # noqa: ARG001
    """What is asked for each draft."""
    return ((ROLE, EXAMINE.label),)


def gives_away(draft: Draft) -> Finding | None:
    """What the examiner stumbled over."""
    said = draft.data.get("examined")
    if not said or not said["gives_away"]:
        return None
    return Finding(GIVES_AWAY, f"“{said['words'][:SHOWN]}” {said['why'][:SHOWN]}".strip())


def exists(draft: Draft) -> Finding | None:
    """What was to be invented and exists, as the examiner says."""
    said = draft.data.get("examined")
    if not said or not said["existing"]:
        return None
    told = (f"{one['code'][:20]} {one['name'][:200]}: {one['what'][:SHOWN]}" for one in said["existing"])
    return Finding(EXISTS, "; ".join(told))


def shown(examined: Mapping[str, Any]) -> Block:
    """What the examiner said, for the page of the sample."""
    rows = [
        (
            gettext("Gives itself away"),
            f"“{examined['words']}” {examined['why']}" if examined["gives_away"] else gettext("no"),
        )
    ]
    existing = "; ".join(f"{one['code']} {one['name']}: {one['what']}" for one in examined["existing"])
    rows.append((gettext("Inventions that exist"), existing or gettext("none found")))
    return Table(gettext("Examiner"), (gettext("Question"), gettext("Answer")), tuple(rows))


CHECKS = (
    Check(GIVES_AWAY, _("The examiner noticed that something is wrong"), gives_away),
    Check(EXISTS, _("Something invented exists, says the examiner"), exists),
)
