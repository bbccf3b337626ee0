"""MedHallu's simulated models of the making side: a generator, three voters, a critic and a judge of entailment.

All that is left to chance is thrown by `chance`, from the seed and from what is asked, and the chances are published here, so
that `expected` says what shares of difficulty, tries and fallbacks come out on average.

An answer is planted by a sentence that ends in words of its level (`PLANTED`): by them voters know an answer when they see it,
and so do the detectors (`simulate_detection`). A level says which voters it fools; every candidate of one question has another
sentence.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.medhallu.candidates import SETS, count_words
from mhb_site.benchmarks.medhallu.presets import MAX_TRIES, PRESETS
from mhb_site.benchmarks.medhallu.votes import difficulty as difficulty_of

GENERATOR = "sim-generator"
CRITIC = "sim-critic"
NLI = "sim-nli"
VOTERS = ("sim-voter-a", "sim-voter-b", "sim-voter-c")

# The chance that a candidate is of this level, and the voters that it fools: whom an easier one fools it fools, too.
LEVELS: Mapping[str, float] = {"hard": 0.30, "medium": 0.25, "easy": 0.25, "failed": 0.20}
FOOLED: Mapping[str, tuple[str, ...]] = {"hard": VOTERS, "medium": VOTERS[:2], "easy": VOTERS[:1], "failed": ()}
PARAPHRASE = 0.08  # the share of candidates that say what the true answer says
NLI_ERROR = 0.05  # the share of directions of entailment on which the judge says the opposite of what is so
STUBBORN = 0.06  # the share of questions on which no candidate fools anyone
SHORT = 0.15  # the share of new answers that are too short until the length is asked for
MALFORMED = 0.02  # the share of votes that name no answer until the voter is asked again

# The words of each level. A failed candidate is as easy to see as an easy one, and becomes one as a fallback.
PLANTED: Mapping[str, str] = {
    "easy": "beyond any doubt",
    "medium": "in most of the patients examined",
    "hard": "after adjustment for baseline differences",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed instead of the truth, before the words of the level; `key` is the same for claims of one meaning."""

    key: str
    category: str
    words: str


CLAIMS: tuple[Claim, ...] = (
    Claim("reverse", "MQ", "yet the opposite held"),
    Claim("group", "MQ", "though only in younger people"),
    Claim("outcome", "MQ", "while survival alone was affected"),
    Claim("time", "MQ", "but only within the first week"),
    Claim("exception", "II", "and no exception was seen"),
    Claim("condition", "II", "under all conditions alike"),
    Claim("harm", "II", "and without any harm"),
    Claim("mechanism", "MP", "because sodium channels were blocked"),
    Claim("pathogen", "MP", "owing to an unnoticed infection"),
    Claim("hormone", "MP", "as cortisol secretion fell"),
    Claim("trial", "MF", "as a blinded trial confirmed"),
    Claim("registry", "MF", "as a national registry confirmed"),
)
# By what a paraphrase begins, each for another candidate. Of one word, so that the length stays within its limits.
LEAD_INS = (
    "Overall,",
    "Altogether,",
    "Indeed,",
    "Notably,",
    "Clearly,",
    "Importantly,",
    "Again,",
    "Here,",
    "Thus,",
    "So,",
)


# ----------------------------------------------------------------------------------------------------------- true shares


@dataclass(frozen=True, slots=True)
class Expected:
    """Shares of samples on average: `difficulty` by level, `tries` by number, `fallback`; and `qualified` of candidates."""

    difficulty: Mapping[str, float]
    tries: Mapping[int, float]
    fallback: float
    qualified: float


def fooled_share(count: int, reading: str = "strict") -> float:
    """The share of candidates that fool so many voters, on average over questions that are not stubborn.

    By the reading 'contains-2' a vote that names no answer is one for the first, the true one.
    """
    lost = 0.0 if reading == "strict" else MALFORMED
    share = 0.0
    for level, width in LEVELS.items():
        able = len(FOOLED[level])
        share += width * comb(able, count) * (1 - lost) ** count * lost ** (able - count) if able >= count else 0
    return share


def expected(settings: Mapping[str, Any] = PRESETS[0].values) -> Expected:
    """What comes of tries (not of clusters) under these settings, over all questions.

    How many a candidate fools and whether it is found to say the same as the truth are independent of one another and of all
    other candidates; so the first that qualifies is of the difficulties that fool enough, in their proportion.
    """
    fooling = {count: fooled_share(count, settings["reading"]) for count in range(settings["fooled"], len(VOTERS) + 1)}
    refused = 0.0
    if settings["entailment"]:
        # Two independent errors make a wrong answer entailed; a paraphrase is found out unless there is one.
        refused = (1 - PARAPHRASE) * NLI_ERROR**2 + PARAPHRASE * (1 - NLI_ERROR) ** 2
    one = sum(fooling.values()) * (1 - refused)
    a_try = 1 - (1 - one) ** (1 + settings["rewrites"])
    tries = {number: (1 - STUBBORN) * (1 - a_try) ** (number - 1) * a_try for number in range(1, settings["tries"] + 1)}
    fallback = 1 - sum(tries.values())
    levels = Counter({"easy": fallback})
    for count, share in fooling.items():
        levels[difficulty_of(count, len(VOTERS))] += (1 - fallback) * share / sum(fooling.values())
    return Expected(levels, tries, fallback, one * (1 - STUBBORN))


# --------------------------------------------------------------------------------------------------------------- replies


def _heading(text: str) -> str:
    return text.partition("\n")[0]


_TASKS = {
    _heading(prompts[name].turns[0][1]): name
    for prompts in SETS.values()
    for name in ("generate", "vote", "critique", "rewrite", "entail")
}


def reply(model: str, messages: Sequence[Message], seed: int) -> str | None:
    """What a simulated model says to a prompt of the making side, known by its first line; None: not ours."""
    task = _TASKS.get(_heading(messages[0].text))
    if task == "vote":
        return _vote(model, messages, seed) if model in VOTERS else None
    if task is None or model not in (GENERATOR, CRITIC, NLI):
        return None
    blocks = _blocks(messages)
    if task == "entail":
        return _json({"score": _score(blocks["QUESTION"], blocks["PREMISE"], blocks["HYPOTHESIS"], seed)})
    if task == "critique":
        return _json(_critique(blocks))
    if task == "rewrite":
        place = _free(_place(blocks["CANDIDATE"]["answer"], blocks["QUESTION"], seed) + 1, blocks, seed)
        return _json(_candidate(blocks["QUESTION"], blocks["TRUTH"], place, seed))
    return _json(_generated(messages, blocks, seed))


def _blocks(messages: Sequence[Message]) -> dict[str, Any]:
    """The data of all turns but a model's own; what is asked last goes before what was asked first."""
    found: dict[str, Any] = {}
    for message in messages:
        if message.role != "assistant":
            found |= read_data(message.text)
    return found


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------------------------------------------------- generator


def _generated(messages: Sequence[Message], blocks: Mapping[str, Any], seed: int) -> dict[str, str]:
    question, truth, attempt = blocks["QUESTION"], blocks["TRUTH"], blocks["ATTEMPT"]
    # Tries take every second place, the rewrites between them the others.
    place = 2 * (attempt - 1)
    if attempt > MAX_TRIES:  # many candidates: they come back to the same claims, in other words
        again = int(chance(seed, "again", question, str(attempt)) * (len(CLAIMS) // 2))
        place = 2 * again + len(CLAIMS) * (1 + attempt % 6)
    place = _free(place, blocks, seed)
    if any(_FROM_IMPROVED in message.text for message in messages):
        place = _place(blocks["LAST"]["answer"], question, seed)  # the critic's improved attempt, as it is
    told = _told(messages)
    made = _candidate(question, truth, place, seed)
    if not told and _claim_in(made["answer"]) and chance(seed, "short", question, str(place)) < SHORT:
        words = made["answer"].split()
        # Its end stays: by it the answer is known.
        made["answer"] = " ".join(words[len(words) // 3 :])
    return made


def _told(messages: Sequence[Message]) -> bool:
    """Whether it is asked again, as its last reply was of no use."""
    return any("Your last reply cannot be used" in message.text for message in messages)


_FROM_IMPROVED = "starting from the improved attempt"


def _free(place: int, blocks: Mapping[str, Any], seed: int) -> int:
    """The place, or one that five tries leave free where its claim is the one that physicians rejected."""
    if not blocks["REJECTED"]:
        return place
    claim = _claim_in(blocks["REJECTED"]["version"]["hallucinated"])
    return len(CLAIMS) - 2 if _claims(blocks["QUESTION"], seed)[place % len(CLAIMS)] is claim else place


def _candidate(question: str, truth: str, place: int, seed: int) -> dict[str, str]:
    """The candidate at a place of the question's own order of claims; a new one for each place, up to their number."""
    if chance(seed, "paraphrase", question, str(place)) < PARAPHRASE:
        lead = LEAD_INS[place % len(LEAD_INS)]
        return {
            "answer": f"{lead} {truth}",
            "justification": "It is the true answer in other words.",
            "category": "MQ",
        }
    claim = _claims(question, seed)[place % len(CLAIMS)]
    level = _level(question, claim.key, seed)
    tail = f"{claim.words} {PLANTED.get(level, PLANTED['easy'])}."
    start = place // len(CLAIMS)  # the same claim again is worded otherwise
    kept = truth.split()[start : start + max(0, count_words(truth) - count_words(tail))]
    head = " ".join(kept).rstrip(".,;: ")
    return {
        "answer": f"{head}, {tail}" if head else tail[0].upper() + tail[1:],
        "justification": f"It claims what was not found: {claim.words}.",
        "category": claim.category,
    }


def _claims(question: str, seed: int) -> list[Claim]:
    return sorted(CLAIMS, key=lambda claim: chance(seed, "order", question, claim.key))


def _level(question: str, key: str, seed: int) -> str:
    """How hard a claim is to see through in this question, the same whatever words stand before it."""
    if chance(seed, "stubborn", question) < STUBBORN:
        return "failed"
    share = chance(seed, "level", question, key)
    for level, width in LEVELS.items():
        share -= width
        if share < 0:
            return level
    return "failed"


_FOUND = re.compile(
    "(" + "|".join(re.escape(claim.words) for claim in CLAIMS) + ") (?:" + "|".join(PLANTED.values()) + r")\.$",
    re.IGNORECASE,
)


def _claim_in(text: str) -> Claim | None:
    """The claim that a text was planted with. Justifications that stand behind it, as in the released prompt, are no part."""
    found = _FOUND.search(text.partition("\n")[0])
    return next((claim for claim in CLAIMS if found and claim.words == found[1].lower()), None)


def _paraphrased(text: str, other: str) -> bool:
    """Whether the one is the other behind a lead-in."""
    lead, _space, rest = text.partition("\n")[0].partition(" ")
    return lead in LEAD_INS and rest == other


def _place(answer: str, question: str, seed: int) -> int:
    claim = _claim_in(answer)
    if claim is None:
        lead = answer.partition(" ")[0]
        return LEAD_INS.index(lead) if lead in LEAD_INS else 0
    return _claims(question, seed).index(claim)


# ---------------------------------------------------------------------------------------------------------------- voters


def _vote(model: str, messages: Sequence[Message], seed: int) -> str:
    blocks = _blocks(messages)
    question, answers = blocks["QUESTION"], (blocks["FIRST"], blocks["SECOND"])
    if not _told(messages) and chance(seed, "malformed", model, question, *answers) < MALFORMED:
        return "Both seem accurate to me."
    known = [(at, claim) for at, answer in enumerate(answers) if (claim := _claim_in(answer))]
    if known:
        planted, claim = known[0]
        fooled = model in FOOLED[_level(question, claim.key, seed)]
    elif _paraphrased(answers[0], answers[1]) or _paraphrased(answers[1], answers[0]):
        planted = 0 if _paraphrased(answers[0], answers[1]) else 1
        fooled = model in FOOLED[_level(question, answers[planted].partition(" ")[0], seed)]
    else:  # not the simulated generator's: a guess
        planted, fooled = 0, chance(seed, "guess", model, question, *answers) < 0.5
    return str(planted + 1 if fooled else 2 - planted)


# ------------------------------------------------------------------------------------------------- critic and entailment


def _critique(blocks: Mapping[str, Any]) -> dict[str, str]:
    claim = _claim_in(blocks["CANDIDATE"]["answer"])
    same = blocks["RESULT"]["says_the_same"]
    return {
        "wording": f"“{claim.words}” does not sound like the rest." if claim else "Nothing in it stands out.",
        "structure": "The claim comes last and stands apart from the finding that it contradicts.",
        "advice": "Make one finding wrong." if same else "Claim something else that is nearer to the finding.",
    }


def _score(question: str, premise: str, hypothesis: str, seed: int) -> float:
    """High where the two say the same: word for word, as a paraphrase, or by one claim; else low. Sometimes the other way."""
    claims = _claim_in(premise), _claim_in(hypothesis)
    plain = [_unled(text) for text in (premise, hypothesis)]
    follows = plain[0] == plain[1] or (claims[0] is not None and claims[0] == claims[1])
    if chance(seed, "entailment", question, premise, hypothesis) < NLI_ERROR:
        follows = not follows
    share = chance(seed, "score", question, premise, hypothesis)
    return round(0.8 + 0.19 * share if follows else 0.5 * share, 3)


def _unled(text: str) -> str:
    lead, _space, rest = text.partition(" ")
    return rest if lead in LEAD_INS else text
