"""What the steps from a mistake to a scenario are set by, and the replies that they ask for."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from generation.llm.errors import BrokenReply

MIN_WORDS, MAX_LENGTH = 8, 4_000  # of a scenario: words (of Chinese, twice as many signs), characters
_HAN = re.compile(r"[\u3400-\u9fff]")

# Settings of these steps, for the presets of the recipe. harder: how many harder variants a reflection may write where neither
# target repeats the mistake (0: none, the paper's step 7 is optional). rewrites: how many more where a variant gives the answer
# away. check: by code alone, or by a model too. unreplicated: what becomes of a mistake that neither target repeats.
# review_share: the share of scenarios that physicians review. reviewers: how many of them a scenario has.
SETTINGS: Mapping[str, Any] = {
    "harder": 2,
    "rewrites": 2,
    "check": "model",
    "unreplicated": "drop",
    "review_share": 1.0,
    "reviewers": "two",
}
# "299/3390 mistakes" were validated.
PAPER_SETTINGS: Mapping[str, Any] = {**SETTINGS, "harder": 1, "review_share": 299 / 3390}
CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "check": ("model", "code"),
    "unreplicated": ("drop", "keep"),
    "reviewers": ("one", "two"),
}


# The docstrings of the shapes go to the models, as descriptions in the JSON schema of their reply.
class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Scenario(_Strict):
    """A single-shot case, and what a right answer must do."""

    scenario: str
    must: str


class Giveaway(_Strict):
    """Words of a case that give the answer away, and details that the patient never said."""

    gives_away: tuple[str, ...]
    unsupported: tuple[str, ...]


class Repeated(_Strict):
    """Whether the answer repeats the mistake, and why."""

    explanation: str  # first, so that a model reasons before it decides
    same_mistake_happened: bool


def check_scenario(made: Scenario, *, known: set[str]) -> None:
    """Raises BrokenReply with what is wrong with the form of a scenario."""
    text = made.scenario.strip()
    if len(text.split()) + len(_HAN.findall(text)) / 2 < MIN_WORDS:
        raise BrokenReply("The scenario is too short: it must contain the case and the question.")
    if len(text) > MAX_LENGTH:
        raise BrokenReply(f"The scenario is longer than {MAX_LENGTH} characters.")
    if not made.must.strip():
        raise BrokenReply("'must' is empty: say what a right answer must do.")
    if text in known:
        raise BrokenReply("The scenario is the same as an earlier one: write another.")
