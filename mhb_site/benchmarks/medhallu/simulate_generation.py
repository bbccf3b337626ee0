"""MedHallu's simulated generator, voters, critic and entailment judge.

All randomness comes from `chance`, derived from the seed and the request. The chances are published
here, so that tests can compute the average shares of difficulty, tries and fallbacks.

A hallucinated answer ends in a claim about a word of its question, and the words of its level
(`LEVEL_WORDS`). That claim is false: voters and detectors (`simulate_detection`) know of which
words of a question claims are false (`is_false_of`), and nobody else can tell: a true answer in the
generator's own words ends in the same claims about other words. The level determines which voters
are fooled; every candidate of a question has a different claim.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from typing import Any

from generation.common.declared import read_declared
from generation.llm.fencing import read_data
from generation.llm.simulator.script import Asked, PromptTable, chance
from generation.llm.types import Message
from mhb_site.benchmarks.medhallu.candidates import SETS, count_words
from mhb_site.benchmarks.medhallu.presets import MAX_TRIES

GENERATOR = "sim-generator"
CRITIC = "sim-critic"
NLI = "sim-nli"
VOTERS = ("sim-voter-a", "sim-voter-b", "sim-voter-c")

# The chance of each level, and the voters that it fools: a harder level fools all voters of an
# easier one.
LEVEL_SHARES: Mapping[str, float] = {"hard": 0.30, "medium": 0.25, "easy": 0.25, "failed": 0.20}
FOOLED_VOTERS: Mapping[str, tuple[str, ...]] = {"hard": VOTERS, "medium": VOTERS[:2], "easy": VOTERS[:1], "failed": ()}
PARAPHRASE = 0.08  # the share of candidates that paraphrase the true answer
NLI_ERROR = 0.05  # the chance per direction that the entailment judge says the opposite
STUBBORN = 0.06  # the share of questions on which no candidate fools anyone
SHORT = 0.15  # the share of new answers that are too short until the generator is asked again
MALFORMED = 0.02  # the share of votes that name no answer until the voter is asked again

# The words of each level. A failed candidate has those of an easy one, and counts as easy as a
# fallback.
LEVEL_WORDS: Mapping[str, str] = {
    "easy": "beyond any doubt",
    "medium": "in most of the patients examined",
    "hard": "after adjustment for baseline differences",
}


@dataclass(frozen=True, slots=True)
class PromptedClaim:
    """A claim with a place for a word, `{}`; claims of the same meaning share a `key`."""

    key: str
    category: str
    words: str

    def about(self, question: str, *, is_false: bool) -> str:
        """The claim about a word of the question of which it is false, or is not."""
        fitting = [word for word in _words_of(question) if is_false_of(question, word) == is_false]
        if fitting:
            word = fitting[int(chance(0, "word", question, self.key) * len(fitting))]
        else:
            others = chain(("patients", "groups", "doses", "visits"), map(str, count(2)))
            word = next(word for word in others if is_false_of(question, word) == is_false)
        return self.words.format(word)


def is_false_of(question: str, word: str) -> bool:
    """Whether what is claimed of a word of a question is false there. Of another it may be true."""
    return chance(0, "false", question, word.lower()) < 0.5


def _words_of(question: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"[^\W\d_]{5,}", question.lower())))


CLAIMS = read_declared(PromptedClaim, __file__, "simulated_claims.json")
# The beginnings of paraphrases, one per candidate; single words, so that the length stays within
# limits.
LEAD_INS = (
    *("Overall,", "Altogether,", "Indeed,", "Notably,", "Clearly,"),
    *("Importantly,", "Again,", "Here,", "Thus,", "So,"),
)


# ------------------------------------------------------------------------------------------ replies


def _blocks(messages: Sequence[Message]) -> dict[str, Any]:
    """The data blocks of all turns but the model's own; later blocks override earlier ones."""
    blocks: dict[str, Any] = {}
    for message in messages:
        if message.role != "assistant":
            blocks |= read_data(message.text)
    return blocks


# ---------------------------------------------------------------------------------------- generator


def _generate(asked: Asked) -> dict[str, str]:
    messages, blocks, seed = asked.messages, _blocks(asked.messages), asked.seed
    question, truth, attempt = blocks["QUESTION"], blocks["TRUTH"], blocks["ATTEMPT"]
    # Tries take every second place; rewrites take those between.
    place = 2 * (attempt - 1)
    if attempt > MAX_TRIES:  # for many candidates, claims repeat in other words
        claim_index = int(chance(seed, "again", question, str(attempt)) * (len(CLAIMS) // 2))
        place = 2 * claim_index + len(CLAIMS) * (1 + attempt % 6)
    place = _free_place(place, blocks, seed)
    if any(_FROM_IMPROVED in message.text for message in messages):
        place = _place_of(blocks["LAST"]["answer"], question, seed)  # keep the critic's improved answer
    candidate = _candidate(question, truth, place, seed)
    may_be_short = not _is_repeated_request(messages) and _claim_in(question, candidate["answer"])
    if may_be_short and chance(seed, "short", question, str(place)) < SHORT:
        words = candidate["answer"].split()
        # Keep the end, by which the answer is recognised.
        candidate["answer"] = " ".join(words[len(words) // 3 :])
    return candidate


def _is_repeated_request(messages: Sequence[Message]) -> bool:
    """Whether the model is asked again because its last reply could not be used."""
    return any("Your last reply cannot be used" in message.text for message in messages)


_FROM_IMPROVED = "starting from the improved attempt"


def _free_place(place: int, blocks: Mapping[str, Any], seed: int) -> int:
    """The place, or one that five tries never reach if its claim is the one physicians rejected."""
    if not blocks["REJECTED"]:
        return place
    claim = _claim_in(blocks["QUESTION"], blocks["REJECTED"]["version"]["hallucinated"])
    if _ordered_claims(blocks["QUESTION"], seed)[place % len(CLAIMS)] is claim:
        return len(CLAIMS) - 2
    return place


# Words after which a sentence cannot end.
_LEADS_ON = re.compile(
    r"(an?|the|and|or|but|nor|of|in|on|at|to|for|by|with|from|into|as|than|that|which|who|is|are|was|were|be|not|no)[,;:]?"
)


def _candidate(question: str, truth: str, place: int, seed: int) -> dict[str, str]:
    """The candidate at a place in the question's order of claims, different for each place."""
    if chance(seed, "paraphrase", question, str(place)) < PARAPHRASE:
        lead = LEAD_INS[place % len(LEAD_INS)]
        return {
            "answer": f"{lead} {truth}",
            "justification": "It is the true answer in other words.",
            "category": "MQ",
        }
    claim = _ordered_claims(question, seed)[place % len(CLAIMS)]
    level = _level(question, claim.key, seed)
    claimed = claim.about(question, is_false=True)
    start = place // len(CLAIMS)  # a repeated claim is worded differently
    return {
        "answer": _ended(truth.split()[start:], len(truth.split()), claimed, level),
        "justification": f"It claims what was not found: {claimed}.",
        "category": claim.category,
    }


def _ended(words: Sequence[str], length: int, claimed: str, level: str) -> str:
    """An answer of about `length` words: the first of these, a claim, and the words of its level."""
    tail = f"{claimed} {LEVEL_WORDS.get(level, LEVEL_WORDS['easy'])}."
    head_words = list(words[: max(0, length - count_words(tail))])
    for _spare in range(len(head_words) // 20):  # so few that the length stays within limits
        if _LEADS_ON.fullmatch(head_words[-1].lower()):
            head_words.pop()
    head = " ".join(head_words).rstrip(".,;: ")
    if head:
        return f"{head}, {tail}"
    return tail[0].upper() + tail[1:]


def _ordered_claims(question: str, seed: int) -> list[PromptedClaim]:
    return sorted(CLAIMS, key=lambda claim: chance(seed, "order", question, claim.key))


def _level(question: str, key: str, seed: int) -> str:
    """The level of a claim in this question, whatever words precede it."""
    if chance(seed, "stubborn", question) < STUBBORN:
        return "failed"
    remaining = chance(seed, "level", question, key)
    for level, level_share in LEVEL_SHARES.items():
        remaining -= level_share
        if remaining < 0:
            return level
    return "failed"


@cache
def _pattern(claim: PromptedClaim) -> re.Pattern[str]:
    before, after = map(re.escape, claim.words.split("{}"))
    return re.compile(rf"{before}(\w+){after} ({'|'.join(LEVEL_WORDS.values())})\.$", re.IGNORECASE)


def planted_claim(question: str, text: str) -> tuple[PromptedClaim, str] | None:
    """The false claim at the end of an answer, with its level.

    A justification after it (released prompt) is ignored.
    """
    answer = text.partition("\n")[0]
    for claim in CLAIMS:
        match = _pattern(claim).search(answer)
        if match and is_false_of(question, match[1]):
            return claim, next(level for level, words in LEVEL_WORDS.items() if words == match[2].lower())
    return None


def _claim_in(question: str, text: str) -> PromptedClaim | None:
    planted = planted_claim(question, text)
    if planted is None:
        return None
    return planted[0]


def _is_paraphrase(text: str, other: str) -> bool:
    """Whether `text` is `other` after a lead-in."""
    lead, _space, rest = text.partition("\n")[0].partition(" ")
    return lead in LEAD_INS and rest == other


def _place_of(answer: str, question: str, seed: int) -> int:
    claim = _claim_in(question, answer)
    if claim is None:
        lead = answer.partition(" ")[0]
        if lead in LEAD_INS:
            return LEAD_INS.index(lead)
        return 0
    return _ordered_claims(question, seed).index(claim)


# ------------------------------------------------------------------------------------------- voters


def _vote(asked: Asked) -> str:
    model, messages, seed = asked.model, asked.messages, asked.seed
    blocks = _blocks(messages)
    question, answers = blocks["QUESTION"], (blocks["FIRST"], blocks["SECOND"])
    if not _is_repeated_request(messages) and chance(seed, "malformed", model, question, *answers) < MALFORMED:
        return "Both seem accurate to me."
    claims = [_claim_in(question, answer) for answer in answers]
    claim = claims[0] or claims[1]
    if claim:
        planted = claims.index(claim)
        fooled = model in FOOLED_VOTERS[_level(question, claim.key, seed)]
    elif _is_paraphrase(answers[0], answers[1]) or _is_paraphrase(answers[1], answers[0]):
        planted = 1
        if _is_paraphrase(answers[0], answers[1]):
            planted = 0
        fooled = model in FOOLED_VOTERS[_level(question, answers[planted].partition(" ")[0], seed)]
    else:  # not written by the simulated generator: guess
        planted, fooled = 0, chance(seed, "guess", model, question, *answers) < 0.5
    if fooled:
        return str(planted + 1)
    return str(2 - planted)


# ---------------------------------------------------------------------------- critic and entailment


def _rewrite(asked: Asked) -> dict[str, str]:
    blocks, seed = _blocks(asked.messages), asked.seed
    place = _free_place(_place_of(blocks["CANDIDATE"]["answer"], blocks["QUESTION"], seed) + 1, blocks, seed)
    return _candidate(blocks["QUESTION"], blocks["TRUTH"], place, seed)


def _critique(asked: Asked) -> dict[str, str]:
    blocks = _blocks(asked.messages)
    claim = _claim_in(blocks["QUESTION"], blocks["CANDIDATE"]["answer"])
    wording, advice = "Nothing in it stands out.", "Claim something else that is nearer to the finding."
    if claim:
        wording = f"“{claim.about(blocks['QUESTION'], is_false=True)}” does not sound like the rest."
    if blocks["RESULT"]["says_the_same"]:
        advice = "Make one finding wrong."
    return {
        "wording": wording,
        "structure": "The claim comes last and stands apart from the finding that it contradicts.",
        "advice": advice,
    }


def _without_lead_in(text: str) -> str:
    lead, _space, rest = text.partition(" ")
    if lead in LEAD_INS:
        return rest
    return text


def _entail(asked: Asked) -> dict[str, int]:
    """The entailment score: high for equal texts, paraphrases and equal claims, else low.

    With the chance `NLI_ERROR` it is the other way round.
    """
    blocks, seed = _blocks(asked.messages), asked.seed
    question, premise, hypothesis = blocks["QUESTION"], blocks["PREMISE"], blocks["HYPOTHESIS"]
    claim = _claim_in(question, premise)
    is_same_claim = claim is not None and claim == _claim_in(question, hypothesis)
    follows = is_same_claim or _without_lead_in(premise) == _without_lead_in(hypothesis)
    if chance(seed, "entailment", question, premise, hypothesis) < NLI_ERROR:
        follows = not follows
    share = chance(seed, "score", question, premise, hypothesis)
    if follows:
        return {"percent": round(80 + 19 * share)}
    return {"percent": round(50 * share)}


def _reword(asked: Asked) -> dict[str, str]:
    """The true answer, ended like all answers of the simulated generator, by a claim that is true."""
    blocks, seed = _blocks(asked.messages), asked.seed
    question, words = blocks["QUESTION"], blocks["TRUTH"].split()
    levels = list(LEVEL_WORDS)
    level = levels[int(chance(seed, "reword", question) * len(levels))]
    claim = CLAIMS[int(chance(seed, "true claim", question) * len(CLAIMS))]
    return {"answer": _ended(words, len(words), claim.about(question, is_false=False), level)}


_ANSWERS = {
    "reword": _reword,
    "generate": _generate,
    "vote": _vote,
    "critique": _critique,
    "rewrite": _rewrite,
    "entail": _entail,
}
_ANSWERERS = {"vote": VOTERS, "entail": (GENERATOR, CRITIC, NLI, *VOTERS)}


def _prompt_table() -> PromptTable:
    table = {}
    for prompts in SETS.values():
        for name, answer in _ANSWERS.items():
            table[prompts[name].heading] = (_ANSWERERS.get(name, (GENERATOR, CRITIC, NLI)), answer)
    return PromptTable(table)


SCRIPT = _prompt_table()
