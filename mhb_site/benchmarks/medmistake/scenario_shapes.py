"""Settings of the steps from mistake to scenario, and the shapes of their models' replies."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from generation.llm.errors import BrokenReply

MIN_WORDS, MAX_LENGTH = 8, 4_000  # of a scenario: words (two Chinese characters count as one), characters
_HAN = re.compile(r"[\u3400-\u9fff]")

# Settings of these steps, for the recipe's presets. harder: the maximum number of harder variants
# if neither target repeats the mistake (0: none, as the paper's step 7 is optional). rewrites: the
# maximum number of variants after one that gives the answer away. check: by code alone, or by a
# model too. unreplicated: what happens to a mistake that neither target repeats. review_share: the
# share of scenarios that physicians review. reviewers: the number of physicians per scenario.
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


# Models see the docstrings of these classes: they are descriptions in their reply's JSON schema.
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
    """Whether the answer declines, whether it repeats the mistake, and why."""

    explanation: str  # first, so that a model reasons before it decides
    refused: bool
    same_mistake_happened: bool


def check_scenario(scenario: Scenario, *, known: set[str]) -> None:
    """Check the form of a scenario. Raises BrokenReply with what is wrong."""
    text = scenario.scenario.strip()
    if len(text.split()) + len(_HAN.findall(text)) / 2 < MIN_WORDS:
        raise BrokenReply("The scenario is too short: it must contain the case and the question.")
    if len(text) > MAX_LENGTH:
        raise BrokenReply(f"The scenario is longer than {MAX_LENGTH} characters.")
    if not scenario.must.strip():
        raise BrokenReply("'must' is empty: say what a right answer must do.")
    if text in known:
        raise BrokenReply("The scenario is the same as an earlier one: write another.")
