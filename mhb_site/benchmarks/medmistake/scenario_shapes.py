"""The shapes of the replies of the models that make a scenario of a mistake."""

import re

from generation.common.medical_text import is_same_text
from generation.llm.errors import BrokenReply
from generation.recipes.recipe import ReplyShape

MIN_WORDS, MAX_LENGTH = 8, 4_000  # of a scenario: words (two Chinese characters count as one), characters
_HAN = re.compile(r"[\u3400-\u9fff]")


class Scenario(ReplyShape):
    """A single-shot case, and what a right answer must do."""

    scenario: str
    must: str


class Giveaway(ReplyShape):
    """Words of a case that give the answer away, and details that the patient never said."""

    gives_away: tuple[str, ...]
    unsupported: tuple[str, ...]


class Repeated(ReplyShape):
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
    if any(is_same_text(text, earlier) for earlier in known):
        raise BrokenReply("The scenario is the same as an earlier one: write another.")
