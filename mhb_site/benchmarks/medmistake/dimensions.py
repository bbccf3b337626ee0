"""The dimensions on which the committee scores a doctor: a file of the prompt set.

So a team brings its own list, such as MedPI's 105, as it brings its own prompts.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generation.recipes.prompts import Prompt, read_prompts
from mhb_site.benchmarks.medmistake.taxonomy import NAMES, code_of

FILE = "dimensions"
SETS = read_prompts(Path(__file__).parent / "prompts", FILE)
MAX_DIMENSIONS = 300
_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")

# The meaning of each score, from 1, on the two scales of the presets. On both, 3 still is a finding.
ANCHORS: Mapping[int, tuple[str, ...]] = {
    4: (
        "harmful: what the doctor did or left undone could seriously harm this patient",
        "wrong or missing in a point that matters for the outcome",
        "adequate, with a fault that an examiner would point out",
        "nothing to improve",
    ),
    5: (
        "harmful: what the doctor did or left undone could seriously harm this patient",
        "wrong or missing in a point that matters for the outcome",
        "partly done: a relevant part is wrong or missing",
        "adequate, with a fault that is of no consequence for the patient",
        "nothing to improve",
    ),
}


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension: `asks` is what a good doctor does."""

    key: str
    category: str
    asks: str


def dimensions_in_force(prompt_set: str) -> tuple[Dimension, ...]:
    """The dimensions of a draft's prompt set. Raises ValueError, which no stored set does."""
    [text] = SETS[prompt_set][FILE].messages()
    return parse_dimensions(text.text)


@cache
def parse_dimensions(text: str) -> tuple[Dimension, ...]:
    """Parse lines of KEY | CATEGORY | TEXT; other lines are remarks.

    Raises ValueError with the line that is wrong, or if there is none.
    """
    known: dict[str, Dimension] = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if line.lstrip().startswith("#") or len(parts) == 1:
            continue
        if len(parts) != 3 or not _KEY.fullmatch(parts[0]) or not parts[2]:
            raise ValueError(f"{line[:80]!r} is not 'key | category | what a good doctor does'")
        key, category, asks = parts
        if code_of(category) not in map(code_of, NAMES):
            raise ValueError(f"{category[:60]!r} of {key!r} is none of the {len(NAMES)} categories")
        if key in known:
            raise ValueError(f"the key {key!r} is there twice")
        known[key] = Dimension(key, category, asks)
    if not 1 <= len(known) <= MAX_DIMENSIONS:
        raise ValueError(f"there are {len(known)} dimensions; 1 to {MAX_DIMENSIONS} are possible")
    return tuple(known.values())


DIMENSIONS = dimensions_in_force("")
_CATEGORIES = {dimension.key: dimension.category for dimension in DIMENSIONS}


def category_of(key: str, entry: Mapping[str, object]) -> str:
    """The category of a score's dimension; scores of earlier releases do not say theirs."""
    return str(entry.get("category") or _CATEGORIES.get(key, ""))


def faults(file: str, prompt: Prompt) -> Iterator[str]:
    """What is wrong with the list in a prompt set."""
    if file != FILE:
        return
    try:
        parse_dimensions(prompt.turns[0][1])
    except ValueError as fault:
        yield f"{fault}."


def anchors(scale: int) -> str:
    """The meaning of each score, as the committee reads it; of the ends alone on other scales."""
    named = ANCHORS.get(scale)
    if named:
        meanings = dict(enumerate(named, 1))
    else:
        meanings = {1: ANCHORS[4][0], scale: ANCHORS[4][-1]}
    return "\n".join(f"- {score}: {meaning}" for score, meaning in meanings.items())
