"""MedHal's simulated detectors: models under test whose true precision and recall are known.

A detector knows only the words of a statement. Statements altered by the simulated generator carry
a mark (`WRONG_MARK`). A published statement has none, so the decision is random. All randomness
comes from `chance`, derived from the seed and the request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance, digest_of, pick
from generation.llm.types import Message
from mhb_site.benchmarks.medhal import protocol

WRONG_MARK = "contrary to the record"  # the mark of an altered statement, for detectors only


@dataclass(frozen=True, slots=True)
class Detector:
    """The chances of recognising each class, of explaining, and of an unclear reply."""

    sees_factual: float
    sees_wrong: float
    explains: float
    malformed: float


DETECTORS: Mapping[str, Detector] = {
    "sim-careful": Detector(0.92, 0.88, 0.95, 0.01),
    "sim-average": Detector(0.80, 0.65, 0.80, 0.03),
    "sim-reckless": Detector(0.90, 0.35, 0.50, 0.08),
}


_VARIANT_OF_HEADING = {protocol.ASK.heading: protocol.PLAIN, protocol.ASK_PROMETHEUS.heading: protocol.PROMETHEUS}
_UNCLEAR_REPLIES = ("It depends on the context.", "YES or NO", "Factual: YES/NO", "I cannot assess this statement.")


class MedHalDetectors:
    """The script of the models under test, one of which is asked in a form of its own."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        first = messages[0].text.partition("\n")[0]
        variant = _VARIANT_OF_HEADING.get(first)
        if first.startswith("<|context|>") and "<end||response>" in messages[0].text:
            variant = protocol.HALLOUMI
        if variant is None or model not in DETECTORS:
            return None
        statement = _statement(messages)
        detector, statement_hash = DETECTORS[model], digest_of(statement)
        if chance(seed, "malformed", model, variant, statement_hash) < detector.malformed:
            return pick(_UNCLEAR_REPLIES, seed, "how", model, variant, statement_hash)
        is_wrong = WRONG_MARK in statement
        if is_wrong:
            sees = detector.sees_wrong
        else:
            sees = detector.sees_factual
        is_right = chance(seed, "sees", model, statement_hash) < sees
        why = ""
        if chance(seed, "explains", model, statement_hash) < detector.explains:  # what the statement shows of the truth
            plain = " ".join(statement.replace(WRONG_MARK, "").split())
            why = plain
            if is_wrong:
                why = f"According to the record, {plain}"
        return _reply_text(variant, factual=is_right != is_wrong, why=why)


def _statement(messages: Sequence[Message]) -> str:
    text = messages[-1].text
    if text.startswith("<|context|>"):
        return text.rpartition("<|r1|><")[2].removesuffix("><end||r><end||response>")
    return str(read_data(text)["STATEMENT"])


def _reply_text(variant: str, *, factual: bool, why: str) -> str:
    if variant == protocol.PROMETHEUS:
        score = 2
        if factual:
            score = 5
        return f"Feedback: {why} [RESULT] {score}"
    if variant == protocol.HALLOUMI:
        mark = "<|unsupported|>"
        if factual:
            mark = "<|supported|>"
        return f"<|r1|><The statement.><|explain|><{why}><end||explain>{mark}<end||r>"
    if factual:
        return "Factual: YES\nExplanation: The statement is factual."
    return f"Factual: NO\nExplanation: {why}".rstrip()


SCRIPT = MedHalDetectors()
