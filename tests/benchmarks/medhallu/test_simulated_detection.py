"""The simulated detectors through the real prompts and the real parser: what comes out is what was put in."""

from collections import Counter

import pytest

from generation.llm.types import Message
from mhb_site.benchmarks.medhallu import protocol
from mhb_site.benchmarks.medhallu.simulate_detection import (
    DETECTORS,
    TRUE,
    UNMARKED,
    expected_verdicts,
    perceived_kind,
    reply,
    true_f1,
    true_response_rate,
)
from mhb_site.benchmarks.medhallu.simulate_generation import LEVEL_WORDS
from tests.benchmarks.medhallu.pairs import RUBRIC, sample

pytestmark = pytest.mark.plain
SAMPLES = 3000
DIFFICULTIES = tuple(LEVEL_WORDS)
VARIANTS = tuple(protocol.DETECT)


@pytest.fixture(scope="module")
def measured():
    """(model, variant) -> verdicts counted, and what was shown: TRUE or the difficulty, sample by sample."""
    verdicts: dict[tuple[str, str], Counter[str]] = {
        (model, variant): Counter() for model in DETECTORS for variant in VARIANTS
    }
    by_difficulty: Counter[tuple[str, str, str, str]] = Counter()
    shown = []
    for number in range(SAMPLES):
        difficulty = DIFFICULTIES[number % 3]
        one = sample(number, difficulty)
        shown.append(difficulty if protocol.shown_answer(one.key, 0) == "hallucinated" else TRUE)
        for ask in protocol.ask(one, 0):
            for model in DETECTORS:
                said = reply(model, ask.messages, 5)
                assert said is not None
                decision = protocol.read(one, RUBRIC, ask.variant, ask.about, said)
                verdicts[model, ask.variant][decision.verdict] += 1
                by_difficulty[model, ask.variant, difficulty, decision.verdict] += 1
    return verdicts, shown, by_difficulty


def rate(name, verdicts):
    found = next(rate for rate in protocol.RATES if rate.name == name)
    return sum(found.hits.get(v, 0) * n for v, n in verdicts.items()) / sum(
        found.counted.get(v, 0) * n for v, n in verdicts.items()
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", DETECTORS)
def test_the_measured_f1_and_response_rate_are_the_built_in_ones(measured, model, variant):
    verdicts, shown, _ = measured
    # About 1,500 answers of each kind: the standard error of F1 is below 0.012 everywhere.
    assert rate("f1", verdicts[model, variant]) == pytest.approx(true_f1(model, variant, shown), abs=0.04)
    built_in = true_response_rate(model, variant, shown)
    assert rate("response_rate", verdicts[model, variant]) == pytest.approx(built_in, abs=0.03)
    if variant not in protocol.MAY_BE_UNSURE:
        assert built_in == pytest.approx(1 - DETECTORS[model].malformed)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", DETECTORS)
def test_every_cell_is_as_expected(measured, model, variant):
    verdicts, shown, _ = measured
    wanted = expected_verdicts(model, variant, shown)
    assert sum(wanted.values()) == pytest.approx(SAMPLES)
    for verdict, count in wanted.items():
        assert verdicts[model, variant][verdict] == pytest.approx(count, abs=3.5 * max(count, 1) ** 0.5), verdict


@pytest.mark.parametrize("model", DETECTORS)
def test_the_tolerance_would_notice_another_model_and_a_variant_without_knowledge(measured, model):
    verdicts, shown, _ = measured
    found = rate("f1", verdicts[model, "knowledge"])
    for other in set(DETECTORS) - {model}:
        assert abs(found - true_f1(other, "knowledge", shown)) > 0.04
    assert abs(found - true_f1(model, "plain", shown)) > 0.04


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", DETECTORS)
def test_hard_ones_are_caught_least(measured, model, variant):
    _, _, cells = measured
    caught = [
        cells[model, variant, difficulty, "tp"]
        / (cells[model, variant, difficulty, "tp"] + cells[model, variant, difficulty, "fn"])
        for difficulty in DIFFICULTIES
    ]
    assert caught == sorted(caught, reverse=True)
    eye = DETECTORS[model].knowledge if "knowledge" in variant else DETECTORS[model].plain
    if variant not in protocol.MAY_BE_UNSURE:
        assert caught == pytest.approx([eye.caught[difficulty] for difficulty in DIFFICULTIES], abs=0.09)


def test_what_the_paper_found_is_built_in():
    shown = [TRUE, *DIFFICULTIES] * 10
    for model in DETECTORS:
        assert true_f1(model, "knowledge", shown) > true_f1(model, "plain", shown) + 0.05
    for model in ("sim-careful", "sim-average"):
        assert true_f1(model, "plain-unsure", shown) > true_f1(model, "plain", shown) + 0.03
        assert true_response_rate(model, "plain-unsure", shown) < true_response_rate(model, "knowledge-unsure", shown)
    readable = 1 - DETECTORS["sim-reckless"].malformed
    assert true_response_rate("sim-reckless", "plain-unsure", shown) > 0.97 * readable


# --------------------------------------------------------------------------------------------- what it is to know


def test_a_published_hallucination_is_taken_for_true():
    """Nothing in its text says otherwise; so a hit is a false alarm, in the true rates as in what is measured."""
    assert perceived_kind("Aspirin cures everything.") == TRUE
    found: Counter[str] = Counter()
    shown = []
    for number in range(SAMPLES):
        one = sample(number, hallucinated=f"Walking raised insulin. ({number})")
        shown.append(UNMARKED if protocol.shown_answer(one.key, 0) == "hallucinated" else TRUE)
        (ask,) = [ask for ask in protocol.ask(one, 0) if ask.variant == "plain-unsure"]
        said = reply("sim-average", ask.messages, 5)
        assert said is not None
        found[protocol.read(one, RUBRIC, ask.variant, ask.about, said).verdict] += 1
    assert rate("f1", found) == pytest.approx(true_f1("sim-average", "plain-unsure", shown), abs=0.04)
    assert rate("response_rate", found) == pytest.approx(
        true_response_rate("sim-average", "plain-unsure", shown), abs=0.03
    )


def test_the_same_seed_says_the_same_and_another_seed_something_else():
    asks = [protocol.ask(sample(number, "hard"), 0)[0] for number in range(60)]
    said = [[reply("sim-average", ask.messages, seed) for ask in asks] for seed in (0, 0, 1)]
    assert said[0] == said[1] != said[2]


def test_the_generators_words_alone_tell_and_not_the_place_of_the_answer():
    for difficulty, words in LEVEL_WORDS.items():
        assert perceived_kind(f"It is so, {words}.") == difficulty


def test_other_requests_and_other_models_are_left_to_others():
    (ask, *_) = protocol.ask(sample(1), 0)
    assert reply("sim-generator", ask.messages, 0) is None
    assert reply("sim-judge", ask.messages, 0) is None
    for model in DETECTORS:
        assert reply(model, [Message("user", "What helps against a cold?")], 0) is None
