"""MedHallu's simulated models through the real prompts: what was set comes out, within the bounds of chance."""

import json
import os
from collections import Counter
from dataclasses import replace
from functools import cache
from math import sqrt
from pathlib import Path

import pytest

from generation.llm.types import Message
from mhb_site.benchmarks.medhallu import simulate_detection, simulate_generation
from mhb_site.benchmarks.medhallu.presets import PRESETS
from mhb_site.benchmarks.medhallu.simulate_generation import (
    CLAIMS,
    FOOLED_VOTERS,
    LEVEL_SHARES,
    LEVEL_WORDS,
    NLI_ERROR,
    SHORT,
    VOTERS,
    expected_shares,
    fooled_share,
)
from tests.benchmarks.medhallu.helpers import Simulated, all_candidates, made, qa_draft, run, settings

pytestmark = pytest.mark.plain
REAL = Path(__file__).parents[4] / "shared/data/pubmedqa/ori_pqal.json"
DRAFTS = 600


def asked(number, preset="ours", **changes):
    """A draft of a made-up question, another one for every number."""
    draft = qa_draft(settings=settings(preset, **changes))
    content = {**draft.record.content, "question": f"Question {number}: does walking lower glucose?"}
    return replace(draft, record=replace(draft.record, external_id=str(number), content=content))


@cache
def drafts(preset="ours"):
    return [run(asked(number, preset), Simulated()) for number in range(DRAFTS)]


def near(found, of, share, z=3.3):
    """Whether a count is what chance leaves of a share: z = 3.3 is one in a thousand."""
    return abs(found - of * share) <= z * sqrt(of * share * (1 - share)) + 0.5


def test_the_shares_of_difficulty_tries_and_fallback_come_out_as_set():
    true = expected_shares()
    finals = [draft.data["final"] for draft in drafts()]
    counts = Counter(final["difficulty"] for final in finals)
    for level in ("easy", "medium", "hard"):
        assert near(counts[level], DRAFTS, true.difficulty[level]), (level, counts, true)
    assert near(sum(final["fallback"] for final in finals), DRAFTS, true.fallback)
    tries = Counter(final["tries"] for final in finals if not final["fallback"])
    for number, share in true.tries.items():
        assert near(tries[number], DRAFTS, share), (number, tries, true)


def test_the_published_shares_add_up():
    for preset in PRESETS[:2]:
        true = expected_shares(preset.values)
        assert sum(true.difficulty.values()) == pytest.approx(1)
        assert sum(true.tries.values()) + true.fallback == pytest.approx(1)
    assert sum(LEVEL_SHARES.values()) == pytest.approx(1)
    assert sum(fooled_share(count) for count in range(4)) == pytest.approx(1)
    assert true.fallback > simulate_generation.STUBBORN


def test_each_voter_is_fooled_as_often_as_set():
    first = [draft.data["tries"][0]["candidates"][0] for draft in drafts()]
    for at, model in enumerate(VOTERS):
        share = sum(width for level, width in LEVEL_SHARES.items() if model in FOOLED_VOTERS[level])
        share *= 1 - simulate_generation.STUBBORN
        assert near(sum(each["votes"][at]["fooled"] for each in first), DRAFTS, share)
        assert near(sum(bool(each["votes"][at]["unread"]) for each in first), DRAFTS, simulate_generation.MALFORMED)
        assert not any(each["votes"][at]["broken"] for each in first)


def test_voters_do_not_mind_the_order():
    votes = [vote for draft in drafts() for each in all_candidates(draft) for vote in each["votes"]]
    by_order = {
        first: [vote["fooled"] for vote in votes if vote["first"] == first] for first in ("truth", "hallucinated")
    }
    shares = [sum(some) / len(some) for some in by_order.values()]
    assert abs(shares[0] - shares[1]) < 0.05


def test_the_judge_of_entailment_errs_as_often_as_set():
    first = [draft.data["tries"][0]["candidates"][0] for draft in drafts()]
    same = [each for each in first if each["justification"] == "It is the true answer in other words."]
    assert near(len(same), DRAFTS, simulate_generation.PARAPHRASE)
    scores = [each["entailment"] for each in first if each not in same]
    wrong = sum(score[way] >= 0.75 for score in scores for way in ("forward", "backward"))
    assert near(wrong, 2 * len(scores), NLI_ERROR)


def test_answers_are_of_the_wanted_length_after_at_most_one_reminder():
    first = [each for draft in drafts() for each in all_candidates(draft) if each["by"] == "generate"]
    assert not any(each["flags"] for each in first)
    # A paraphrase is never too short.
    assert near(sum(bool(each["replaced"]) for each in first), len(first), SHORT * (1 - simulate_generation.PARAPHRASE))


def test_every_candidate_of_a_draft_is_another_one():
    for draft in drafts():
        answers = [each["answer"] for each in all_candidates(draft)]
        assert len(set(answers)) == len(answers)


def test_what_is_planted_carries_the_words_of_its_level():
    for draft in drafts()[:200]:
        for each in all_candidates(draft):
            level = {3: "hard", 2: "medium", 1: "easy", 0: "easy"}[each["fooled"]]
            if each["justification"].startswith("It claims"):
                assert LEVEL_WORDS[level] in each["answer"]


def test_the_detectors_know_what_was_planted_and_take_the_truth_for_true():
    for draft in drafts()[:50]:
        assert simulate_detection.perceived_kind(draft.record.content["answer"]) == simulate_detection.TRUE
        for each in all_candidates(draft):
            if each["justification"].startswith("It claims"):
                level = {3: "hard", 2: "medium"}.get(each["fooled"], "easy")
                assert simulate_detection.perceived_kind(each["answer"]) == level


def test_the_released_preset_runs_with_the_same_models():
    found = Counter(draft.data["final"]["difficulty"] for draft in drafts("released")[:200])
    assert set(found) == {"easy", "medium", "hard"}
    assert not any(each["entailment"] for draft in drafts("released")[:50] for each in all_candidates(draft))


def test_clusters_are_uniform_and_the_truth_stands_with_its_paraphrases_only():
    draft = run(asked(1, "clusters", candidates=24), Simulated())
    groups = draft.data["clusters"]["clusters"]
    kept = {each["number"]: each for each in all_candidates(draft)}
    assert len(kept) == 24
    assert sum(len(group["members"]) for group in groups) == 24
    claims = [
        {each["justification"] for each in map(kept.__getitem__, group["members"])}
        for group in groups
        if not group["truth"]
    ]
    assert sum(len(some) == 1 for some in claims) >= len(claims) - 2  # the judge errs
    assert len(groups) < len(CLAIMS)
    assert max(len(group["members"]) for group in groups) > 3


def test_a_sample_that_physicians_sent_back_is_made_of_another_claim():
    for number in range(40):
        first = made(asked(number), Simulated())
        again = replace(asked(number), version=2, previous=first.content, reasons=("Obvious.",))
        assert made(again, Simulated()).content["hallucinated"] != first.content["hallucinated"]


def test_another_seed_is_another_outcome():
    def outcomes(seed):
        return [run(asked(number), Simulated(seed=seed)).data["final"] for number in range(20)]

    assert outcomes(1) == outcomes(1)
    assert outcomes(1) != outcomes(2)


@pytest.mark.parametrize("model", ["sim-careful", "sim-judge", "sim-generator"])
def test_what_is_not_ours_is_left_to_others(model):
    assert simulate_generation.reply(model, [Message("user", "Hello")], 0) is None
    assert (
        simulate_generation.reply(model, [Message("system", "# MHB judge: one criterion"), Message("user", "x")], 0)
        is None
    )


def test_all_real_questions_become_samples():
    if not REAL.exists():
        reason = "shared/data/pubmedqa is not there"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    rows = json.loads(REAL.read_text(encoding="utf-8"))
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
        sample = made(replace(draft, record=replace(draft.record, external_id=pmid, content=content)), Simulated())
        assert sample.content["hallucinated"] != row["LONG_ANSWER"]
        assert sample.content["pmid"] == pmid


def test_the_readme_states_the_published_shares():
    readme = (Path(simulate_generation.__file__).parent / "README.md").read_text(encoding="utf-8")
    true = expected_shares()
    shares = [true.difficulty[level] for level in ("easy", "medium", "hard")] + [true.fallback, true.tries[1]]
    assert f"| share of samples | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |" in readme
