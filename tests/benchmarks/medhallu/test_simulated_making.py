"""The configured rates of MedHallu's simulated models are recovered through the real prompts."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import comb, sqrt
from pathlib import Path
from typing import Any

import pytest

from generation.llm.types import Message
from mhb_site.benchmarks.medhallu import simulate_detection, simulate_generation
from mhb_site.benchmarks.medhallu.presets import PRESETS
from mhb_site.benchmarks.medhallu.simulate_generation import (
    CLAIMS,
    FOOLED_VOTERS,
    LEVEL_SHARES,
    MALFORMED,
    NLI_ERROR,
    PARAPHRASE,
    SHORT,
    STUBBORN,
    VOTERS,
)
from mhb_site.benchmarks.medhallu.votes import difficulty as difficulty_of
from tests.benchmarks.medhallu.helpers import (
    SimulatedModels,
    all_candidates,
    make_sample,
    qa_draft,
    run_recipe,
    settings,
)
from tests.profile import public

pytestmark = pytest.mark.plain
DRAFTS = 600


@dataclass(frozen=True, slots=True)
class ExpectedShares:
    """Average shares of samples by `difficulty`, `tries` and `fallback`; `qualified` candidates."""

    difficulty: Mapping[str, float]
    tries: Mapping[int, float]
    fallback: float
    qualified: float


def fooled_share(count: int, reading: str = "strict") -> float:
    """The share of candidates that fool `count` voters, over questions that are not stubborn.

    With the reading 'contains-2', a vote that names no answer counts for the first, the true one.
    """
    lost_share = 0.0 if reading == "strict" else MALFORMED
    total = 0.0
    for level, level_share in LEVEL_SHARES.items():
        fooled_voters = len(FOOLED_VOTERS[level])
        total += (
            level_share * comb(fooled_voters, count) * (1 - lost_share) ** count * lost_share ** (fooled_voters - count)
            if fooled_voters >= count
            else 0
        )
    return total


def expected_shares(settings: Mapping[str, Any] = PRESETS[0].values) -> ExpectedShares:
    """The expected result of tries (not of clusters) under these settings, over all questions.

    The number of voters that a candidate fools and the entailment judgment are independent of each
    other and of all other candidates. The difficulties of the first qualifying candidate are
    therefore distributed in proportion to those that fool enough voters.
    """
    fooled_shares = {
        count: fooled_share(count, settings["reading"]) for count in range(settings["fooled"], len(VOTERS) + 1)
    }
    refused_share = 0.0
    if settings["entailment"]:
        # A wrong answer is entailed after two independent errors; a paraphrase is found unless one
        # occurs.
        refused_share = (1 - PARAPHRASE) * NLI_ERROR**2 + PARAPHRASE * (1 - NLI_ERROR) ** 2
    qualifying = sum(fooled_shares.values()) * (1 - refused_share)
    per_try = 1 - (1 - qualifying) ** (1 + settings["rewrites"])
    tries = {
        number: (1 - STUBBORN) * (1 - per_try) ** (number - 1) * per_try for number in range(1, settings["tries"] + 1)
    }
    fallback = 1 - sum(tries.values())
    levels = Counter({"easy": fallback})
    for count, share in fooled_shares.items():
        levels[difficulty_of(count, len(VOTERS))] += (1 - fallback) * share / sum(fooled_shares.values())
    return ExpectedShares(levels, tries, fallback, qualifying * (1 - STUBBORN))


def numbered_draft(number, preset="ours", **changes):
    """Return a draft of a made-up question, different for each number."""
    draft = qa_draft(settings=settings(preset, **changes))
    content = {**draft.record.content, "question": f"Question {number}: does walking lower glucose?"}
    return replace(draft, record=replace(draft.record, external_id=str(number), content=content))


@cache
def drafts(preset="ours"):
    return [run_recipe(numbered_draft(number, preset), SimulatedModels()) for number in range(DRAFTS)]


def is_near(count, total, share, z=3.3):
    """Whether a count agrees with a share up to chance; z = 3.3 fails once in a thousand."""
    return abs(count - total * share) <= z * sqrt(total * share * (1 - share)) + 0.5


def test_the_configured_shares_of_difficulty_tries_and_fallback_are_recovered():
    expected = expected_shares()
    finals = [draft.data["final"] for draft in drafts()]
    counts = Counter(final["difficulty"] for final in finals)
    for level in ("easy", "medium", "hard"):
        assert is_near(counts[level], DRAFTS, expected.difficulty[level]), (level, counts, expected)
    assert is_near(sum(final["fallback"] for final in finals), DRAFTS, expected.fallback)
    tries = Counter(final["tries"] for final in finals if not final["fallback"])
    for number, share in expected.tries.items():
        assert is_near(tries[number], DRAFTS, share), (number, tries, expected)


def test_each_voter_is_fooled_at_its_configured_rate():
    first = [draft.data["tries"][0]["candidates"][0] for draft in drafts()]
    for voter, model in enumerate(VOTERS):
        share = sum(width for level, width in LEVEL_SHARES.items() if model in FOOLED_VOTERS[level])
        share *= 1 - STUBBORN
        assert is_near(sum(row["votes"][voter]["fooled"] for row in first), DRAFTS, share)
        assert is_near(sum(bool(row["votes"][voter]["unread"]) for row in first), DRAFTS, MALFORMED)
        assert not any(row["votes"][voter]["broken"] for row in first)


def test_the_order_of_answers_does_not_influence_voters():
    votes = [vote for draft in drafts() for row in all_candidates(draft) for vote in row["votes"]]
    by_order = {
        first: [vote["fooled"] for vote in votes if vote["first"] == first] for first in ("truth", "hallucinated")
    }
    shares = [sum(outcomes) / len(outcomes) for outcomes in by_order.values()]
    assert abs(shares[0] - shares[1]) < 0.05


def test_the_entailment_judge_errs_at_its_configured_rate():
    first = [draft.data["tries"][0]["candidates"][0] for draft in drafts()]
    paraphrases = [row for row in first if row["justification"] == "It is the true answer in other words."]
    assert is_near(len(paraphrases), DRAFTS, PARAPHRASE)
    scores = [row["entailment"] for row in first if row not in paraphrases]
    wrong = sum(score[way] >= 0.75 for score in scores for way in ("forward", "backward"))
    assert is_near(wrong, 2 * len(scores), NLI_ERROR)


def test_answers_have_the_requested_length_after_at_most_one_reminder():
    first = [row for draft in drafts() for row in all_candidates(draft) if row["by"] == "generate"]
    assert not any(row["flags"] for row in first)
    # A paraphrase is never too short.
    assert is_near(sum(bool(row["replaced"]) for row in first), len(first), SHORT * (1 - PARAPHRASE))


def test_all_candidates_of_a_draft_differ():
    for draft in drafts():
        answers = [row["answer"] for row in all_candidates(draft)]
        assert len(set(answers)) == len(answers)


def test_the_detectors_perceive_planted_answers_and_the_truth():
    for draft in drafts()[:50]:
        content = draft.record.content
        assert simulate_detection.perceived_kind(content["question"], content["answer"]) == simulate_detection.TRUE
        for row in all_candidates(draft):
            if row["justification"].startswith("It claims"):
                level = {3: "hard", 2: "medium"}.get(row["fooled"], "easy")
                assert simulate_detection.perceived_kind(content["question"], row["answer"]) == level


def test_the_released_preset_runs_with_the_same_models():
    difficulties = Counter(draft.data["final"]["difficulty"] for draft in drafts("released")[:200])
    assert set(difficulties) == {"easy", "medium", "hard"}
    assert not any(row["entailment"] for draft in drafts("released")[:50] for row in all_candidates(draft))


def test_clusters_are_uniform_except_for_errors_of_the_judge():
    draft = run_recipe(numbered_draft(1, "clusters", candidates=24), SimulatedModels())
    groups = draft.data["clusters"]["clusters"]
    by_number = {row["number"]: row for row in all_candidates(draft)}
    assert len(by_number) == 24
    assert sum(len(group["members"]) for group in groups) == 24
    claims = [
        {row["justification"] for row in map(by_number.__getitem__, group["members"])}
        for group in groups
        if not group["truth"]
    ]
    assert sum(len(justifications) == 1 for justifications in claims) >= len(claims) - 2  # the judge errs
    assert len(groups) < len(CLAIMS)
    assert max(len(group["members"]) for group in groups) > 3


def test_a_regenerated_sample_uses_another_claim():
    for number in range(40):
        first = make_sample(numbered_draft(number), SimulatedModels())
        second = replace(numbered_draft(number), version=2, previous=first.content, reasons=("Obvious.",))
        assert make_sample(second, SimulatedModels()).content["hallucinated"] != first.content["hallucinated"]


def test_outcomes_are_reproducible_by_seed():
    def outcomes(seed):
        return [run_recipe(numbered_draft(number), SimulatedModels(seed=seed)).data["final"] for number in range(20)]

    assert outcomes(1) == outcomes(1)
    assert outcomes(1) != outcomes(2)


@pytest.mark.parametrize("model", ["sim-careful", "sim-judge", "sim-generator"])
def test_requests_for_other_models_or_prompts_get_no_reply(model):
    assert simulate_generation.SCRIPT.reply(model, [Message("user", "Hello")], 0) is None
    assert (
        simulate_generation.SCRIPT.reply(
            model, [Message("system", "# MHB judge: one criterion"), Message("user", "x")], 0
        )
        is None
    )


def test_all_real_questions_become_samples():
    rows = json.loads(public("pubmedqa/ori_pqal.json").read_text(encoding="utf-8"))
    assert len(rows) == 200
    for pmid, row in list(rows.items()):
        draft = qa_draft()
        content = {
            **draft.record.content,
            "question": row["QUESTION"],
            "contexts": row["CONTEXTS"],
            "answer": row["LONG_ANSWER"],
            "pmid": pmid,
            "mesh": row["MESHES"],
        }
        sample = make_sample(
            replace(draft, record=replace(draft.record, external_id=pmid, content=content)), SimulatedModels()
        )
        assert sample.content["hallucinated"] != row["LONG_ANSWER"]
        assert sample.content["pmid"] == pmid


def test_the_readme_states_the_published_shares():
    readme = (Path(simulate_generation.__file__).parent / "README.md").read_text(encoding="utf-8")
    expected = expected_shares()
    shares = [expected.difficulty[level] for level in ("easy", "medium", "hard")] + [
        expected.fallback,
        expected.tries[1],
    ]
    assert f"| share of samples | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |" in readme
