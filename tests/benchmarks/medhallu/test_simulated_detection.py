"""The configured rates of simulated detectors are recovered through the real prompts and the real
parser."""

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from generation.llm.types import Message
from mhb_site.benchmarks.medhallu import protocol
from mhb_site.benchmarks.medhallu.parsing import Reading
from mhb_site.benchmarks.medhallu.simulate_detection import (
    DETECTORS,
    SCRIPT,
    TRUE,
    Detector,
    perceived_kind,
)
from mhb_site.benchmarks.medhallu.simulate_generation import LEVEL_WORDS
from tests.benchmarks.medhallu.pairs import RUBRIC, sample

pytestmark = pytest.mark.plain
SAMPLES = 3000
DIFFICULTIES = tuple(LEVEL_WORDS)
VARIANTS = tuple(protocol.DETECT)
UNMARKED = "unmarked"  # hallucinated, but not planted: a detector takes it for true


@pytest.fixture(scope="module")
def measured():
    """Verdict counts by (model, variant), what was shown (TRUE or the difficulty) by sample, counts
    by difficulty."""
    verdicts: dict[tuple[str, str], Counter[str]] = {
        (model, variant): Counter() for model in DETECTORS for variant in VARIANTS
    }
    by_difficulty: Counter[tuple[str, str, str, str]] = Counter()
    shown = []
    for number in range(SAMPLES):
        difficulty = DIFFICULTIES[number % 3]
        evaluated = sample(number, difficulty)
        shown.append(difficulty if protocol.shown_answer(evaluated.key, 0) == "hallucinated" else TRUE)
        for ask in protocol.ask(evaluated, 0):
            for model in DETECTORS:
                text = SCRIPT.reply(model, ask.messages, 5)
                assert text is not None
                decision = protocol.read(evaluated, RUBRIC, ask.variant, ask.about, text)
                verdicts[model, ask.variant][decision.verdict] += 1
                by_difficulty[model, ask.variant, difficulty, decision.verdict] += 1
    return verdicts, shown, by_difficulty


def rate(name: str, verdicts: Mapping[str, float]) -> float:
    definition = next(rate for rate in protocol.RATES if rate.name == name)
    return sum(definition.hits.get(v, 0) * n for v, n in verdicts.items()) / sum(
        definition.counted.get(v, 0) * n for v, n in verdicts.items()
    )


def expected_verdicts(model: str, variant: str, shown: Iterable[str]) -> dict[str, float]:
    """The average number of each verdict in a run.

    `shown` has an entry per sample: TRUE, the difficulty, or UNMARKED.
    """
    detector = DETECTORS[model]
    counts: dict[str, float] = dict.fromkeys(protocol.VERDICTS.values(), 0.0)
    for kind, count in Counter(shown).items():
        truth = "truth" if kind == TRUE else "hallucinated"
        for reading, share in _reading_shares(detector, variant, TRUE if kind == UNMARKED else kind).items():
            counts[protocol.VERDICTS[truth, reading]] += count * share
    return counts


def _reading_shares(detector: Detector, variant: str, kind: str) -> dict[Reading, float]:
    """The chance of each reading of a detector's reply to an answer that it takes for this kind."""
    skill = detector.knowledge if variant in protocol.HAS_KNOWLEDGE else detector.plain
    right_share, may_doubt = skill.right(kind), variant in protocol.MAY_BE_UNSURE
    doubts = {"right": skill.doubt_right * may_doubt, "wrong": skill.doubt_wrong * may_doubt}
    decides_right, decides_wrong = right_share * (1 - doubts["right"]), (1 - right_share) * (1 - doubts["wrong"])
    factual, hallucinated = (decides_right, decides_wrong) if kind == TRUE else (decides_wrong, decides_right)
    readable = {
        Reading.FACTUAL: factual,
        Reading.HALLUCINATED: hallucinated,
        Reading.UNSURE: right_share * doubts["right"] + (1 - right_share) * doubts["wrong"],
    }
    return {
        Reading.UNPARSED: detector.malformed,
        **{reading: share * (1 - detector.malformed) for reading, share in readable.items()},
    }


def true_f1(model: str, variant: str, shown: Iterable[str]) -> float:
    """The F1 built into a detector over answers of these kinds: 2 TP / (2 TP + FP + FN)."""
    return rate("f1", expected_verdicts(model, variant, shown))


def true_response_rate(model: str, variant: str, shown: Iterable[str]) -> float:
    """The share of decisions among all replies that is built into a detector."""
    return rate("response_rate", expected_verdicts(model, variant, shown))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", DETECTORS)
def test_every_verdict_is_as_frequent_as_expected(measured, model, variant):
    verdicts, shown, _ = measured
    expected = expected_verdicts(model, variant, shown)
    assert sum(expected.values()) == pytest.approx(SAMPLES)
    for verdict, count in expected.items():
        assert verdicts[model, variant][verdict] == pytest.approx(count, abs=3.5 * max(count, 1) ** 0.5), verdict


@pytest.mark.parametrize("model", DETECTORS)
def test_the_tolerance_distinguishes_models_and_variants(measured, model):
    verdicts, shown, _ = measured
    measured_f1 = rate("f1", verdicts[model, "knowledge"])
    for other in set(DETECTORS) - {model}:
        assert abs(measured_f1 - true_f1(other, "knowledge", shown)) > 0.04
    assert abs(measured_f1 - true_f1(model, "plain", shown)) > 0.04


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", DETECTORS)
def test_hard_hallucinations_are_caught_least(measured, model, variant):
    _, _, cells = measured
    caught = [
        cells[model, variant, difficulty, "tp"]
        / (cells[model, variant, difficulty, "tp"] + cells[model, variant, difficulty, "fn"])
        for difficulty in DIFFICULTIES
    ]
    assert caught == sorted(caught, reverse=True)
    ability = DETECTORS[model].knowledge if "knowledge" in variant else DETECTORS[model].plain
    if variant not in protocol.MAY_BE_UNSURE:
        assert caught == pytest.approx([ability.caught[difficulty] for difficulty in DIFFICULTIES], abs=0.09)


def test_the_configured_rates_reproduce_the_findings_of_the_paper():
    shown = [TRUE, *DIFFICULTIES] * 10
    for model in DETECTORS:
        assert true_f1(model, "knowledge", shown) > true_f1(model, "plain", shown) + 0.05
    for model in ("sim-careful", "sim-average"):
        assert true_f1(model, "plain-unsure", shown) > true_f1(model, "plain", shown) + 0.03
        assert true_response_rate(model, "plain-unsure", shown) < true_response_rate(model, "knowledge-unsure", shown)
    readable = 1 - DETECTORS["sim-reckless"].malformed
    assert true_response_rate("sim-reckless", "plain-unsure", shown) > 0.97 * readable


# -------------------------------------------------------------------------------- perceived answers


def test_an_unmarked_hallucination_is_taken_for_true():
    """A published hallucination has no mark, so a hit on it is a false alarm, in the true rates as
    in the measured ones."""
    assert perceived_kind("Does aspirin cure?", "Aspirin cures everything.") == TRUE
    counts: Counter[str] = Counter()
    shown = []
    for number in range(SAMPLES):
        evaluated = sample(number, hallucinated=f"Walking raised insulin. ({number})")
        shown.append(UNMARKED if protocol.shown_answer(evaluated.key, 0) == "hallucinated" else TRUE)
        (ask,) = [ask for ask in protocol.ask(evaluated, 0) if ask.variant == "plain-unsure"]
        text = SCRIPT.reply("sim-average", ask.messages, 5)
        assert text is not None
        counts[protocol.read(evaluated, RUBRIC, ask.variant, ask.about, text).verdict] += 1
    assert rate("f1", counts) == pytest.approx(true_f1("sim-average", "plain-unsure", shown), abs=0.04)
    assert rate("response_rate", counts) == pytest.approx(
        true_response_rate("sim-average", "plain-unsure", shown), abs=0.03
    )


def test_replies_are_reproducible_by_seed():
    asks = [protocol.ask(sample(number, "hard"), 0)[0] for number in range(60)]
    replies = [[SCRIPT.reply("sim-average", ask.messages, seed) for ask in asks] for seed in (0, 0, 1)]
    assert replies[0] == replies[1] != replies[2]


def test_requests_for_other_models_or_prompts_get_no_reply():
    (ask, *_) = protocol.ask(sample(1), 0)
    assert SCRIPT.reply("sim-generator", ask.messages, 0) is None
    assert SCRIPT.reply("sim-judge", ask.messages, 0) is None
    for model in DETECTORS:
        assert SCRIPT.reply(model, [Message("user", "What helps against a cold?")], 0) is None
